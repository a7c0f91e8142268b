"""Finding the next request when a history does not fit.

The last request is continued as long as the new messages fit after it. When they do not, the planner decides where to
cut it and what to send after the cut. Segments that must be in the request are held: pinned messages, the user's words
and the newest steps. Where they do not fit, less and less is held, from the weakest rule to the strongest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from cupel._planning import Candidate, Entry, FormOption, Planner, TurnTerms
from cupel.messages._cuts import FEWEST_STEPS, NEWEST_STEPS, PRESENT_SHARE, SHORTEST_USER
from cupel.messages._notes import NOTES_SHARE
from cupel.messages._segments import BEGUN, WHOLE, Omitted, level
from cupel.messages._window import MESSAGE_FRAME, PlacedNote, PlannedRequest

if TYPE_CHECKING:
    from cupel.messages._segments import Segment
    from cupel.messages._window import TurnPlanner

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

Held = dict[int, str]
"""Segments that must be sent, by index, and their forms."""


def plan_request(plan: TurnPlanner) -> PlannedRequest:
    """Return the next request; raise an error that lists the pinned messages if they do not fit."""
    index = {segment.key: at for at, segment in enumerate(plan.segments)}
    last = plan.start.state.last
    sent = [index[entry.key] for entry in last if entry.key in index and entry.form != BEGUN]
    new = range(max(sent) + 1, len(plan.segments)) if sent else range(0)
    if sum(segment.tokens for segment in plan.segments) <= plan.room:
        return plan.whole(index, new)
    reusable, notes = plan.reusable(index)
    arrivals = plan.arrivals({index[entry.key] for entry in reusable})
    cut = _Cut(plan, index, new, reusable, notes, arrivals)
    if (request := cut.continued()) is not None:
        return request
    for held in cut.levels():
        if (request := cut.repacked(held)) is not None:
            return request
    units = [unit for at in cut.needed(set()) for unit in plan.segments[at].units]
    raise plan.task.too_large({unit: plan.unit_tokens(unit) for unit in units})


@dataclass(frozen=True, slots=True)
class _Cut:
    """A turn whose history does not fit: finds the request with as much as possible of all that should be in it."""

    plan: TurnPlanner
    index: Mapping[str, int]
    new: range
    """Segments after the newest one of the last request."""
    last: tuple[Entry, ...]
    """The prefix of the last request that can be sent again."""
    prefix_notes: Mapping[int, PlacedNote]
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

    def continued(self) -> PlannedRequest | None:
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
            if sum(self.tokens(at, self.form(at)) for at in newest) <= PRESENT_SHARE * self.plan.room:
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
        """Return held segments with shorter messages of the user: the weakest first, until they fit."""
        found = dict(held)
        excess = self._excess(found)
        users = [at for at in held if self.segments[at].role == "user"]
        for at in sorted(users, key=lambda at: self._strength(at, users)):
            if excess <= 0:
                break
            tokens = self.tokens(at, found[at])
            if tokens <= SHORTEST_USER:
                continue
            limit = max(SHORTEST_USER, tokens - excess) - MESSAGE_FRAME
            name = self.plan.source.shortened(self.segments[at], self.plan.history, limit)
            if self.tokens(at, name) < tokens:
                excess -= tokens - self.tokens(at, name)
                found[at] = name
        return found

    def _strength(self, at: int, users: Sequence[int]) -> tuple[int, int]:
        """Order messages of the user: the newest is strongest, then new ones, then the first; else the shorter."""
        rank = 3 if at == users[-1] else 2 if at in self.new else 1 if at == users[0] else 0
        return rank, -self.segments[at].tokens

    def repacked(self, held: Held) -> PlannedRequest | None:
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
            trace=segment.trace.tokens + _NOTE_FRAME if noted else 0,
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
    ) -> PlannedRequest:
        order = [self.index[entry.key] for entry in entries]
        notes = {at: self.prefix_notes[at] for at in order[:kept] if at in self.prefix_notes}
        return PlannedRequest(
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

    def _gaps(
        self, order: Sequence[int], kept: int, prefix: Mapping[int, PlacedNote]
    ) -> dict[int, tuple[Omitted, ...]]:
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
