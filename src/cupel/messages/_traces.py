"""What a conversation makes of its own messages: which are used again, and which are said again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cupel.messages._habits import Habits
from cupel.shorten import Rarity

_TELLING = re.compile(r"[\d_./@]|.[A-Z]")
"""What sets a name apart from an ordinary word."""
_RARE = 8
"""A name that stood in more outputs than these tells nothing of where it came from."""
_SHORTEST_LINE = 8
_NUMBER = re.compile(r"^\d+[:\-\t ]\s*")
"""Tools number lines, and the same line may come back with another number, or none."""
_SIZE = 0.75
"""A long unit says more than a short one, but less for each token."""


@dataclass(slots=True)
class _Trace:
    tokens: int
    characters: int = 0
    repeated: int = 0
    """Of its characters, those in lines that stood again later."""


class Traces:
    """Follows a conversation unit by unit, at the cost of each unit's own length."""

    def __init__(self) -> None:
        self.rarity = Rarity()
        """In how many units each name stood."""
        self.keys: list[str] = []
        self._habits = Habits()
        self._traces: list[_Trace] = []
        self._newest: dict[str, int] = {}
        """The newest unit in which each name stood."""
        self._lines: dict[str, int] = {}

    def add(self, key: str, tokens: int, *, shown: str, asked: str) -> None:
        """Follow one more unit: what the model was shown in it, and what it asked for."""
        index = len(self.keys)
        names = [name for name in _names(asked) if _TELLING.search(name)]
        if names:
            # Only the newest that held a name: whatever it was taken from, that one is enough.
            self._habits.ask({self._newest[name] for name in names if 0 < self.rarity[name] <= _RARE})
        trace = _Trace(tokens)
        self.keys.append(key)
        self._habits.add()
        self._traces.append(trace)
        found = _names(shown)
        self.rarity.update(found)
        self._newest.update(dict.fromkeys(found, index))
        for line in _lines(shown):
            trace.characters += len(line)
            before = self._lines.get(line)
            if before is not None:
                self._traces[before].repeated += len(line)
            self._lines[line] = index

    def values(self) -> list[float]:
        """Return what each unit is worth: more the larger it is, the likelier used, and the less of it was repeated."""
        return [
            trace.tokens**_SIZE * chance * (1.0 - (trace.repeated / trace.characters if trace.characters else 0.0))
            for trace, chance in zip(self._traces, self._habits.chances(), strict=True)
        ]


def _names(text: str) -> Rarity:
    found = Rarity()
    found.add(text)
    return found


def _lines(text: str) -> Iterable[str]:
    distinct = dict.fromkeys(_NUMBER.sub("", line.strip()) for line in text.split("\n"))
    return (line for line in distinct if len(line) >= _SHORTEST_LINE)
