"""The smallest groups of messages that a request can contain or leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cupel.messages._reading import TWO_CALLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.messages._reading import Reading, Role

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
    requires: tuple[int, ...] = ()
    """Positions of messages without whose units this one cannot be sent, though they can without it."""
    waiting: bool = False
    """It ends in work on the provider's side that goes on with the next request."""
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
        self.requires = tuple(sorted({*self.requires, *other.requires} - {*self.positions}))
        self.waiting = self.waiting or other.waiting
        self.pinned = self.pinned or other.pinned
        self.flaw = self.flaw or other.flaw
        if "exchange" in (self.role, other.role):
            self.role = "exchange"

    def spoil(self, flaw: str) -> None:
        """Note that the unit cannot be sent; the first reason stays."""
        self.flaw = self.flaw or flaw

    def pin(self, note: str | None = None) -> None:
        """Keep the unit whatever the budget; the first note stays."""
        self.pinned = True
        self.note = self.note or note


def unit_of(positions: list[int], readings: Sequence[Reading], flaw: str | None = None) -> Unit:
    """Return a unit over `positions`, with the role and the flaws that its messages give it."""
    members = [readings[position] for position in positions]
    first, last = members[0].role, members[-1].role
    paired = any(member.calls or member.results for member in members)
    role: UnitRole = "exchange" if paired or first == "tool" else first
    flaw = flaw or next((member.flaw for member in members if member.flaw), None)
    return Unit(positions, role, opens=first, closes=last, flaw=flaw)


def holders(units: Iterable[Unit]) -> dict[int, Unit]:
    """Return the unit that each message is part of, by position."""
    return {position: unit for unit in units for position in unit.positions}


def in_order(units: Iterable[Unit]) -> list[Unit]:
    """Return the units by their first messages, each once."""
    distinct = {id(unit): unit for unit in units}
    return sorted(distinct.values(), key=lambda unit: unit.positions[0])


def forbid_repeated_calls(units: Iterable[Unit], readings: Sequence[Reading]) -> None:
    """Ids must be unique in a request: of two exchanges with one id only the newest can be sent."""
    seen: set[str] = set()
    for unit in sorted(units, key=lambda unit: unit.positions[-1], reverse=True):
        calls = [call for position in unit.positions for call in readings[position].calls]
        if seen.intersection(calls) or len(set(calls)) < len(calls):
            unit.spoil(TWO_CALLS)
        if unit.flaw is None:
            seen.update(calls)
