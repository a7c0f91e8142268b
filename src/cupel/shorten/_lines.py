"""Texts as lines: keep those that rank highest, in their order, and count the gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeAlias

from cupel.shorten._marker import gap, left_out

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.shorten._request import ShortenCall

_SPARE = 4  # lines are ranked until they hold this many times the room, in case they take fewer tokens than most

_SHORT_GAP = 16  # more lines than this are longer than any marker of them, even if all are empty

Note: TypeAlias = Callable[[list[int]], str] | str
"""What a marker says beside its numbers; as a function, it is given the positions of the kept lines."""


def split_lines(text: str) -> list[str]:
    r"""Split after each `\n`, and nowhere else: other separators stay inside their line."""
    *ended, last = text.split("\n")
    lines = [line + "\n" for line in ended]
    if last:
        lines.append(last)
    return lines


@dataclass(frozen=True, slots=True)
class Page:
    """The lines of a request's text, and how to write some of them."""

    request: ShortenCall
    lines: list[str]

    @classmethod
    def of(cls, request: ShortenCall) -> Page:
        """Split the text of a request."""
        return cls(request, split_lines(request.text))

    @property
    def end(self) -> str:
        """The line end that markers get: the text's own."""
        return "\r\n" if self.lines[0].endswith("\r\n") else "\n"

    def keep(self, ranking: Iterable[int], note: Note = "") -> str | None:
        """Return the highest ranking lines that the limit allows, or None where it allows not one.

        Lines longer than the room can never be kept and are passed over.
        """
        chosen: list[int] = []
        room, held = self.request.room, 0
        for position in ranking:
            length = len(self.lines[position])
            if length <= 2 * room:
                chosen.append(position)
                held += length
                if held > _SPARE * room:
                    break

        def build(size: int) -> str:
            kept = sorted(chosen[:size])
            return self.written(kept, note(kept) if callable(note) else note)

        guess = len(chosen) * room // max(held, 1)
        return self.request.largest(build, len(chosen), guess=guess)

    def written(self, kept: list[int], note: str = "") -> str:
        """Return the kept lines in order; each gap is counted, and the last one says what is missing in all."""
        gaps = self._gaps(kept)
        if not gaps:
            return self.request.text
        pieces = [self.lines[start:stop] for start, stop in pairwise((0, *chain.from_iterable(gaps), len(self.lines)))]
        present = "".join(chain.from_iterable(pieces[::2]))
        tokens = max(self.request.tokens - self.request.counter.count(present), 0)
        markers = [gap(len(missing)) for missing in pieces[1::2]]
        markers[-1] = left_out(sum(map(len, pieces[1::2])), "line", tokens, note)
        parts: list[str] = []
        for lines, marker in zip(pieces[::2], markers, strict=False):
            parts += (*lines, marker, self.end)
        if not pieces[-1]:
            parts.pop()
        return "".join((*parts, *pieces[-1]))

    def marker(self, note: str = "") -> str:
        """Return the marker alone: every line is missing."""
        return left_out(len(self.lines), "line", self.request.tokens, note)

    def _gaps(self, kept: list[int]) -> list[tuple[int, int]]:
        """Where lines are missing; a gap no longer than its own marker is not worth one and is filled."""
        gaps: list[tuple[int, int]] = []
        place = 0
        for position in (*kept, len(self.lines)):
            if position > place:
                missing = self.lines[place:position]
                if len(missing) > _SHORT_GAP or sum(map(len, missing)) > len(gap(len(missing))):
                    gaps.append((place, position))
            place = position + 1
        return gaps
