"""Gaps in a request, and the notes on them: where each note goes, and which steps it covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from cupel.messages._notes import OmittedStep, note_of, note_text, write_notes
from cupel.messages._present import MESSAGE_FRAME

if TYPE_CHECKING:
    from cupel._planning import Answer, Entry
    from cupel.messages._notes import Slot
    from cupel.messages._segments import Segment
    from cupel.tokens import TokenCounter

Gap = tuple[OmittedStep, ...]
"""Omitted steps that share a note."""


class PlacedNote(NamedTuple):
    """A note in a request."""

    text: str
    lines: int
    """How many of its steps have their own line."""
    slot: Slot
    gap: Gap
    """The steps that it covers."""
    words: str = ""
    """The words that the caller wrote for it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Finds the segments that a request omits, and writes the notes on them."""

    segments: Sequence[Segment]
    counter: TokenCounter
    archived: Mapping[int, Sequence[OmittedStep]] = field(default_factory=dict[int, Sequence[OmittedStep]])
    """Archived segments, by the segment that they precede."""
    answers: tuple[Answer, ...] = ()
    """Notes that the caller wrote for the last request."""
    separate: bool = True
    """Whether a note may be a separate message, where no tool result follows it."""

    def omitted(self, before: int, at: int) -> list[OmittedStep]:
        """Return the segments between two neighbours in a request that a note tells of."""
        found: list[OmittedStep] = []
        for one in range(before + 1, at + 1):
            found += self.archived.get(one, ())
            segment = self.segments[one]
            if one < at and segment.role != "system":
                found.append(segment.trace)
        return found

    def between(
        self, order: Sequence[int], kept: int = 0, prefix: Mapping[int, PlacedNote] | None = None
    ) -> dict[int, Gap]:
        """Return the omitted segments that have no note yet, by the segment that their note will precede.

        Args:
            order: the segments of the request.
            kept: how many of them are sent as they were in the last request.
            prefix: the notes that these have.
        """
        gaps: dict[int, Gap] = {}
        before, pending, place = -1, list[OmittedStep](), -1
        for number, at in enumerate(order):
            omitted = self.omitted(before, at)
            before = at
            if omitted and (not pending or number <= kept):
                place = at
            pending += omitted
            if at in (prefix or ()):
                pending = []
            elif pending and number >= kept and self.segments[at].holder is not None:
                gaps[at], pending = tuple(pending), []
        if pending and self.separate and place in order[kept:]:
            gaps[place] = tuple(pending)
        return gaps

    def recalled(self, at: int, gap: Sequence[OmittedStep], entry: Entry) -> PlacedNote | None:
        """Return the note that an entry of the last request had; None if the history no longer has these steps."""
        if len(gap) != entry.steps or entry.lines > entry.steps:
            return None
        ends = gap[0].key, gap[-1].key
        answer = next((one for one in self.answers if (one.first, one.last) == ends), None)
        text = note_of(gap, entry.lines) if answer is None else note_text(len(gap), answer.text)
        placed = PlacedNote(text, entry.lines, self.segments[at].slot, tuple(gap))
        return placed if self.tokens(placed) == entry.noted else None

    def previous(self, gap: Gap) -> tuple[list[int], list[str]]:
        """Return the segments of a gap that no earlier answer covers, and the answers that cover the others."""
        places = {one.key: number for number, one in enumerate(gap)}
        covered, texts = set[int](), list[str]()
        for answer in self.answers:
            if answer.first in places and answer.last in places:
                covered.update(range(places[answer.first], places[answer.last] + 1))
                texts.append(answer.text)
        fresh = {one.key for number, one in enumerate(gap) if number not in covered}
        return [at for at, segment in enumerate(self.segments) if segment.key in fresh], texts

    def answered(self, at: int, gap: Gap, text: str, limit: int) -> PlacedNote | None:
        """Return the note with the words that the caller wrote, within a limit of tokens; None if there are none."""
        said = clipped(text, limit, self.counter)
        return PlacedNote(note_text(len(gap), said), 0, self.segments[at].slot, gap, said) if said else None

    def written(self, gaps: Mapping[int, Gap], limit: int) -> dict[int, PlacedNote]:
        """Return the notes on gaps, by the segment that they precede, within a limit of tokens for all of them."""
        notes = write_notes(gaps, self.counter, limit) if limit > 0 else {}
        return {at: PlacedNote(*note, self.segments[at].slot, gaps[at]) for at, note in notes.items()}

    def tokens(self, placed: PlacedNote) -> int:
        """Return the tokens that a note adds to a request."""
        if placed.slot.in_result:
            return self.counter.count(f"{placed.text}\n")  # the line break before the result
        return self.counter.count(placed.text) + MESSAGE_FRAME


def clipped(text: str, limit: int, counter: TokenCounter) -> str:
    """Return the beginning of a text, within a limit of tokens."""
    text = " ".join(text.split())
    size = len(text)
    while size > 0 and counter.count(text[:size]) > limit:
        size = min(size - 1, size * max(limit, 1) // counter.count(text[:size]))
    return text if size == len(text) else f"{text[:size].rstrip()}…"
