"""Texts as lines: keep those that rank highest, in their order, and count the gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from cupel.shorten._marker import gap, left_out

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.shorten._request import Request

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

    request: Request
    lines: list[str]

    @classmethod
    def of(cls, request: Request) -> Page:
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
        """Return the kept lines in order; one gap says what is missing in all, of several the text's end does."""
        gaps = self._gaps(kept)
        if not gaps:
            return self.request.text
        missing = sum(stop - start for start, stop in gaps)
        present = "".join(self._between(gaps))
        tokens = max(self.request.tokens - self.request.counter.count(present), 0)
        summary = left_out(missing, "line", tokens, note)
        if len(gaps) == 1:
            ((start, stop),) = gaps
            head, tail = self.lines[:start], self.lines[stop:]
            return "".join((*head, summary, self.end if tail else "", *tail))
        parts: list[str] = []
        place = 0
        for start, stop in gaps:
            parts += self.lines[place:start]
            if stop < len(self.lines):
                parts += (gap(stop - start), self.end)
            place = stop
        parts += self.lines[place:]
        if not parts[-1].endswith("\n"):
            parts.append(self.end)
        return "".join((*parts, summary))

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

    def _between(self, gaps: list[tuple[int, int]]) -> list[str]:
        parts: list[str] = []
        place = 0
        for start, stop in gaps:
            parts += self.lines[place:start]
            place = stop
        return parts + self.lines[place:]
