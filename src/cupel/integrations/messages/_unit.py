"""The smallest groups of messages that a request can contain or leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.integrations.messages._reading import Reading, Role

UnitRole = Literal["assistant", "exchange", "system", "user"]
"""What a unit is: somebody's message, or an `exchange`: calls with all their results."""


@dataclass(slots=True)
class Unit:
    """Messages that are only legal together, by position in the history."""

    positions: list[int]
    role: UnitRole
    opens: Role
    """The role of its first message."""
    closes: Role
    """The role of its last message."""
    pinned: bool = False
    flaw: str | None = None
    """Why it can never be sent."""
    note: str | None = None
    """Why it is pinned, if not by role or by the caller."""

    def absorb(self, other: Unit, readings: Sequence[Reading]) -> None:
        """Make `other` part of this unit."""
        self.positions = sorted({*self.positions, *other.positions})
        self.opens = readings[self.positions[0]].role
        self.closes = readings[self.positions[-1]].role
        self.pinned = self.pinned or other.pinned
        self.flaw = self.flaw or other.flaw
        if "exchange" in (self.role, other.role):
            self.role = "exchange"


def unit_of(positions: list[int], readings: Sequence[Reading], flaw: str | None = None) -> Unit:
    """A unit over `positions`, with the role, default pin and flaws that its messages give it."""
    members = [readings[position] for position in positions]
    first, last = members[0].role, members[-1].role
    paired = any(member.calls or member.results for member in members)
    role: UnitRole = "exchange" if paired or first == "tool" else first
    return Unit(
        positions,
        role,
        opens=first,
        closes=last,
        pinned=first == "system",
        flaw=flaw or next((member.flaw for member in members if member.flaw), None),
    )
