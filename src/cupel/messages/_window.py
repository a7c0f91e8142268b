"""Planning one request of a conversation.

A history that fits is sent whole. Beyond that, the last request is continued as long as the new messages fit after it.
When they do not, the planner decides where to cut it and which segments to send after the cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec

from cupel._planning import Candidate, Entry, FormOption, Planner, TurnStart, TurnTerms
from cupel.messages._gaps import PlacedNote
from cupel.messages._notes import NOTES_SHARE, OmittedStep
from cupel.messages._present import FEWEST_STEPS, MESSAGE_FRAME, PRESENT_SHARE, Held, Present
from cupel.messages._results import too_large
from cupel.messages._segments import BEGUN, WHOLE, Segment, Segments

if TYPE_CHECKING:
    from cupel.messages._gaps import Gap, Gaps
    from cupel.messages._history import History

ANSWER_SHARE: Final = 20
"""A note that the caller writes takes at most this fraction (one twentieth) of the window."""
_RECALLABLE = 3
"""A segment that was left out can come back while at most this many windows of tokens came after it."""
_LIMITS = (160, 8)
"""Older outputs may be shortened to these parts of the window."""
_LEAST_LIMIT = 40
_SHRINKS = 0.8
"""A form that keeps more of the tokens is not offered."""
_SHARE = 0.35
"""A form with a share x of the tokens is worth x ** `_SHARE` of the whole."""
_TALK = 0.7
"""The assistant's words are kept whatever their price while the request takes at most this share of the room."""
_NOTE_FRAME = 10
"""Tokens of a note besides its lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """A planned request."""

    entries: tuple[Entry, ...]
    sent: Mapping[int, str]
    """The form of each segment that is sent, by index, in order."""
    notes: Mapping[int, PlacedNote]
    """Notes, by the segment that they precede."""
    gaps: Mapping[int, Gap]
    """Omitted segments that have no note yet, by the segment that their note will precede."""
    planner: Planner
    terms: TurnTerms
    value: float
    held: frozenset[int]
    violations: Mapping[int, str]
    """Segments that cannot be sent beside the others, with the reason."""


@dataclass(frozen=True, kw_only=True)
class TurnPlanner:
    """Plans one request; every method returns a value, and none changes anything."""

    history: History
    source: Segments
    segments: Sequence[Segment]
    values: Sequence[float]
    start: TurnStart
    noting: Gaps
    window: int
    """Tokens that a request may take."""
    budget: int
    """The same, before anything was observed."""
    keep: float
    worth: float
    gaps: bool
    notes: bool
    """Whether omitted steps are noted."""
    reserve: int = 0
    """Tokens to leave free for notes that the caller writes."""

    @cached_property
    def room(self) -> int:
        """Tokens for messages."""
        return self.window - self.history.fixed_tokens

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Segments by key."""
        return {segment.key: at for at, segment in enumerate(self.segments)}

    @cached_property
    def _begun(self) -> Mapping[str, int]:
        """Tokens of segments that have grown since the last request contained them, by key."""
        return {entry.key: entry.tokens for entry in self.start.last if entry.form == BEGUN}

    @cached_property
    def _new(self) -> range:
        """Segments after the newest one of the last request."""
        last = self.start.state.last
        sent = [self.index[entry.key] for entry in last if entry.key in self.index and entry.form != BEGUN]
        return range(max(sent) + 1, len(self.segments)) if sent else range(0)

    @cached_property
    def _reusable(self) -> tuple[tuple[Entry, ...], Mapping[int, PlacedNote]]:
        """The entries of the last request that can be sent again as they were, and their notes."""
        last, notes = self.start.last, dict[int, PlacedNote]()
        before, pending = -1, list[OmittedStep]()
        for count, entry in enumerate(last):
            at = self.index.get(entry.key, -1)
            if at <= before or not self.source.restore(self.segments[at], self.history, entry):
                return last[:count], notes
            pending += self.noting.omitted(before, at)
            if entry.steps:
                placed = self.noting.recalled(at, pending, entry)
                if placed is None:
                    return last[:count], notes
                notes[at], pending = placed, []
            before = at
        return last, notes

    @cached_property
    def _present(self) -> Present:
        total = sum(segment.tokens for segment in self.segments)
        return Present(
            history=self.history,
            source=self.source,
            segments=self.segments,
            room=self.room,
            excess=total - (int(self.keep * self.window) - self.history.fixed_tokens),
            sent={entry.key: entry.form for entry in self._reusable[0]},
            new=self._new,
            gaps=self.gaps,
        )

    def plan(self) -> PlannedRequest:
        """Return the next request; raise an error that lists the pinned messages if they do not fit."""
        if sum(segment.tokens for segment in self.segments) <= self.room:
            return self._whole()
        if (request := self._continued()) is not None:
            return request
        for held in chain(self._present.levels(), self._present.least()):
            if (request := self._repacked(held)) is not None:
                return request
        units = [unit for at in self._present.needed(set()) for unit in self.segments[at].units]
        raise too_large(self.history, self.window, units)

    def lacks_words(self, request: PlannedRequest) -> bool:
        """Return whether a request leaves out words of the user that might fit if interleaved units were parted."""
        words = {at for at, segment in enumerate(self.segments) if segment.has_user_words}
        joined = any(len(self.segments[at].units) > 1 for at in words)
        return self.gaps and joined and not request.sent.keys() >= words

    def _whole(self) -> PlannedRequest:
        """Return the request that is the history, message for message."""
        planner = self._planner(dict.fromkeys(range(len(self.segments)), WHOLE))
        entries = tuple(Entry(segment.key, WHOLE, segment.tokens) for segment in self.segments)
        held = [at for at, segment in enumerate(self.segments) if self._is_pinned(segment) or segment.has_user_words]
        return self._request(entries, 0, planner, *self._terms(planner), held=held)

    def _is_pinned(self, segment: Segment) -> bool:
        return any(self.history.units[unit].pinned for unit in segment.units)

    def _continued(self) -> PlannedRequest | None:
        """Return the last request with the new messages after it, if that fits and holds all it must."""
        last, new, present = self._reusable[0], self._new, self._present
        complete = len(last) == sum(entry.form != BEGUN for entry in self.start.last)
        if self.start.cold or not new or not last or not complete:
            return None
        sent = [*(self.index[entry.key] for entry in last), *new]
        held = present.needed(present.wanted())
        forms = {at: present.form(at) for at in sent}
        entries = (*last, *(Entry(self.segments[at].key, forms[at], present.tokens(at, forms[at])) for at in new))
        units = {unit for at in sent for unit in self.segments[at].units}
        fits = held <= {*sent} and sum(entry.size for entry in entries) <= self.room
        if not fits or self.history.rules.drop_violations(units):
            return None
        planner = self._planner(forms, range(self._oldest, len(self.segments)))
        return self._request(entries, len(last), planner, *self._terms(planner), held=held)

    def _repacked(self, held: Held) -> PlannedRequest | None:
        """Return the best request that contains the held segments; None if there is none."""
        last, room, violations = self._reusable[0], self.room - self.reserve, dict[int, str]()
        others = {*range(self._oldest, len(self.segments)), *(self.index[entry.key] for entry in last)}
        for _ in range(2 * len(self.segments) + 8):
            planner = self._planner(held, others - violations.keys())
            terms, value = self._terms(planner, room)
            plan = planner.plan(last, terms) if self.gaps else planner.unbroken(last, terms)
            if plan is None:
                if room == self.room:
                    return None
                room = self.room
                continue
            entries = planner.entries(last, plan)
            if gone := self._violations(entries, held):
                if held.keys() & gone.keys():
                    return None
                violations |= gone
                continue
            return self._request(entries, plan.kept, planner, terms, value, held=held, violations=violations)
        return None

    def _violations(self, entries: Sequence[Entry], held: Held) -> dict[int, str]:
        """Return the segments that the provider would not accept in this request, with the reason."""
        chosen = {unit for entry in entries for unit in self.segments[self.index[entry.key]].units}
        keep = {unit for at in held for unit in self.segments[at].units}
        gone = self.history.rules.drop_violations(chosen, keep)
        found = {at: gone[unit] for at, segment in enumerate(self.segments) for unit in segment.units if unit in gone}
        if found and not self.gaps:  # then everything older goes too
            found = {at: gone[min(gone)] for at in range(max(found)) if at not in held} | found
        return found

    def _terms(self, planner: Planner, room: int | None = None) -> tuple[TurnTerms, float]:
        """Return the numbers that decide, and the value of a freshly selected window."""
        terms, value = self.start.terms(planner, self.worth, self.room)
        if room is None:
            return terms, value
        least, notes = int(self.keep * self.window) - self.history.fixed_tokens, self.window // NOTES_SHARE
        preferred = int(_TALK * room)
        numbers = {"room": room, "least": least, "preferred": preferred, "notes": notes if self.notes else 0}
        return msgspec.structs.replace(terms, **numbers), value

    def _planner(self, held: Held, others: Iterable[int] = ()) -> Planner:
        return Planner([self._candidate(at, held) for at in sorted({*held, *others})])

    def _candidate(self, at: int, held: Held) -> Candidate:
        segment, present = self.segments[at], self._present
        if at in held:
            options = [FormOption(held[at], present.tokens(at, held[at]), 1.0)]
        else:
            names = {present.form(at), *self._shorter(at)}
            sizes = {name: present.tokens(at, name) for name in names}
            options = [
                FormOption(name, size, (size / max(segment.tokens, 1)) ** _SHARE) for name, size in sizes.items()
            ]
            options.sort(key=lambda option: (option.tokens, option.form))
        noted = self.notes and segment.role in ("step", "talk")
        return Candidate(
            segment.key,
            self.values[at],
            tuple(options),
            held=at in held,
            new=at in self._new,
            begun=self._begun.get(segment.key, 0),
            cut=options[-1].form != WHOLE,
            preferred=segment.role == "talk" or segment.has_user_words,
            trace=segment.trace.tokens + _NOTE_FRAME if noted else 0,
        )

    def _shorter(self, at: int) -> Iterable[str]:
        """Return the names of a step's shorter forms."""
        present = self._present
        base = present.tokens(at, present.form(at))
        for part in _LIMITS:
            limit = max(_LEAST_LIMIT, self.window // part)
            name = self.source.shortened(self.segments[at], self.history, limit)
            if name != WHOLE and present.tokens(at, name) <= _SHRINKS * base:
                yield name

    def _request(
        self,
        entries: tuple[Entry, ...],
        kept: int,
        planner: Planner,
        terms: TurnTerms,
        value: float,
        *,
        held: Iterable[int],
        violations: Mapping[int, str] | None = None,
    ) -> PlannedRequest:
        """Return a request that begins with `kept` entries of the last one."""
        sent = {self.index[entry.key]: entry.form for entry in entries}
        order = [*sent]
        earlier: Mapping[int, PlacedNote] = self._reusable[1] if kept else {}
        notes = {at: earlier[at] for at in order[:kept] if at in earlier}
        return PlannedRequest(
            entries=entries,
            sent=sent,
            notes=notes,
            gaps=self.noting.between(order, kept, notes) if self.notes else {},
            planner=planner,
            terms=terms,
            value=value,
            held=frozenset(held),
            violations=violations or {},
        )

    @cached_property
    def _oldest(self) -> int:
        """The index of the oldest segment that can come back once it was left out."""
        distance, oldest = 0, len(self.segments)
        largest = int(PRESENT_SHARE * self.budget)  # longer outputs are cut, so one of them counts no more
        while oldest > 0 and distance <= _RECALLABLE * self.budget:
            oldest -= 1
            distance += min(self.segments[oldest].tokens, largest)
        return oldest

    def archivable(self, request: PlannedRequest) -> list[int]:
        """Return the segments that no later request will contain, if others can be read without them."""
        history, sent = self.history, request.sent
        old = [at for at in range(FEWEST_STEPS, self._oldest) if at not in sent]
        found = [at for at in old if self.segments[at].role in ("step", "talk")]
        found = [at for at in found if not self.segments[at].has_user_words and not self._is_pinned(self.segments[at])]
        infos = history.infos
        first = next((at for at, info in enumerate(infos) if info.role != "system"), 0)
        linked = any(info.begun or info.ended or info.within for info in infos)
        system = any(info.role == "system" and info.rejection is None for info in infos[first:])
        if history.alternate or linked or system:
            return []
        needed = self._loop_ends()
        return [at for at in found if needed.isdisjoint(self.segments[at].positions)]

    def _loop_ends(self) -> set[int]:
        """Return old messages by which tool loops are told apart, and the newest that one could begin with."""
        loops = self.history.rules.loops
        if loops is None:
            return set()
        oldest = self.segments[self._oldest].positions[0] if self._oldest < len(self.segments) else 0
        thinking = (at for at in range(oldest - 1, -1, -1) if self.history.infos[at].opens_thinking)
        return {at for first, span in loops.borders.items() for at in (first, *span)} | {*islice(thinking, 1)}

    def noted(self, request: PlannedRequest, words: Mapping[int, str]) -> PlannedRequest:
        """Return a request with a note for each gap; `words` are those that the caller wrote, by gap."""
        if not request.gaps:
            return request
        taken = sum(entry.noted for entry in request.entries)
        free = self.room - sum(entry.size for entry in request.entries) - MESSAGE_FRAME * len(request.gaps)
        notes = dict(request.notes)
        limit = min(self.window // ANSWER_SHARE, free // len(request.gaps))
        for at, text in words.items():
            if placed := self.noting.answered(at, request.gaps[at], text, limit):
                tokens = self.history.counter.count(placed.text)
                notes[at], taken, free = placed, taken + tokens, free - tokens
        rest = {at: gap for at, gap in request.gaps.items() if at not in notes}
        notes |= self.noting.written(rest, min(self.window // NOTES_SHARE - taken, free))
        entries = [self._with_note(entry, notes.get(self.index[entry.key])) for entry in request.entries]
        return replace(request, entries=tuple(entries), notes=notes, gaps={})

    def _with_note(self, entry: Entry, placed: PlacedNote | None) -> Entry:
        if placed is None:
            return entry
        noted, steps = self.noting.tokens(placed), len(placed.gap)
        return msgspec.structs.replace(entry, noted=noted, steps=steps, lines=placed.lines)
