"""How a conversation comes back to what it was shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

_OFTEN = 2
"""Units used more often than this are not told apart."""
_PRIOR = 20.0
"""As many observations as these weighs what is expected before a conversation has shown its own habits."""

_CALLS = 4
"""A unit is worth how likely one of so many next calls uses it. One call alone asks for the newest above all, which is
written again for a turn's use; eight cost some of what the conversation uses after all."""

_Kind = tuple[int, int]
"""An age, in powers of two, and a number of uses."""


class Habits:
    """How often a call uses a unit, by the unit's age and by how often calls used it before: counted, not assumed.

    On recorded sessions, a unit that was used at once and again is used on for long, one that was not is hardly ever
    used ten units later; in other conversations only the newest few matter.
    """

    def __init__(self) -> None:
        self._uses: list[int] = []
        self._standing = Counter[_Kind]()
        """How many units of each kind there are."""
        self._seen = Counter[_Kind]()
        """How many stood there when something was asked, over all calls."""
        self._used = Counter[_Kind]()

    def ask(self, used: Collection[int]) -> None:
        """Note a call, and the units that it uses."""
        self._seen.update(self._standing)
        for index in used:
            kind = self._kind(index)
            self._used[kind] += 1
            self._uses[index] += 1
            self._move(kind, self._kind(index))

    def add(self) -> None:
        """Note one more unit; all others are older by one."""
        self._uses.append(0)
        count = len(self._uses)
        self._standing[0, 0] += 1
        for step in range(1, count.bit_length()):
            oldest = count - (1 << step)  # it has just come to this age
            if oldest >= 0:
                uses = min(self._uses[oldest], _OFTEN)
                self._move((step - 1, uses), (step, uses))

    def chances(self) -> list[float]:
        """Return for each unit how likely one of the next calls is to use it."""
        count = len(self._uses)
        found: dict[_Kind, float] = {}
        for uses in range(_OFTEN + 1):
            for step in range(count.bit_length()):
                rate = self._rate((step, uses))
                # Too few were seen of some kinds; age alone makes nothing more likely.
                found[step, uses] = min(rate, found[step - 1, uses]) if step > 1 else rate
        chances = {kind: 1.0 - (1.0 - rate) ** _CALLS for kind, rate in found.items()}
        return [chances[self._kind(index)] for index in range(count)]

    def _rate(self, kind: _Kind) -> float:
        return (self._used[kind] + _PRIOR * _expected(*kind)) / (self._seen[kind] + _PRIOR)

    def _kind(self, index: int) -> _Kind:
        return (len(self._uses) - index).bit_length() - 1, min(self._uses[index], _OFTEN)

    def _move(self, kind: _Kind, other: _Kind) -> None:
        self._standing[kind] -= 1
        self._standing[other] += 1


def _expected(step: int, uses: int) -> float:
    """Return what recorded sessions of coding agents showed."""
    age = 1.5 * (1 << step) - 1.5
    unused: float = 0.4 * (1 + age / 2) ** -1.5
    used: float = 0.2 * (1 + uses) * (1 + age / 4) ** -0.5
    return used if uses else unused
