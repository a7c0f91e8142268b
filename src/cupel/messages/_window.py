"""Planning one request of a conversation, rule by rule.

A history that fits is sent whole. Otherwise the last request is continued as long as the new messages fit after it;
when they do not, the planner decides where to cut it and what to send after the cut. The held segments are those that
must be in the request: pinned messages, the user's words and the newest steps. Omitted steps leave notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from cupel._planning import Candidate, Entry, FormOption, Planner, TurnStart, TurnTerms
from cupel.messages._notes import NOTES_SHARE, Note, Slot, note_of, note_text, write_notes
from cupel.messages._segments import BEGUN, WHOLE, Omitted, Segment, Segments, level

if TYPE_CHECKING:
    from cupel._planning import Answer
    from cupel.messages._fit import FitTask
    from cupel.messages._history import History
    from cupel.tokens import TokenCounter

NEWEST_STEPS: Final = 3
"""The newest steps that are in every request, as far as they take at most `_PRESENT` of the room."""
FEWEST_STEPS: Final = 2
_PRESENT = 0.4
_OUTPUT = 0.25
"""A single output takes at most this share of the room when it arrives."""
_SHORTEST_WORDS = 100
"""Messages of the user that take fewer tokens than this are never shortened."""
_LIMITS = (160, 12)
"""Older outputs may be shortened to these parts of the window."""
_LEAST_LIMIT = 40
_SHRINKS = 0.8
"""A form that keeps more of the tokens is not offered."""
_SHARE = 0.35
"""A form with a share x of the tokens is worth x ** `_SHARE` of the whole."""
_TALK = 0.7
"""The assistant's words are kept whatever their price while the request takes at most this share of the room."""
_RECALLABLE = 3
"""A segment that was left out can come back while at most this many windows of tokens came after it."""
ANSWER_SHARE: Final = 20
"""A note that the caller writes takes at most this fraction (one twentieth) of the window."""
_MESSAGE_FRAME = 5
"""Tokens around a note that is a message of its own."""

_ARCHIVING = frozenset(("anthropic", "openai", "openai-responses"))
"""Formats whose messages can be read without those that are archived."""

Held = dict[int, str]
"""Segments that must be sent, by index, and their forms."""


class Placed(NamedTuple):
    """A note in a request."""

    note: Note
    in_result: bool
    """Whether it is in a tool result; a message of its own otherwise."""
    gap: tuple[Omitted, ...]
    """The segments that it covers."""
    words: str = ""
    """The words that the caller wrote for it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A planned request."""

    entries: tuple[Entry, ...]
    kept: int = 0
    """The number of entries that are sent as they were in the last request."""
    notes: Mapping[int, Placed]
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
    """Whether a note may be a message of its own, where no tool result follows it."""
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

    def plan(self) -> Request:
        """Return the next request; raise an error that lists the pinned messages if they do not fit."""
        index = {segment.key: at for at, segment in enumerate(self.segments)}
        last = self.start.state.last
        sent = [index[entry.key] for entry in last if entry.key in index and entry.form != BEGUN]
        new = range(max(sent) + 1, len(self.segments)) if sent else range(0)
        if sum(segment.tokens for segment in self.segments) <= self.room:
            return self._whole(index, new)
        reusable, notes = self._reusable(index)
        arrivals = self._arrivals({index[entry.key] for entry in reusable})
        turn = _Turn(self, index, new, reusable, notes, arrivals)
        if (request := turn.continued()) is not None:
            return request
        for held in turn.levels():
            if (request := turn.repacked(held)) is not None:
                return request
        units = [unit for at in turn.needed(set()) for unit in self.segments[at].units]
        raise self.task.too_large({unit: self._tokens(unit) for unit in units})

    def _tokens(self, unit: int) -> int:
        return sum(self.history.parsed[at].tokens for at in self.history.units[unit].positions)

    def _whole(self, index: dict[str, int], new: range) -> Request:
        """Return the request that is the history, message for message."""
        planner = Planner([self._candidate(at, new, self.begun(at)) for at in range(len(self.segments))])
        terms, value = self.start.terms(planner, self.worth, self.room)
        return Request(
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

    def _reusable(self, index: Mapping[str, int]) -> tuple[tuple[Entry, ...], dict[int, Placed]]:
        """Return the entries of the last request that can be sent again as they were, and their notes."""
        notes: dict[int, Placed] = {}
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

    def _written(self, at: int, gap: Sequence[Omitted], entry: Entry) -> Placed | None:
        """Return the note that an entry of the last request had; None if the history no longer has these steps."""
        if len(gap) != entry.steps or entry.lines > entry.steps:
            return None
        ends = gap[0].key, gap[-1].key
        answer = next((one for one in self.answers if (one.first, one.last) == ends), None)
        if answer is not None:
            note = Note(note_text(len(gap), answer.text), len(gap), entry.lines)
        else:
            note = note_of([one.trace for one in gap], entry.lines)
        placed = Placed(note, self.segments[at].holder is not None, tuple(gap))
        return placed if self.note_tokens(placed) == entry.noted else None

    def oldest(self) -> int:
        """Return the index of the oldest segment that can come back once it was left out."""
        distance, oldest = 0, len(self.segments)
        while oldest > 0 and distance <= _RECALLABLE * self.budget:
            oldest -= 1
            distance += self.segments[oldest].tokens
        return oldest

    def archivable(self, request: Request) -> list[int]:
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

    def noted(self, request: Request, words: Mapping[int, str]) -> Request:
        """Return a request with a note for each gap; `words` are those that the caller wrote, by gap."""
        if not request.gaps:
            return request
        taken = sum(entry.noted for entry in request.entries)
        free = self.room - sum(entry.size for entry in request.entries) - _MESSAGE_FRAME * len(request.gaps)
        notes = dict(request.notes)
        counter = self.history.counter
        limit = min(self.window // ANSWER_SHARE, free // len(request.gaps))
        for at, text in words.items():
            said, gap = clipped(text, limit, counter), request.gaps[at]
            if not said:
                continue
            note = Note(note_text(len(gap), said), len(gap), 0)
            notes[at] = Placed(note, self.segments[at].holder is not None, gap, said)
            taken, free = taken + counter.count(note.text), free - counter.count(note.text)
        rest = {
            Slot(at, in_result=self.segments[at].holder is not None): [one.trace for one in gap]
            for at, gap in request.gaps.items()
            if at not in notes
        }
        limit = min(self.window // NOTES_SHARE - taken, free)
        for slot, note in write_notes(rest, counter, limit).items() if limit > 0 else ():
            notes[slot.position] = Placed(note, slot.in_result, request.gaps[slot.position])
        entries = [self._with_note(entry, notes.get(request.index[entry.key])) for entry in request.entries]
        return replace(request, entries=tuple(entries), notes=notes, gaps={})

    def _with_note(self, entry: Entry, placed: Placed | None) -> Entry:
        if placed is None:
            return entry
        note = placed.note
        return msgspec.structs.replace(entry, noted=self.note_tokens(placed), steps=note.steps, lines=note.lines)

    def note_tokens(self, placed: Placed) -> int:
        """Return the tokens that a note adds to a request."""
        return self.history.counter.count(placed.note.text) + (1 if placed.in_result else _MESSAGE_FRAME)

    def _arrivals(self, sent: set[int]) -> dict[int, str]:
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
            single = max(int(_OUTPUT * self.room), filling)
            limit = min(single, level(sizes, max(int(_PRESENT * self.room), filling)))
            if max(sizes) > limit:
                name = self.source.shortened(segment, self.history, max(limit, 1))
                if name != WHOLE:
                    arrivals[at] = name
        return arrivals


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn whose history does not fit."""

    plan: TurnPlanner
    index: Mapping[str, int]
    new: range
    """Segments after the newest one of the last request."""
    last: tuple[Entry, ...]
    """The prefix of the last request that can be sent again."""
    prefix_notes: Mapping[int, Placed]
    arrivals: Mapping[int, str]

    @property
    def segments(self) -> Sequence[Segment]:
        return self.plan.segments

    def form(self, at: int) -> str:
        """Return the form in which a segment is sent unless it must be shorter."""
        key = self.segments[at].key
        return next((entry.form for entry in self.last if entry.key == key), self.arrivals.get(at, WHOLE))

    def tokens(self, at: int, form: str) -> int:
        """Return the tokens of a segment in a form."""
        return self.segments[at].form(form).tokens

    def continued(self) -> Request | None:
        """Return the last request with the new messages after it, if that fits and holds all it must."""
        complete = len(self.last) == sum(entry.form != BEGUN for entry in self.plan.last)
        if self.plan.start.cold or not self.new or not self.last or not complete:
            return None
        sent = [self.index[entry.key] for entry in self.last]
        held = self.needed(self._wanted())
        if not held <= {*sent, *self.new}:
            return None
        added = [Entry(self.segments[at].key, (form := self.form(at)), self.tokens(at, form)) for at in self.new]
        entries = (*self.last, *added)
        if sum(entry.size for entry in entries) > self.plan.room:
            return None
        units = {unit for at in (*sent, *self.new) for unit in self.segments[at].units}
        if self.plan.history.rules.drop_violations(units):
            return None
        planner = self._planner({at: self.form(at) for at in (*sent, *self.new)}, {})
        terms, value = self.plan.start.terms(planner, self.plan.worth, self.plan.room)
        return self._request(entries, len(self.last), planner, terms=terms, value=value, held=held, violations={})

    def levels(self) -> Iterator[Held]:
        """Yield the segments that must be sent and their forms, from all that should be to the least that can."""
        everything = self._wanted()
        steps = self._steps()
        yield from self._level(everything, words=False, squeeze=False)
        fewer = everything - set(steps[:-FEWEST_STEPS])
        yield from self._level(fewer, words=False, squeeze=True)
        yield from self._level(fewer, words=True, squeeze=True)
        alone = everything - set(steps[:-1])
        yield from self._level(alone, words=True, squeeze=True)
        yield from self._level(set(), words=False, squeeze=True)
        yield from self._level(set(), words=True, squeeze=True)

    def _level(self, wanted: set[int], *, words: bool, squeeze: bool) -> Iterator[Held]:
        held = {at: self.form(at) for at in sorted(self.needed(wanted))}
        if squeeze:
            held = self._squeezed(held)
        if words:
            held = self._with_shorter_words(held)
        if self._excess(held) <= 0:
            yield held

    def _excess(self, held: Held) -> int:
        return sum(self.tokens(at, form) for at, form in held.items()) - self.plan.room

    def _wanted(self) -> set[int]:
        """Return the segments that should be in the request: the user's words, the newest steps, all that is new."""
        plan = self.plan
        steps = set(self._steps())
        talk = {at for at in self.new if self.segments[at].role == "talk"}
        if not plan.gaps:
            return steps | set(self.new[-1:])
        return steps | talk | {at for at, segment in enumerate(self.segments) if segment.has_user_words}

    def _steps(self) -> list[int]:
        """Return the newest steps that are held, oldest first."""
        newest = [at for at in range(len(self.segments)) if self.segments[at].role == "step"][-NEWEST_STEPS:]
        while len(newest) > FEWEST_STEPS:
            if sum(self.tokens(at, self.form(at)) for at in newest) <= _PRESENT * self.plan.room:
                break
            newest = newest[1:]
        return newest

    def needed(self, wanted: set[int]) -> set[int]:
        """Return the segments of pinned and wanted messages, and of those that these cannot be sent without."""
        history = self.plan.history
        holder = {unit: at for at, segment in enumerate(self.segments) for unit in segment.units}
        units = {unit for at in wanted for unit in self.segments[at].units}
        units |= {unit for unit in holder if history.units[unit].pinned}
        costs = [sum(history.parsed[at].tokens for at in unit.positions) for unit in history.units]
        left = self.plan.room - sum(costs[unit] for unit in units)
        units |= history.rules.complete(units, costs, left)
        return {holder[unit] for unit in units if unit in holder}

    def _squeezed(self, held: Held) -> Held:
        """Return held segments whose outputs are as short as need be, all to the same limit."""
        excess = self._excess(held)
        if excess <= 0:
            return held
        found = dict(held)
        steps = [at for at in held if self.segments[at].sizes]
        sizes = [size for at in steps for group in self.segments[at].sizes.values() for size in group]
        taken = sum(self.tokens(at, WHOLE) - self.tokens(at, held[at]) for at in steps)
        limit = level(sizes, sum(sizes) - taken - excess) if sizes else 0
        while limit >= 1:
            for at in steps:
                name = self.plan.source.shortened(self.segments[at], self.plan.history, limit)
                if self.tokens(at, name) < self.tokens(at, held[at]):
                    found[at] = name
            if self._excess(found) <= 0 or limit == 1:
                break
            limit = max(1, limit // 2)
        return found

    def _with_shorter_words(self, held: Held) -> Held:
        """Return held segments with shorter messages of the user, the weakest first, as far as need be."""
        found = dict(held)
        excess = self._excess(found)
        users = [at for at in held if self.segments[at].role == "user"]
        for at in sorted(users, key=lambda at: self._strength(at, users)):
            if excess <= 0:
                break
            tokens = self.tokens(at, found[at])
            if tokens <= _SHORTEST_WORDS:
                continue
            limit = max(_SHORTEST_WORDS, tokens - excess) - _MESSAGE_FRAME
            name = self.plan.source.shortened(self.segments[at], self.plan.history, limit)
            if self.tokens(at, name) < tokens:
                excess -= tokens - self.tokens(at, name)
                found[at] = name
        return found

    def _strength(self, at: int, users: Sequence[int]) -> tuple[int, int]:
        """Order messages of the user: the newest is strongest, then new ones, then the first; else the shorter."""
        rank = 3 if at == users[-1] else 2 if at in self.new else 1 if at == users[0] else 0
        return rank, -self.segments[at].tokens

    def repacked(self, held: Held) -> Request | None:
        """Return the best request that contains the held segments; None if there is none."""
        room, violations = self.plan.room - self.plan.reserve, dict[int, str]()
        for _ in range(2 * len(self.segments) + 8):
            planner = self._planner(held, violations)
            terms, value = self.plan.start.terms(planner, self.plan.worth, self.plan.room)
            terms = self._terms(terms, room)
            plan = planner.plan(self.last, terms) if self.plan.gaps else planner.unbroken(self.last, terms)
            if plan is None:
                if room == self.plan.room:
                    return None
                room = self.plan.room
                continue
            entries = planner.entries(self.last, plan)
            if gone := self._violations(entries, held):
                violations |= gone
                continue
            return self._request(
                entries, plan.kept, planner, terms=terms, value=value, held=held, violations=violations
            )
        return None

    def _violations(self, entries: Sequence[Entry], held: Held) -> dict[int, str]:
        """Return the segments that the provider would not accept in this request, with the reason."""
        chosen = {unit for entry in entries for unit in self.segments[self.index[entry.key]].units}
        gone = self.plan.history.rules.drop_violations(chosen)
        found = {at: gone[unit] for at, segment in enumerate(self.segments) for unit in segment.units if unit in gone}
        if found and not self.plan.gaps:  # then everything older goes too
            found = dict.fromkeys(range(max(found)), gone[min(gone)]) | found
        return {at: reason for at, reason in found.items() if at not in held}

    def _terms(self, terms: TurnTerms, room: int) -> TurnTerms:
        plan = self.plan
        fixed = plan.window - plan.room
        return msgspec.structs.replace(
            terms,
            room=room,
            least=int(plan.keep * plan.window) - fixed,
            preferred=int(_TALK * room),
            notes=plan.window // NOTES_SHARE if plan.notes else 0,
        )

    def _planner(self, held: Held, violations: Mapping[int, str]) -> Planner:
        sent = {self.index[entry.key] for entry in self.last}
        oldest = self.plan.oldest()
        offered = sorted({*held, *sent, *range(oldest, len(self.segments))} - violations.keys())
        return Planner([self._candidate(at, held) for at in offered])

    def _candidate(self, at: int, held: Held) -> Candidate:
        segment, plan = self.segments[at], self.plan
        value = plan.values[at]
        if at in held:
            option = FormOption(held[at], self.tokens(at, held[at]), 1.0)
            begun = plan.begun(at) if at in self.new else 0
            return Candidate(
                segment.key,
                value,
                (option,),
                held=True,
                new=at in self.new,
                begun=begun,
                cut=option.form != WHOLE,
            )
        names = {self.form(at), *self._shorter(at)}
        options = [FormOption(name, self.tokens(at, name), self._share(at, name)) for name in names]
        options.sort(key=lambda option: (option.tokens, option.form))
        noted = plan.notes and segment.role in ("step", "talk")
        return Candidate(
            segment.key,
            value,
            tuple(options),
            preferred=segment.role == "talk" or segment.has_user_words,
            trace=segment.trace.tokens if noted else 0,
        )

    def _share(self, at: int, name: str) -> float:
        share: float = (self.tokens(at, name) / max(self.segments[at].tokens, 1)) ** _SHARE
        return share

    def _shorter(self, at: int) -> Iterable[str]:
        """Return the names of a step's shorter forms."""
        segment, plan = self.segments[at], self.plan
        base = self.tokens(at, self.form(at))
        for part in _LIMITS:
            name = plan.source.shortened(segment, plan.history, max(_LEAST_LIMIT, plan.window // part))
            if name != WHOLE and self.tokens(at, name) <= _SHRINKS * base:
                yield name

    def _request(
        self,
        entries: tuple[Entry, ...],
        kept: int,
        planner: Planner,
        *,
        terms: TurnTerms,
        value: float,
        held: Iterable[int],
        violations: Mapping[int, str],
    ) -> Request:
        order = [self.index[entry.key] for entry in entries]
        notes = {at: self.prefix_notes[at] for at in order[:kept] if at in self.prefix_notes}
        return Request(
            entries=entries,
            kept=kept,
            notes=notes,
            gaps=self._gaps(order, kept, notes) if self.plan.notes else {},
            planner=planner,
            terms=terms,
            value=value,
            held=frozenset(held),
            violations=violations,
            index=self.index,
        )

    def _gaps(self, order: Sequence[int], kept: int, prefix: Mapping[int, Placed]) -> dict[int, tuple[Omitted, ...]]:
        """Return the omitted segments that have no note yet, by the segment that their note will precede."""
        gaps: dict[int, tuple[Omitted, ...]] = {}
        before, pending, place = -1, list[Omitted](), -1
        for number, at in enumerate(order):
            omitted = self.plan.omitted(before, at)
            before = max(before, at)
            if omitted and (not pending or number <= kept):
                place = at
            pending += omitted
            if at in prefix:
                pending = []
            elif pending and number >= kept and self.segments[at].holder is not None:
                gaps[at], pending = tuple(pending), []
        if pending and self.plan.own_notes and place in order[kept:]:
            gaps[place] = tuple(pending)
        return gaps


def clipped(text: str, limit: int, counter: TokenCounter) -> str:
    """Return the beginning of a text, within a limit of tokens."""
    text = " ".join(text.split())
    size = len(text)
    while size > 0 and counter.count(text[:size]) > limit:
        size = min(size - 1, size * max(limit, 1) // counter.count(text[:size]))
    return text if size == len(text) else f"{text[:size].rstrip()}…"
