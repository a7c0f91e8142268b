"""Where a selection may begin and end.

A conversation begins with the user, and the assistant has the last word only where it continues its own. Anthropic
insists on it, and so do many models behind OpenAI's format. Selecting freely can break both; units are then added at
the ends where that fits, or else dropped from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cupel.messages._unit import Unit

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
        talk = _talk(units, chosen)
        if not talk:
            return []
        others = [i for i in _talk(units, range(len(units))) if units[i].flaw is None]
        if not self.opens(units[talk[0]]):
            return [i for i in reversed(others) if i < talk[0] and self.opens(units[i])]
        final = max((units[index] for index in talk), key=_end)
        if self.closes(final):
            return []
        closers = [i for i in others if self.closes(units[i]) and _end(units[i]) > _end(final)]
        return sorted(closers, key=lambda index: _end(units[index]))

    def trim(self, units: Sequence[Unit], chosen: Collection[int]) -> dict[int, str]:
        """Return the units at the ends of `chosen` that have to go, with the reason."""
        talk = _talk(units, chosen)
        early = list(takewhile(lambda index: not self.opens(units[index]), talk))
        rest = sorted(talk[len(early) :], key=lambda index: -_end(units[index]))
        late = takewhile(lambda index: not self.closes(units[index]), rest)
        return dict.fromkeys(early, NO_OPENING) | dict.fromkeys(late, NO_CLOSING)


def _talk(units: Sequence[Unit], chosen: Collection[int]) -> list[int]:
    """Return the units that somebody says, in order."""
    return sorted(index for index in chosen if units[index].role != "system")


def _end(unit: Unit) -> int:
    return unit.positions[-1]
