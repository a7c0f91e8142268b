"""The part of a history that a cut request must contain: the newest steps, the user's words, and all that is pinned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cupel.messages._forms import LEAST_LIMIT, level

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from cupel.messages._forms import Forms
    from cupel.messages._history import History

NEWEST_STEPS: Final = 3
"""The newest steps that are in every request, as long as they take at most `PRESENT_SHARE` of the room."""
FEWEST_STEPS: Final = 2
"""The newest steps that are in every request however long they are."""
PRESENT_SHARE: Final = 0.4
"""The share of the room for the newest steps, and for the outputs of one step."""
LARGEST_OUTPUT: Final = 0.25
"""A single output takes at most this share of the room in a history that does not fit."""
WORDS_SHARE: Final = 0.4
"""The share of the room for the words of the user in a request that is cut."""
NEWEST_WORDS: Final = 3
"""The newest messages of the user, and the first, are in every request."""
SHORTEST_USER: Final = 100
"""Messages of the user of at most this many tokens are never cut, and longer ones to no fewer while that is enough."""
_FEWEST_WORDS: Final = 40
"""Longer messages of the user are cut to this many tokens before one leaves."""
MESSAGE_FRAME: Final = 4
"""Tokens around the text of a message."""
_CUTS = 3
"""How often a longer form is tried: one may take a few tokens more than its limit."""
_GAIN = 20
"""An output is made longer only where at least this many tokens are free."""

Held = dict[int, int | None]
"""Units that must be sent, and the limits of their texts; None for whole texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Finds the units that a request must contain, and the form of each."""

    history: History
    forms: Forms
    room: int
    """Tokens for messages."""
    excess: int
    """Tokens of the history beyond those that are in use after a cut."""
    gaps: bool = True
    """Whether newer units than an omitted one may be sent."""
    superseded: Mapping[int, int] = field(default_factory=dict[int, int])
    """The units whose calls were made again later, each with the unit that made them."""
    _bases: Held = field(default_factory=dict[int, "int | None"])

    def base(self, index: int) -> int | None:
        """Return the form in which a unit is sent unless it must be shorter: outputs that are too long are cut."""
        if index not in self._bases:
            self._bases[index] = self._capped(index)
        return self._bases[index]

    def _capped(self, index: int) -> int | None:
        if self.forms.kind(index) != "step":
            return None
        sizes = self.forms.sizes(index)
        filling = sum(sizes) - self.excess
        most = max(int(LARGEST_OUTPUT * self.room), filling)
        limit = max(1, min(most, level(sizes, max(int(PRESENT_SHARE * self.room), filling))))
        if (newer := self.superseded.get(index)) is not None:
            # An older answer is never longer than the newer one, and among older steps the first to be shortened.
            fresh = self.base(newer) or max(self.forms.sizes(newer), default=0)
            limit = max(1, min(limit, fresh if index in self.newest() else LEAST_LIMIT))
        return None if max(sizes, default=0) <= limit else limit

    def tokens(self, index: int, limit: int | None) -> int:
        """Return the tokens of a unit in a form."""
        return self.forms.tokens(index, limit)

    def levels(self, others: AbstractSet[int] = frozenset()) -> Iterator[Held]:
        """Return units that must be sent and their forms, from all that should be sent to the least that can.

        Args:
            others: units that should be sent besides the present.
        """
        steps, users = self._steps(), self._users()
        everything = {*steps, *users, *others}
        older = {*steps} - {*users}
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
        """Return only the units that must be sent: cut as short as need be, or else as short as they can be."""
        found = (self.held(frozenset(), cut=True, shortest=shortest) for shortest in (False, True))
        return (held for held in found if held is not None)

    def _users(self) -> list[int]:
        """Return the messages of the user that should be sent: those that do not fit their share leave, oldest first.

        A long one counts as its shortest form: before one leaves, all are cut.
        """
        if not self.gaps:
            return []
        users = [index for index in self.history.sendable() if self.forms.has_words(index)]
        if sum(self.tokens(index, None) for index in users) <= WORDS_SHARE * self.room:
            return users
        kept = self._strongest(users)
        left = int(WORDS_SHARE * self.room) - sum(self.tokens(index, None) for index in kept)
        for index in reversed(users[1:-NEWEST_WORDS]):
            left -= self._least_words(index)
            if left < 0:
                break
            kept.add(index)
        return sorted(kept)

    def _least_words(self, index: int) -> int:
        """Return the tokens that a message of the user takes at least."""
        return min(self.tokens(index, None), SHORTEST_USER)

    def newest(self) -> list[int]:
        """Return the newest steps, oldest first."""
        return [index for index in self.history.sendable() if self.forms.kind(index) == "step"][-NEWEST_STEPS:]

    def _steps(self) -> list[int]:
        """Return the newest steps that are held, oldest first."""
        newest = self.newest()
        while len(newest) > FEWEST_STEPS:
            if sum(self.tokens(index, self.base(index)) for index in newest) <= PRESENT_SHARE * self.room:
                break
            newest = newest[1:]
        return newest

    def _with_strongest_users(self, wanted: AbstractSet[int]) -> Held | None:
        """Return held units with as many messages of the user as fit, the strongest first."""
        users = self._weakest_first(self._users())[::-1]
        low, high = 0, len(users)
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.held(wanted | {*users[:middle]}, cut=True) is not None
            low, high = (middle, high) if fits else (low, middle - 1)
        return self.held(wanted | {*users[:low]}, cut=True)

    def held(self, wanted: AbstractSet[int], *, cut: bool = False, shortest: bool = False) -> Held | None:
        """Return units with those that they need; None if they do not fit.

        Args:
            wanted: the units.
            cut: whether to cut outputs, or else the words of the user, as short as need be.
            shortest: whether to cut both, where cutting outputs to one limit is not enough.
        """
        held = {index: self.base(index) for index in sorted(self.needed(wanted))}
        users = self._weakest_first([index for index in held if self.forms.kind(index) == "user"])
        words = sum(self.tokens(index, None) for index in users) - int(WORDS_SHARE * self.room)
        held = self._with_shorter_words(held, [at for at in users if at not in self._strongest(users)], words)
        if cut:
            held = self._with_shorter_outputs(held, shortest=shortest)
            held = self._with_shorter_words(held, users, self._excess(held))
            might_leave = [index for index in users if index not in self.needed(set())]
            held = self._with_shorter_words(held, might_leave, self._excess(held), _FEWEST_WORDS)
        return held if self._excess(held) <= 0 else None

    def needed(self, wanted: AbstractSet[int]) -> set[int]:
        """Return the pinned and wanted units, or else the newest, and those that they cannot be sent without."""
        history = self.history
        sendable = history.sendable()
        units = {index for index in sendable if history.units[index].pinned} | wanted
        if all(self.forms.kind(index) == "system" for index in units):
            units |= {*[index for index in sendable if self.forms.kind(index) != "system"][-1:]}
        room = self.room - sum(self.tokens(index, None) for index in units)
        return units | history.rules.complete(units, self.forms.tokens, room)

    def _excess(self, held: Held) -> int:
        return sum(self.tokens(index, limit) for index, limit in held.items()) - self.room

    def _with_shorter_outputs(self, held: Held, *, shortest: bool) -> Held:
        """Return held units whose outputs are as short as need be, or as they can be, all to the same limit."""
        excess = self._excess(held)
        found = dict(held)
        steps = [index for index in held if self.forms.kind(index) == "step"]
        sizes = [size for index in steps for size in self.forms.sizes(index)]
        taken = sum(self.tokens(index, None) - self.tokens(index, held[index]) for index in steps)
        limit = max(sizes, default=0) if shortest or not sizes else level(sizes, sum(sizes) - taken - excess)
        while limit >= 1 and self._excess(found) > 0:
            for index in steps:
                if self.tokens(index, limit) < self.tokens(index, held[index]):
                    found[index] = limit
            limit //= 2
        return found

    def _with_shorter_words(
        self, held: Held, users: Sequence[int], excess: int, least: int = SHORTEST_USER - MESSAGE_FRAME
    ) -> Held:
        """Return held units with shorter messages of the user: the weakest first, until the excess is gone."""
        found = dict(held)
        for index in users:
            if excess <= 0:
                break
            tokens = self.tokens(index, found[index])
            if self.tokens(index, None) <= SHORTEST_USER:
                continue
            sizes = self.forms.sizes(index) or [0]
            left = sum(sizes) - (self.tokens(index, None) - tokens) - excess
            limit = max(least, level(sizes, left))
            if self.tokens(index, limit) < tokens:
                excess -= tokens - self.tokens(index, limit)
                found[index] = limit
        return found

    def _weakest_first(self, users: Sequence[int]) -> list[int]:
        """Order messages of the user: the newest is strongest, then the next two, then the first; else the newer."""
        ordered = sorted(users)
        newest = ordered[-NEWEST_WORDS:]

        def strength(index: int) -> tuple[int, int]:
            rank = 3 if index == ordered[-1] else 2 if index in newest else 1 if index == ordered[0] else 0
            return rank, index

        return sorted(users, key=strength)

    def _strongest(self, users: Sequence[int]) -> set[int]:
        """Return the messages of the user that are whole whenever the request fits: the first and the newest."""
        ordered = sorted(users)
        return {*ordered[:1], *ordered[-NEWEST_WORDS:]}

    def lengthened(self, index: int, limit: int | None, room: int) -> int | None:
        """Return the limit of a longer form than this one, if there is one that takes at most `room` tokens more."""
        now = self.tokens(index, limit)
        if limit is None or self.tokens(index, None) - now <= room:
            return None
        sizes = self.forms.sizes(index)
        if room < _GAIN or not sizes:
            return limit
        longer = level(sizes, sum(min(size, limit) for size in sizes) + room)
        for _ in range(_CUTS):
            gained = self.tokens(index, longer) - now
            if gained <= room:
                return longer if gained > 0 else limit
            longer = max(1, longer - max(gained - room, longer // 16))
        return limit
