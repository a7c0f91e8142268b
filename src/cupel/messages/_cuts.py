"""Limits of what a request holds, and shorter versions of messages for a fit: tool outputs, then user messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from cupel._checks import as_function, as_text
from cupel.messages._formats import OUTPUTS, texts_in, thinks
from cupel.shorten import shorten

if TYPE_CHECKING:
    from cupel.messages._formats import Part
    from cupel.messages._history import History, Shorter
    from cupel.shorten import Shortener

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
_SHORTEST_OUTPUT = 12
_SHORT, _SHORT_PARTS = 300, 20
"""The short form of an older text has at most this many tokens, or this fraction of the room if that is more."""
_SHRINKS = 0.85
"""A form that keeps more of the tokens is not worth changing a message for."""
_GAIN = 20
"""An output is made longer only by at least this many tokens."""
_PROSE: tuple[Part, ...] = ("prose",)


class Cuts:
    """The messages of a history that one request sends shorter, by position."""

    def __init__(self, history: History, room: int, forms: object, parts: Collection[Part]) -> None:
        self._history, self._room = history, max(room, 0)
        self._shortener: Shortener | None = None if forms in (None, True, False) else as_function("forms", forms)
        self.allowed = forms is not False and (history.framework is None or history.framework.with_outputs is not None)
        """Whether outputs may be shortened."""
        self.shortens_older = self.allowed and forms is not None
        """Whether older outputs may be shortened, rather than those that must be sent alone."""
        self._parts, self._query = parts, history.asked()
        self._sizes: dict[tuple[int, tuple[Part, ...]], list[int]] = {}
        self._made: dict[tuple[int, int, tuple[Part, ...]], Shorter | None] = {}
        self.messages: dict[int, Shorter] = {}

    def clear(self) -> None:
        """Send every message whole again."""
        self.messages = {}

    def cost(self, units: Iterable[int]) -> int:
        """Return the tokens of units with their shorter messages."""
        positions = (at for unit in units for at in self._history.units[unit].positions)
        return sum((self.messages.get(at) or self._history.parsed[at]).tokens for at in positions)

    def cap(self, units: Iterable[int]) -> None:
        """Cut outputs that take more than their share of the room, alone or together with others of their step."""
        for unit in units if self.allowed else ():
            sizes = self._all_sizes([unit])
            most = max(_SHORTEST_OUTPUT, int(LARGEST_OUTPUT * self._room))
            limit = min(most, _level(sizes, int(PRESENT_SHARE * self._room)))
            if any(size > limit for size in sizes):
                self._cut([unit], limit)

    def cut_outputs(self, units: Sequence[int], target: int) -> bool:
        """Cut the outputs of units to the longest common limit at which the units fit; return whether they do."""
        excess = self.cost(units) - target
        if excess <= 0 or not self.allowed:
            return excess <= 0
        sizes = [min(size, self._limit_of(at)) for at, size in self._outputs(units)]
        limit = _level(sizes, sum(sizes) - excess)
        while limit >= _SHORTEST_OUTPUT:
            self._cut(units, limit)
            excess = self.cost(units) - target
            if excess <= 0:
                return True
            limit = min(limit * 3 // 4, limit - 1)
        self._cut(units, _SHORTEST_OUTPUT)
        return self.cost(units) <= target

    def cut_users(self, units: Sequence[int], all_units: Sequence[int], target: int) -> bool:
        """Cut the words of the user, in the order of `units`, until all units fit; return whether they do."""
        if not self.allowed or self._history.framework is not None:
            return self.cost(all_units) <= target
        for unit in units:
            excess = self.cost(all_units) - target
            if excess <= 0:
                return True
            for at in self._history.units[unit].positions:
                size = sum(self._size(at, _PROSE))
                if self._history.infos[at].role == "user" and size > SHORTEST_USER:
                    self._replace(at, max(SHORTEST_USER, size - excess), _PROSE)
        return self.cost(all_units) <= target

    def shorten_older(self, units: Iterable[int]) -> None:
        """Give older units with long texts their short form."""
        limit = max(_SHORT, self._room // _SHORT_PARTS)
        for unit in units if self.shortens_older else ():
            positions = self._history.units[unit].positions
            if any(at in self.messages for at in positions):
                continue
            fixed = any(thinks(self._history.parsed[at].view) for at in positions)
            parts = OUTPUTS if fixed or self._history.framework is not None else tuple(self._parts)
            whole = self.cost([unit])
            for at in positions:
                self._replace(at, limit, parts)
            if self.cost([unit]) > _SHRINKS * whole:
                for at in positions:
                    self.messages.pop(at, None)

    def lengthen(self, unit: int, room: int) -> int:
        """Make the shorter messages of a unit longer by at most `room` tokens; return by how many they are."""
        positions = [at for at in self._history.units[unit].positions if at in self.messages]
        short = {at: self.messages[at] for at in positions}
        before = self.cost([unit])
        for at in positions:
            del self.messages[at]
        if (gain := self.cost([unit]) - before) <= room:
            return gain
        self.messages |= short
        outputs = [at for at in positions if texts_in(self._history.parsed[at].view, OUTPUTS)]
        if room < _GAIN or not outputs or len(outputs) < len(positions):
            return 0
        sizes = [min(size, self._limit_of(at)) for at, size in self._outputs([unit])]
        self._cut([unit], _level([size for _, size in self._outputs([unit])], sum(sizes) + room))
        gain = self.cost([unit]) - before
        if gain < 0 or gain > room:
            self.messages |= short
            return 0
        return gain

    def _limit_of(self, position: int) -> int:
        """Return the tokens of the longest output of a message as it is sent now."""
        shorter = self.messages.get(position)
        if shorter is None:
            return max(self._size(position, OUTPUTS), default=0)
        return max((self._history.counter.count(text) for text in texts_in(shorter.view, OUTPUTS)), default=0)

    def _cut(self, units: Iterable[int], limit: int) -> None:
        for at in dict(self._outputs(units)):
            self.messages.pop(at, None)
            self._replace(at, limit, OUTPUTS)

    def _outputs(self, units: Iterable[int]) -> list[tuple[int, int]]:
        return [
            (at, size)
            for unit in units
            for at in self._history.units[unit].positions
            if self._history.infos[at].results
            for size in self._size(at, OUTPUTS)
        ]

    def _all_sizes(self, units: Iterable[int]) -> list[int]:
        return [size for _, size in self._outputs(units)]

    def _size(self, position: int, parts: tuple[Part, ...]) -> list[int]:
        if (position, parts) not in self._sizes:
            texts = texts_in(self._history.parsed[position].view, parts)
            self._sizes[position, parts] = [self._history.counter.count(text) for text in texts]
        return self._sizes[position, parts]

    def _replace(self, position: int, limit: int, parts: tuple[Part, ...]) -> None:
        key = position, limit, parts
        if key not in self._made:
            self._made[key] = self._make(position, limit, parts)
        made = self._made[key]
        if made is not None:
            self.messages[position] = made

    def _make(self, position: int, limit: int, parts: tuple[Part, ...]) -> Shorter | None:
        sizes = self._size(position, parts)
        if all(size <= limit for size in sizes):
            return None
        texts = texts_in(self._history.parsed[position].view, parts)
        forms = [text if size <= limit else self._text(text, limit) for text, size in zip(texts, sizes, strict=True)]
        shorter = self._history.with_texts(position, forms, parts)
        return shorter if shorter is not None and shorter.tokens < self._history.parsed[position].tokens else None

    def _text(self, text: str, limit: int) -> str:
        count = self._history.counter.count
        if self._shortener is not None:
            form = as_text("what forms returned", self._shortener(text, limit))
            if form and count(form) <= limit:
                return form
        form = shorten(text, limit, counter=self._history.counter, query=self._query)
        return form or "[cupel: output omitted]"


def _level(sizes: Sequence[int], allowed: int) -> int:
    """Return the limit at which texts of these sizes, each cut to it, take no more than `allowed`."""
    ordered = sorted(sizes)
    for done, size in enumerate(ordered):
        share = allowed // (len(ordered) - done)
        if size > share:
            return max(0, share)
        allowed -= size
    return max(ordered, default=0)
