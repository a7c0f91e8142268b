"""Scored candidates in columns, and the orders that stages share."""

from __future__ import annotations

from collections import deque
from math import floor, isfinite, isnan
from operator import itemgetter
from sys import float_info
from typing import TYPE_CHECKING, Any, cast

import msgspec

from cupel._internal.checks import as_tuple, shown
from cupel._internal.relations import Relations, read_relations
from cupel.errors import StrategyContractError
from cupel.model import ScoredItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from cupel.model import ContextItem


class Candidates(msgspec.Struct, frozen=True):
    """Scored items as three parallel columns, so that a position names an item without comparing any.

    >>> from cupel.model import ContextItem, ScoredItem
    >>> columns = Candidates.of([ScoredItem(ContextItem("hello", 1), 0.5)])
    >>> columns.scores, columns.tokens
    ([0.5], [1])
    """

    items: list[ContextItem]
    scores: list[float]
    tokens: list[int]
    relations: Relations | None = None
    """The forms and groups of the items; None if no items are related."""

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


def _picker(positions: Sequence[int]) -> Callable[[Any], Iterable[Any]]:
    """Return a function that picks a column's entries at these positions, a quarter faster than a comprehension."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda column: [column[position] for position in positions]  # an itemgetter gives no tuple of one


def positions_of(
    returned: Iterable[ContextItem], items: Iterable[ContextItem], strategy: str, method: str
) -> list[int]:
    """Find the positions of returned items by identity, each occurrence once (ruling 3.16); raise if one is missing."""
    places: dict[int, deque[int]] = {}
    for position, item in enumerate(items):
        places.setdefault(id(item), deque()).append(position)
    positions: list[int] = []
    try:
        results = list(returned)
    except TypeError:
        raise StrategyContractError(strategy, f"{method} must return a list of items, got {shown(returned)}") from None
    for item in results:
        left = places.get(id(item))
        if left is None:
            raise StrategyContractError(strategy, f"{method} returned an item it was not given: {shown(item)}")
        if not left:
            raise StrategyContractError(
                strategy, f"{method} returned an item more often than it was given: {shown(item)}"
            )
        positions.append(left.popleft())
    return positions


_SCALE = 10_000
_LARGEST_VALUE = 2**63 - 1


def scaled_score(score: float) -> int:
    """Turn a score into the solver's whole number; beyond the finite it saturates (rulings 5.6, 5.9)."""
    scaled = score * _SCALE
    if not isfinite(scaled):
        return _LARGEST_VALUE if scaled > 0 else 0
    return min(max(0, floor(scaled)), _LARGEST_VALUE)


def densities(scores: list[float], tokens: list[int]) -> list[float]:
    """Return the score of each token; items without tokens are the densest."""
    return [score / cost if cost else float_info.max for score, cost in zip(scores, tokens, strict=True)]


LARGE = 50_000


def descending(keys: list[float]) -> list[int]:
    """Return the positions of `keys` from the largest to the smallest; NaN comes last.

    >>> descending([0.5, 0.9, 0.5])
    [1, 0, 2]
    """
    if len(keys) >= LARGE:
        import numpy as np

        return cast("list[int]", np.argsort(-np.array(keys), kind="stable").tolist())
    if has_nan(keys):
        return sorted(range(len(keys)), key=lambda position: (keys[position] != keys[position], -keys[position]))
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=True)


def has_nan(numbers: list[float]) -> bool:
    """Return whether a number may be NaN, in one pass in C; opposite infinities count as well.

    >>> has_nan([0.5, float("nan")]), has_nan([0.5, float("inf")])
    (True, False)
    """
    # A sum that is NaN is NaN in every version of Python.
    return isnan(sum(numbers))  # type: ignore[float-sum]


def ascending(times: list[datetime | None]) -> list[int]:
    """Return the positions of `times` from the earliest to the latest, leaving out those that are None.

    >>> from datetime import datetime
    >>> ascending([datetime(2025, 1, 2), None, datetime(2025, 1, 1)])
    [2, 0]
    """
    if all(times):  # an instant is always true
        return sorted(range(len(times)), key=times.__getitem__)  # type: ignore[arg-type]
    present = [position for position, time in enumerate(times) if time is not None]
    return sorted(present, key=times.__getitem__)  # type: ignore[arg-type]
