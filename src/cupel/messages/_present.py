"""The part of a history that every request contains: the newest steps, the user's words, and all that is pinned.

`fit` and sessions share it. Only a history that does not fit is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cupel.messages._segments import PROSE, WHOLE, level

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from cupel.messages._history import History
    from cupel.messages._segments import Segment, Segments

NEWEST_STEPS: Final = 3
"""The newest steps that are in every request, as long as they take at most `PRESENT_SHARE` of the room."""
FEWEST_STEPS: Final = 2
"""The newest steps that are in every request however long they are."""
PRESENT_SHARE: Final = 0.4
"""The share of the room for the newest steps, and for the outputs of one step."""
LARGEST_OUTPUT: Final = 0.25
"""A single output takes at most this share of the room in a history that does not fit."""
SHORTEST_USER: Final = 100
"""The words of the user are never cut below this many tokens."""
MESSAGE_FRAME: Final = 4
"""Tokens around the text of a message."""
_CUTS = 3
"""How often a longer form is tried: one may take a few tokens more than its limit."""
_GAIN = 20
"""An output is made longer only where at least this many tokens are free."""

Held = dict[int, str]
"""Segments that must be sent, by index, and their forms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Finds the segments that a request must contain, and the form of each."""

    history: History
    source: Segments
    segments: Sequence[Segment]
    room: int
    """Tokens for messages."""
    excess: int
    """Tokens of the history beyond those that must be in use after a cut."""
    sent: Mapping[str, str] = field(default_factory=dict[str, str])
    """Forms of segments that the request keeps from the last one, by key."""
    new: range = range(0)
    """Segments that came since the last request."""
    gaps: bool = True
    """Whether newer segments than an omitted one may be sent."""
    _forms: Held = field(default_factory=dict[int, str])

    def form(self, at: int) -> str:
        """Return the form in which a segment is sent unless it must be shorter; too long outputs are cut."""
        if at not in self._forms:
            segment = self.segments[at]
            known = self.sent.get(segment.key)
            self._forms[at] = self._capped(segment) if known is None else known
        return self._forms[at]

    def _capped(self, segment: Segment) -> str:
        sizes = segment.all_sizes
        filling = sum(sizes) - self.excess
        most = max(int(LARGEST_OUTPUT * self.room), filling)
        limit = max(1, min(most, level(sizes, max(int(PRESENT_SHARE * self.room), filling))))
        return WHOLE if max(sizes, default=0) <= limit else self.source.shortened(segment, self.history, limit)

    def tokens(self, at: int, form: str) -> int:
        """Return the tokens of a segment in a form."""
        return self.segments[at].form(form).tokens

    def levels(self, others: AbstractSet[int] = frozenset()) -> Iterator[Held]:
        """Return segments that must be sent and their forms, from all that should be sent to the least that can.

        Args:
            others: segments that should be sent besides the present.
        """
        steps, everything = self._steps(), self.wanted() | others
        older = {*steps} - {*self._users()}
        attempts: list[Callable[[], Held | None]] = [
            lambda: self.held(everything),
            lambda: self.held(everything - older.intersection(steps[:-FEWEST_STEPS]), cut=True),
            lambda: self.held(everything - older.intersection(steps[:-1]), cut=True),
            lambda: self._with_strongest_users(others | {*steps[-1:]}),
            lambda: self._with_strongest_users(others),
        ]
        found = (attempt() for attempt in attempts)
        return (held for held in found if held is not None)

    def least(self) -> Iterator[Held]:
        """Return only the segments that must be sent: cut as short as need be, or else as short as they can be."""
        found = (self.held(frozenset(), cut=True, shortest=shortest) for shortest in (False, True))
        return (held for held in found if held is not None)

    def wanted(self) -> set[int]:
        """Return the segments that should be in the request: the user's words, the newest steps, new words."""
        steps = set(self._steps())
        if not self.gaps:
            return steps | set(self.new[-1:])
        return steps | {at for at in self.new if self.segments[at].role == "talk"} | {*self._users()}

    def _users(self) -> list[int]:
        return [at for at, segment in enumerate(self.segments) if segment.has_user_words] if self.gaps else []

    def _steps(self) -> list[int]:
        """Return the newest steps that are held, oldest first."""
        newest = [at for at, segment in enumerate(self.segments) if segment.role == "step"][-NEWEST_STEPS:]
        while len(newest) > FEWEST_STEPS:
            if sum(self.tokens(at, self.form(at)) for at in newest) <= PRESENT_SHARE * self.room:
                break
            newest = newest[1:]
        return newest

    def _with_strongest_users(self, wanted: AbstractSet[int]) -> Held | None:
        """Return held segments with as many messages of the user as fit, the strongest first."""
        users = self._weakest_first(self._users())[::-1]
        low, high = 0, len(users)
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.held(wanted | {*users[:middle]}, cut=True) is not None
            low, high = (middle, high) if fits else (low, middle - 1)
        return self.held(wanted | {*users[:low]}, cut=True)

    def held(self, wanted: AbstractSet[int], *, cut: bool = False, shortest: bool = False) -> Held | None:
        """Return segments with those that they need; None if they do not fit.

        Args:
            wanted: the segments.
            cut: whether to cut outputs, or else the words of the user, as short as need be.
            shortest: whether to cut both, where cutting outputs to one limit is not enough.
        """
        held = {at: self.form(at) for at in sorted(self.needed(wanted))}
        if cut:
            held = self._with_shorter_words(self._with_shorter_outputs(held, shortest=shortest))
        return held if self._excess(held) <= 0 else None

    def needed(self, wanted: AbstractSet[int]) -> set[int]:
        """Return the segments of pinned and wanted messages, and of those that these cannot be sent without."""
        history = self.history
        holder = {unit: at for at, segment in enumerate(self.segments) for unit in segment.units}
        units = {unit for at in wanted for unit in self.segments[at].units}
        units |= {unit for unit in holder if history.units[unit].pinned}
        costs = history.costs()
        units |= history.rules.complete(units, costs, self.room - sum(costs[unit] for unit in units))
        return {holder[unit] for unit in units if unit in holder}

    def _excess(self, held: Held) -> int:
        return sum(self.tokens(at, form) for at, form in held.items()) - self.room

    def _with_shorter_outputs(self, held: Held, *, shortest: bool) -> Held:
        """Return held segments whose outputs are as short as need be, or as they can be, all to the same limit."""
        excess = self._excess(held)
        found = dict(held)
        steps = [at for at in held if self.segments[at].sizes]
        sizes = [size for at in steps for size in self.segments[at].all_sizes]
        taken = sum(self.tokens(at, WHOLE) - self.tokens(at, held[at]) for at in steps)
        limit = max(sizes, default=0) if shortest or not sizes else level(sizes, sum(sizes) - taken - excess)
        while limit >= 1 and self._excess(found) > 0:
            for at in steps:
                name = self.source.shortened(self.segments[at], self.history, limit)
                if self.tokens(at, name) < self.tokens(at, held[at]):
                    found[at] = name
            limit //= 2
        return found

    def _with_shorter_words(self, held: Held) -> Held:
        """Return held segments with shorter messages of the user: the weakest first, until they fit."""
        found = dict(held)
        excess = self._excess(found)
        for at in self._weakest_first([at for at in held if self.segments[at].role == "user"]):
            if excess <= 0:
                break
            tokens = self.tokens(at, found[at])
            if tokens <= SHORTEST_USER:
                continue
            sizes = self._word_sizes(at)
            left = sum(sizes) - (self.tokens(at, WHOLE) - tokens) - excess
            limit = max(SHORTEST_USER - MESSAGE_FRAME, level(sizes, left))
            name = self.source.shortened(self.segments[at], self.history, limit)
            if self.tokens(at, name) < tokens:
                excess -= tokens - self.tokens(at, name)
                found[at] = name
        return found

    def _word_sizes(self, at: int) -> list[int]:
        views = (self.history.parsed[position].view for position in self.segments[at].positions)
        return [
            self.history.counter.count(text) for view in views for text in self.history.format.texts_in(view, PROSE)
        ] or [0]

    def _weakest_first(self, users: Sequence[int]) -> list[int]:
        """Order messages of the user: the newest is strongest, then new ones, then the first; else the shorter."""

        def strength(at: int) -> tuple[int, int]:
            rank = 3 if at == users[-1] else 2 if at in self.new else 1 if at == users[0] else 0
            return rank, -self.segments[at].tokens

        return sorted(users, key=strength)

    def lengthened(self, at: int, name: str, room: int) -> str:
        """Return a longer form of a segment than this one, if there is one that takes at most `room` tokens more."""
        segment = self.segments[at]
        now = self.tokens(at, name)
        if segment.tokens - now <= room:
            return WHOLE
        if room < _GAIN or not name.isdecimal() or not segment.sizes:
            return name
        sizes = segment.all_sizes
        limit = level(sizes, sum(min(size, int(name)) for size in sizes) + room)
        for _ in range(_CUTS):
            longer = self.source.shortened(segment, self.history, limit)
            gained = self.tokens(at, longer) - now
            if gained <= room:
                return longer if gained > 0 else name
            limit = max(1, limit - max(gained - room, limit // 16))
        return name
