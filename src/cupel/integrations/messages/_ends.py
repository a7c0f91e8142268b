"""Where a selection may begin and end.

A conversation begins with the user, and the assistant has the last word only where it continues its own. Anthropic
insists on it, and so do many models behind OpenAI's format. Selecting freely can break both; units are then added at
the ends where that fits, or else dropped from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cupel.integrations.messages._unit import Unit

NO_OPENING = "nothing the user said comes before it"
NO_CLOSING = "nothing comes after it that the model could answer"


@dataclass(frozen=True, slots=True)
class Ends:
    """Which units may stand first and last: those of the user, and those that already did."""

    first: int
    """Where the assistant may begin."""
    last: int
    """Where the assistant may end."""

    @classmethod
    def strict(cls, size: int) -> Ends:
        """Return the ends for so many messages: the assistant never begins, and ends with its last message only."""
        return cls(-1, size - 1)

    @classmethod
    def lenient(cls, units: Sequence[Unit]) -> Ends:
        """Return ends that let the assistant begin and end where everything that can be sent does."""
        talk = [unit for unit in units if unit.role != "system" and unit.flaw is None]
        return cls(
            min((unit.positions[0] for unit in talk), default=-1),
            max((unit.positions[-1] for unit in talk), default=-1),
        )

    def opens(self, unit: Unit) -> bool:
        """Return whether the unit may stand first."""
        return unit.opens == "user" or unit.positions[0] == self.first

    def closes(self, unit: Unit) -> bool:
        """Return whether the unit may stand last."""
        return unit.closes != "assistant" or unit.positions[-1] == self.last

    def companions(self, units: Sequence[Unit], chosen: Collection[int]) -> list[int]:
        """Return the units of which any would mend the beginning of `chosen`, or else its end; the nearest first."""
        talk = [index for index in chosen if units[index].role != "system"]
        if not talk:
            return []
        others = [i for i, unit in enumerate(units) if unit.role != "system" and unit.flaw is None]
        first = min(talk, key=lambda index: units[index].positions[0])
        if not self.opens(units[first]):
            start = units[first].positions[0]
            openers = [i for i in others if self.opens(units[i]) and units[i].positions[0] < start]
            return sorted(openers, key=lambda index: -units[index].positions[0])
        final = max(talk, key=lambda index: units[index].positions[-1])
        if not self.closes(units[final]):
            end = units[final].positions[-1]
            closers = [i for i in others if self.closes(units[i]) and units[i].positions[-1] > end]
            return sorted(closers, key=lambda index: units[index].positions[-1])
        return []

    def trim(self, units: Sequence[Unit], chosen: Collection[int]) -> dict[int, str]:
        """Return the units at the ends of `chosen` that have to go, with the reason."""
        dropped: dict[int, str] = {}
        talk = [index for index in chosen if units[index].role != "system"]
        for index in sorted(talk, key=lambda index: units[index].positions[0]):
            if self.opens(units[index]):
                break
            dropped[index] = NO_OPENING
        for index in sorted(talk, key=lambda index: -units[index].positions[-1]):
            if index in dropped:
                continue
            if self.closes(units[index]):
                break
            dropped[index] = NO_CLOSING
        return dropped
