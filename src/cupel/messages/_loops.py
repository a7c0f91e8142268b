"""Thinking in tool loops.

A loop is what the model does between two things that the user says by themselves; results, and words beside results,
go on with it. With thinking on, Anthropic wants the running loop to begin with thinking, as the model made it. Which
loop is running, and where it begins, depends on the selection: leaving out what stood between two loops makes them one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.messages._reading import Reading

NO_THINKING = "the running tool loop would not begin with its thinking"


@dataclass(frozen=True, slots=True)
class Loops:
    """Where the loops of a history begin, and which of them began with thinking."""

    readings: Sequence[Reading]
    openers: dict[int, int]
    """For every message of a loop that began with thinking: the message it began with."""
    borders: dict[int, tuple[int, ...]]
    """For the first message of a loop: the last of the loop before, and what the user said in between."""

    @classmethod
    def of(cls, readings: Sequence[Reading]) -> Loops:
        """Return the loops of a whole history."""
        loops = [loop for loop in _loops(range(len(readings)), readings) if loop]
        openers = {position: loop[0] for loop in loops if readings[loop[0]].opens_thinking for position in loop}
        borders = {after[0]: tuple(range(before[-1], after[0])) for before, after in pairwise(loops)}
        return cls(readings, openers, borders)

    def out_of_place(self, positions: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return the running loop of a selection, and the messages of it that stand before its thinking."""
        loop = _loops(positions, self.readings)[-1]
        if not any(self.readings[at].calls for at in loop) or not any(at in self.openers for at in loop):
            return loop, []
        return loop, list(takewhile(lambda at: not self.readings[at].opens_thinking, loop))

    def mends(self, positions: Iterable[int]) -> list[set[int]]:
        """Return sets of messages of which any would put a selection right, the best first.

        That is a thinking step of the same loop, the nearest before its first step here; or what keeps two loops apart.
        """
        loop, early = self.out_of_place(positions)
        if not early:
            return []
        first = early[0]
        if first in self.openers:
            earlier = range(first - 1, self.openers[first] - 1, -1)
            return [{at} for at in earlier if self.readings[at].opens_thinking]
        merged = next(at for at in loop if at in self.openers)
        return [set(self.borders.get(self.openers[merged], ()))]


def _loops(positions: Iterable[int], readings: Sequence[Reading]) -> list[list[int]]:
    """Return the assistant's messages, loop by loop; the last is the running one, empty if it has yet to begin."""
    loops: list[list[int]] = [[]]
    between: list[Reading] = []
    for position in positions:
        reading = readings[position]
        if reading.role == "assistant":
            if _is_border(between):
                loops.append([])
            loops[-1].append(position)
            between = []
        elif reading.role != "system":
            between.append(reading)
    if _is_border(between):
        loops.append([])
    return loops


def _is_border(between: Sequence[Reading]) -> bool:
    # Neighbours of one role are one turn to the provider: words behind a result do not begin anything new.
    return bool(between) and not any(reading.results for reading in between)
