"""What a conversation makes of its own messages: which are used again, and which are said again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cupel.shorten import Rarity

_TELLING = re.compile(r"[\d_./@]|.[A-Z]")
"""What sets a name apart from an ordinary word."""
_RARE = 8
"""A name that stood in more outputs than these tells nothing of where it came from."""
_SHORTEST_LINE = 8
_NUMBER = re.compile(r"^\d+[:\-\t ]\s*")
"""Tools number lines, and the same line may come back with another number, or none."""
_HALF = 20.0
_SIZE = 0.75


@dataclass(slots=True)
class _Trace:
    tokens: int
    reused: int = 0
    """Later calls that name something rare of it."""
    characters: int = 0
    repeated: int = 0
    """Of its characters, those in lines that stood again later."""


class Traces:
    """Follows a conversation unit by unit, at the cost of each unit's own length."""

    def __init__(self) -> None:
        self.rarity = Rarity()
        """In how many units each name stood."""
        self.keys: list[str] = []
        self._traces: list[_Trace] = []
        self._holders: dict[str, list[int]] = {}
        self._lines: dict[str, int] = {}

    def add(self, key: str, tokens: int, *, shown: str, asked: str) -> None:
        """Follow one more unit: what the model was shown in it, and what it asked for."""
        index = len(self.keys)
        reused = {
            holder
            for name in _names(asked)
            if len(holders := self._holders.get(name, ())) <= _RARE and _TELLING.search(name)
            for holder in holders
        }
        for holder in reused:
            self._traces[holder].reused += 1
        trace = _Trace(tokens)
        self.keys.append(key)
        self._traces.append(trace)
        for name in _names(shown):
            self._holders.setdefault(name, []).append(index)
        self.rarity.add(shown)
        for line in _lines(shown):
            trace.characters += len(line)
            before = self._lines.get(line)
            if before is not None:
                self._traces[before].repeated += len(line)
            self._lines[line] = index

    def values(self) -> list[float]:
        """Return what each unit is worth: more the larger, newer and more used it is, and the less it was repeated."""
        count = len(self._traces)
        return [
            trace.tokens**_SIZE
            * (1.0 + (count - index) / _HALF) ** -0.5
            * (1 + trace.reused)
            * (1.0 - (trace.repeated / trace.characters if trace.characters else 0.0))
            for index, trace in enumerate(self._traces)
        ]


def _names(text: str) -> Iterable[str]:
    found = Rarity()
    found.add(text)
    return found


def _lines(text: str) -> Iterable[str]:
    distinct = dict.fromkeys(_NUMBER.sub("", line.strip()) for line in text.split("\n"))
    return (line for line in distinct if len(line) >= _SHORTEST_LINE)
