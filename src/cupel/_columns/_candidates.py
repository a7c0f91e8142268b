"""Scored items in columns."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

import msgspec

from cupel._checks import as_tuple
from cupel._relations import Relations, read_relations
from cupel.model import ScoredItem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
        if not positions:
            return Candidates([], [], [])
        if len(positions) == 1:  # an itemgetter of one position gives no tuple
            (only,) = positions
            return Candidates([self.items[only]], [self.scores[only]], [self.tokens[only]])
        pick = itemgetter(*positions)  # three quarters of the cost of three comprehensions
        return Candidates(list(pick(self.items)), list(pick(self.scores)), list(pick(self.tokens)))

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
        if len(positions) < 2:  # noqa: PLR2004 - as above
            return self.at(positions)
        pick = itemgetter(*positions)
        return Candidates(Picked(self.items, positions), list(pick(self.scores)), list(pick(self.tokens)))
