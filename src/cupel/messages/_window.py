"""One turn of a conversation before it is decided: its segments, the last request, the notes on omitted steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from cupel._planning import Candidate, Entry, FormOption, Planner, TurnStart, TurnTerms
from cupel.messages._cuts import FEWEST_STEPS, LARGEST_OUTPUT, PRESENT_SHARE
from cupel.messages._notes import NOTES_SHARE, OmissionNote, Slot, note_of, note_text, write_notes
from cupel.messages._segments import BEGUN, WHOLE, Omitted, Segment, Segments, level

if TYPE_CHECKING:
    from cupel._planning import Answer
    from cupel.messages._fit import FitTask
    from cupel.messages._history import History
    from cupel.tokens import TokenCounter

_RECALLABLE = 3
"""A segment that was left out can come back while at most this many windows of tokens came after it."""
ANSWER_SHARE: Final = 20
"""A note that the caller writes takes at most this fraction (one twentieth) of the window."""
MESSAGE_FRAME: Final = 5
"""Tokens around a note that is a separate message."""

_ARCHIVING = frozenset(("anthropic", "openai", "openai-responses"))
"""Formats whose messages can be read without those that are archived."""


class PlacedNote(NamedTuple):
    """A note in a request."""

    note: OmissionNote
    in_result: bool
    """Whether it is in a tool result; otherwise it is a separate message."""
    gap: tuple[Omitted, ...]
    """The segments that it covers."""
    words: str = ""
    """The words that the caller wrote for it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """A planned request."""

    entries: tuple[Entry, ...]
    kept: int = 0
    """The number of entries that are sent as they were in the last request."""
    notes: Mapping[int, PlacedNote]
    """Notes, by the segment that they precede."""
    gaps: Mapping[int, tuple[Omitted, ...]]
    """Omitted segments that have no note yet, by the segment that their note will precede."""
    planner: Planner
    terms: TurnTerms
    value: float
    held: frozenset[int]
    violations: Mapping[int, str]
    """Segments that cannot be sent beside the others, with the reason."""
    index: Mapping[str, int]
    """Segments by key."""

    @property
    def sent(self) -> dict[int, str]:
        """The form of each segment that is sent, by index, in order."""
        return {self.index[entry.key]: entry.form for entry in self.entries}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlanner:
    """Plans one request; every method returns a value, and none changes anything."""

    task: FitTask
    source: Segments
    segments: Sequence[Segment]
    values: Sequence[float]
    start: TurnStart
    last: tuple[Entry, ...]
    """The last request, as the history shows it now."""
    window: int
    """Tokens that a request may take."""
    budget: int
    """The same, before anything was observed."""
    keep: float
    worth: float
    gaps: bool
    notes: bool
    """Whether omitted steps are noted."""
    own_notes: bool
    """Whether a note may be a separate message, where no tool result follows it."""
    reserve: int = 0
    """Tokens to leave free for notes that the caller writes."""
    answers: tuple[Answer, ...] = ()
    archived: Mapping[int, Sequence[Omitted]] = field(default_factory=dict[int, Sequence["Omitted"]])
    """Archived segments, by the segment that they precede."""

    @property
    def history(self) -> History:
        return self.task.history

    @property
    def room(self) -> int:
        """Tokens for messages."""
        return self.task.room

    def unit_tokens(self, unit: int) -> int:
        """Return the tokens of a unit."""
        return sum(self.history.parsed[at].tokens for at in self.history.units[unit].positions)

    def whole(self, index: Mapping[str, int], new: range) -> PlannedRequest:
        """Return the request that is the history, message for message."""
        planner = Planner([self._candidate(at, new, self.begun(at)) for at in range(len(self.segments))])
        terms, value = self.start.terms(planner, self.worth, self.room)
        return PlannedRequest(
            entries=tuple(Entry(segment.key, WHOLE, segment.tokens) for segment in self.segments),
            notes={},
            gaps={},
            planner=planner,
            terms=terms,
            value=value,
            held=frozenset(at for at, s in enumerate(self.segments) if self._is_pinned(s) or s.has_user_words),
            violations={},
            index=index,
        )

    def _candidate(self, at: int, new: range, begun: int) -> Candidate:
        segment = self.segments[at]
        option = FormOption(WHOLE, segment.tokens, 1.0)
        return Candidate(segment.key, self.values[at], (option,), held=at in new, new=at in new, begun=begun)

    def begun(self, at: int) -> int:
        """Return the tokens of a segment that the last request already contained."""
        key = self.segments[at].key
        return next((entry.tokens for entry in self.last if entry.key == key and entry.form == BEGUN), 0)

    def _is_pinned(self, segment: Segment) -> bool:
        return any(self.history.units[unit].pinned for unit in segment.units)

    def reusable(self, index: Mapping[str, int]) -> tuple[tuple[Entry, ...], dict[int, PlacedNote]]:
        """Return the entries of the last request that can be sent again as they were, and their notes."""
        notes: dict[int, PlacedNote] = {}
        before, pending = -1, list[Omitted]()
        for count, entry in enumerate(self.last):
            at = index.get(entry.key, -1)
            if at <= before or not self.source.restore(self.segments[at], self.history, entry):
                return self.last[:count], notes
            pending += self.omitted(before, at)
            if entry.steps:
                placed = self._written(at, pending, entry)
                if placed is None:
                    return self.last[:count], notes
                notes[at], pending = placed, []
            before = at
        return self.last, notes

    def _written(self, at: int, gap: Sequence[Omitted], entry: Entry) -> PlacedNote | None:
        """Return the note that an entry of the last request had; None if the history no longer has these steps."""
        if len(gap) != entry.steps or entry.lines > entry.steps:
            return None
        ends = gap[0].key, gap[-1].key
        answer = next((one for one in self.answers if (one.first, one.last) == ends), None)
        if answer is not None:
            note = OmissionNote(note_text(len(gap), answer.text), len(gap), entry.lines)
        else:
            note = note_of([one.trace for one in gap], entry.lines)
        placed = PlacedNote(note, self.segments[at].holder is not None, tuple(gap))
        return placed if self.note_tokens(placed) == entry.noted else None

    def oldest(self) -> int:
        """Return the index of the oldest segment that can come back once it was left out."""
        distance, oldest = 0, len(self.segments)
        largest = int(PRESENT_SHARE * self.budget)  # longer outputs are cut, so one of them counts no more
        while oldest > 0 and distance <= _RECALLABLE * self.budget:
            oldest -= 1
            distance += min(self.segments[oldest].tokens, largest)
        return oldest

    def archivable(self, request: PlannedRequest) -> list[int]:
        """Return the segments that no later request will contain, if others can be read without them."""
        history = self.history
        old = range(FEWEST_STEPS, self.oldest())
        found = [at for at in old if at not in request.sent and self.segments[at].role in ("step", "talk")]
        found = [at for at in found if not self.segments[at].has_user_words and not self._is_pinned(self.segments[at])]
        infos = history.infos
        first = next((at for at, info in enumerate(infos) if info.role != "system"), 0)
        alone = history.framework is None and history.format.name in _ARCHIVING and self.own_notes
        linked = any(info.begun or info.ended or info.within for info in infos)
        thinking = history.rules.loops is not None and any(info.opens_thinking for info in infos)
        system = any(info.role == "system" and info.rejection is None for info in infos[first:])
        return found if alone and not (linked or thinking or system) else []

    def omitted(self, before: int, at: int) -> list[Omitted]:
        """Return the segments between two neighbours in a request that a note tells of."""
        found: list[Omitted] = []
        for one in range(before + 1, at + 1):
            found += self.archived.get(one, ())
            segment = self.segments[one]
            if one < at and segment.role != "system":
                found.append(Omitted(segment.key, segment.trace, one))
        return found

    def previous(self, gap: Sequence[Omitted]) -> tuple[list[int], list[str]]:
        """Return the segments of a gap that no earlier answer covers, and the answers that cover the others."""
        places = {one.key: number for number, one in enumerate(gap)}
        covered, texts = set[int](), list[str]()
        for answer in self.answers:
            if answer.first in places and answer.last in places:
                covered.update(range(places[answer.first], places[answer.last] + 1))
                texts.append(answer.text)
        fresh = (one.place for number, one in enumerate(gap) if number not in covered)
        return [at for at in fresh if at is not None], texts

    def noted(self, request: PlannedRequest, words: Mapping[int, str]) -> PlannedRequest:
        """Return a request with a note for each gap; `words` are those that the caller wrote, by gap."""
        if not request.gaps:
            return request
        taken = sum(entry.noted for entry in request.entries)
        free = self.room - sum(entry.size for entry in request.entries) - MESSAGE_FRAME * len(request.gaps)
        notes = dict(request.notes)
        counter = self.history.counter
        limit = min(self.window // ANSWER_SHARE, free // len(request.gaps))
        for at, text in words.items():
            said, gap = clipped(text, limit, counter), request.gaps[at]
            if not said:
                continue
            note = OmissionNote(note_text(len(gap), said), len(gap), 0)
            notes[at] = PlacedNote(note, self.segments[at].holder is not None, gap, said)
            taken, free = taken + counter.count(note.text), free - counter.count(note.text)
        rest = {
            Slot(at, in_result=self.segments[at].holder is not None): [one.trace for one in gap]
            for at, gap in request.gaps.items()
            if at not in notes
        }
        limit = min(self.window // NOTES_SHARE - taken, free)
        for slot, note in write_notes(rest, counter, limit).items() if limit > 0 else ():
            notes[slot.position] = PlacedNote(note, slot.in_result, request.gaps[slot.position])
        entries = [self._with_note(entry, notes.get(request.index[entry.key])) for entry in request.entries]
        return replace(request, entries=tuple(entries), notes=notes, gaps={})

    def _with_note(self, entry: Entry, placed: PlacedNote | None) -> Entry:
        if placed is None:
            return entry
        note = placed.note
        return msgspec.structs.replace(entry, noted=self.note_tokens(placed), steps=note.steps, lines=note.lines)

    def note_tokens(self, placed: PlacedNote) -> int:
        """Return the tokens that a note adds to a request."""
        return self.history.counter.count(placed.note.text) + (1 if placed.in_result else MESSAGE_FRAME)

    def arrivals(self, sent: set[int]) -> dict[int, str]:
        """Return the forms of segments that were not in the last request: outputs too long for the room are cut."""
        total = sum(segment.tokens for segment in self.segments)
        fixed = self.window - self.room
        arrivals: dict[int, str] = {}
        for at in range(self.oldest(), len(self.segments)):
            segment = self.segments[at]
            sizes = [size for group in segment.sizes.values() for size in group]
            if at in sent or not sizes:
                continue
            outputs = sum(sizes)
            filling = int(self.keep * self.window) - fixed - (total - outputs)
            single = max(int(LARGEST_OUTPUT * self.room), filling)
            limit = min(single, level(sizes, max(int(PRESENT_SHARE * self.room), filling)))
            if max(sizes) > limit:
                name = self.source.shortened(segment, self.history, max(limit, 1))
                if name != WHOLE:
                    arrivals[at] = name
        return arrivals


def clipped(text: str, limit: int, counter: TokenCounter) -> str:
    """Return the beginning of a text, within a limit of tokens."""
    text = " ".join(text.split())
    size = len(text)
    while size > 0 and counter.count(text[:size]) > limit:
        size = min(size - 1, size * max(limit, 1) // counter.count(text[:size]))
    return text if size == len(text) else f"{text[:size].rstrip()}…"
