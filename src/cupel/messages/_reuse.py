"""Which messages a conversation uses again: counted as it goes on, and turned into values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from cupel.shorten import Rarity

_OFTEN = 2
"""Segments used more often than this share one rate."""
_PRIOR = 60.0
"""The expectation before a conversation has shown its own habits weighs as much as this many observations."""
_CALLS = 8
"""A segment's chance is that of being used by one of this many next calls. Fewer calls favour the
newest segments, which would be rewritten for a single turn's use."""
_TELLING = re.compile(r"[\d_./@]|.[A-Z]")
"""Characters that distinguish a name from an ordinary word."""
_RARE = 8
"""A name in more segments than this does not identify its source."""
_SHORTEST_LINE = 8
_NUMBER = re.compile(r"^\d+[:\-\t ]\s*")
"""Tools number lines, and the same line may come back with another number, or none."""
_SIZE = 0.6
"""A long segment is worth more than a short one, but less per token."""

_Kind = tuple[int, int]
"""An age, in powers of two, and a number of uses."""


class ReuseModel:
    """Counts how often a call uses a segment, by the segment's age and by how often calls used it before.

    On recorded sessions, a segment that was used at once and again stays in use for long; one that was not is hardly
    ever used ten segments later. In other conversations only the newest few matter.
    """

    def __init__(self) -> None:
        self._uses: list[int] = []
        self._present = Counter[_Kind]()
        """How many segments of each kind there are."""
        self._seen = Counter[_Kind]()
        """How many there were when a call was made, summed over all calls."""
        self._used = Counter[_Kind]()

    def ask(self, used: Collection[int]) -> None:
        """Record a call, and the segments that it uses."""
        self._seen.update(self._present)
        for index in used:
            kind = self._kind(index)
            self._used[kind] += 1
            self._uses[index] += 1
            self._move(kind, self._kind(index))

    def add(self) -> None:
        """Record one more segment; all others are older by one."""
        self._uses.append(0)
        count = len(self._uses)
        self._present[0, 0] += 1
        for step in range(1, count.bit_length()):
            oldest = count - (1 << step)  # it has just reached this age
            if oldest >= 0:
                uses = min(self._uses[oldest], _OFTEN)
                self._move((step - 1, uses), (step, uses))

    def chances(self, indexes: Iterable[int]) -> list[float]:
        """Return for some segments how likely one of the next calls is to use them."""
        count = len(self._uses)
        found: dict[_Kind, float] = {}
        for uses in range(_OFTEN + 1):
            for step in range(count.bit_length()):
                rate = self._rate((step, uses))
                # Too few were seen of some kinds; age alone makes nothing more likely.
                found[step, uses] = min(rate, found[step - 1, uses]) if step > 1 else rate
        chances = {kind: 1.0 - (1.0 - rate) ** _CALLS for kind, rate in found.items()}
        return [chances[self._kind(index)] for index in indexes]

    def _rate(self, kind: _Kind) -> float:
        return (self._used[kind] + _PRIOR * _expected(*kind)) / (self._seen[kind] + _PRIOR)

    def _kind(self, index: int) -> _Kind:
        return (len(self._uses) - index).bit_length() - 1, min(self._uses[index], _OFTEN)

    def _move(self, kind: _Kind, other: _Kind) -> None:
        self._present[kind] -= 1
        self._present[other] += 1


def _expected(step: int, uses: int) -> float:
    """Return the rate that recorded sessions of coding agents showed."""
    age = 1.5 * (1 << step) - 1.5
    unused: float = 0.4 * (1 + age / 2) ** -1.5
    used: float = 0.2 * (1 + uses) * (1 + age / 4) ** -0.5
    return used if uses else unused


@dataclass(slots=True)
class _Usage:
    tokens: int
    characters: int = 0
    repeated: int = 0
    """Characters in lines that a later segment repeats."""


class UsageTracker:
    """Follows a conversation segment by segment, at the cost of each segment's own length."""

    def __init__(self) -> None:
        self.rarity = Rarity()
        """The number of segments that contain each name."""
        self.keys: list[str] = []
        self._model = ReuseModel()
        self._usages: list[_Usage] = []
        self._newest: dict[str, int] = {}
        """The newest segment that contains each name."""
        self._lines: dict[int, int] = {}
        """The newest segment that contains each line, by the line's hash: lines are most of a history."""

    def add(self, key: str, tokens: int, *, shown: str, asked: str) -> None:
        """Follow one more segment: its texts, and the arguments of its calls."""
        index = len(self.keys)
        names = [name for name in _names(asked) if _TELLING.search(name)]
        if names:
            # Only the newest that contains a name: wherever it was taken from, that one is enough.
            self._model.ask({self._newest[name] for name in names if 0 < self.rarity[name] <= _RARE})
        usage = _Usage(tokens)
        self.keys.append(key)
        self._model.add()
        self._usages.append(usage)
        found = _names(f"{shown}\n{asked}")
        self.rarity.update(found)
        self._newest.update(dict.fromkeys(found, index))
        for line in _lines(shown):
            usage.characters += len(line)
            mark = hash(line)
            before = self._lines.get(mark)
            if before is not None:
                self._usages[before].repeated += len(line)
            self._lines[mark] = index

    def values(self, indexes: Sequence[int]) -> list[float]:
        """Return the values of segments: more the larger, the likelier used and the less repeated one is."""
        usages = (self._usages[index] for index in indexes)
        return [
            usage.tokens**_SIZE * chance * (1.0 - (usage.repeated / usage.characters if usage.characters else 0.0))
            for usage, chance in zip(usages, self._model.chances(indexes), strict=True)
        ]


def _names(text: str) -> Rarity:
    found = Rarity()
    found.add(text)
    return found


def _lines(text: str) -> Iterable[str]:
    distinct = dict.fromkeys(_NUMBER.sub("", line.strip()) for line in text.split("\n"))
    return (line for line in distinct if len(line) >= _SHORTEST_LINE)
