"""Scored items in columns."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from cupel._checks import as_tuple
from cupel._relations import Relations, read_relations
from cupel.model import ScoredItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cupel.model import ContextItem


class Items(Protocol):
    """What columns need of a sequence of items."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> ContextItem: ...
    def __iter__(self) -> Iterator[ContextItem]: ...


class Picked(msgspec.Struct, frozen=True):
    """Items at some positions of a sequence, fetched when somebody asks."""

    items: Items
    positions: list[int]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, position: int, /) -> ContextItem:
        return self.items[self.positions[position]]

    def __iter__(self) -> Iterator[ContextItem]:
        return map(self.items.__getitem__, self.positions)


class Candidates(msgspec.Struct, frozen=True):
    """Scored items as three parallel columns, so that a position names an item without comparing any.

    >>> from cupel.model import ContextItem, ScoredItem
    >>> columns = Candidates.of([ScoredItem(ContextItem("hello", 1), 0.5)])
    >>> columns.scores, columns.tokens
    ([0.5], [1])
    """

    items: Items
    scores: list[float]
    tokens: list[int]
    relations: Relations | None = None
    """What must or must not be in together; None where nothing is related."""

    @classmethod
    def of(cls, scored: Iterable[ScoredItem]) -> Candidates:
        """Take scored items apart into columns."""
        pairs = as_tuple("scored", scored, ScoredItem)
        items = [pair.item for pair in pairs]
        scores = [pair.score for pair in pairs]
        return cls(items, scores, [item.tokens for item in items], read_relations(items, scores))

    def __len__(self) -> int:
        return len(self.items)

    def scored(self) -> list[ScoredItem]:
        """Put the columns together again, for strategies that take scored items."""
        return list(map(ScoredItem, self.items, self.scores))

    def at(self, positions: Sequence[int]) -> Candidates:
        """Return the columns of these positions, in this order, without their relations."""
        pick = _picker(positions)
        return Candidates([*pick(self.items)], [*pick(self.scores)], [*pick(self.tokens)])

    def picked(self, positions: list[int]) -> Candidates:
        """Return the columns of these positions with the relations among them."""
        picked = self.at(positions)
        if self.relations is None:
            return picked
        return msgspec.structs.replace(picked, relations=self.relations.part(positions))

    def part(self, positions: list[int]) -> Candidates:
        """Return the same as `picked`, for slicers: few of them look at the items, and then at few of those."""
        if self.relations is not None:
            return self.picked(positions)
        pick = _picker(positions)
        return Candidates(Picked(self.items, positions), [*pick(self.scores)], [*pick(self.tokens)])


def _picker(positions: Sequence[int]) -> Callable[[Any], Iterable[Any]]:
    """Return what picks a column's entries at these positions, for three quarters of the cost of a comprehension."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda column: [column[position] for position in positions]  # an itemgetter gives no tuple of one
