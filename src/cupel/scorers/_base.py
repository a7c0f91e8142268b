"""The contract of a scorer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from cupel.errors import StrategyContractError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem

S = TypeVar("S", bound="Scorer")


class Scorer(ABC):
    """Gives each item a score; higher is more relevant, from 0 to 1 by convention.

    Write `score`, a pure function of the item and its peers. Override `score_all` when the whole pass can be computed
    at once; it must give exactly what `score` gives item by item.

    >>> class Shortest(Scorer):
    ...     def score(self, item, all_items):
    ...         return 1.0 / (1 + item.tokens)
    >>> from cupel import ContextItem
    >>> Shortest().score_all([ContextItem("a", 0), ContextItem("b", 3)])
    [1.0, 0.25]
    """

    __slots__ = ()

    @abstractmethod
    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item among all scoreable items, itself included."""

    def score_all(self, items: Sequence[ContextItem]) -> list[float]:
        """Score every item; what the pipeline calls, once a run."""
        score = self.score
        return [score(item, items) for item in items]


_sound: set[type[Scorer]] = set()


def sound(scorer_type: type[S]) -> type[S]:
    """Mark a built-in whose `score_all` gives one float an item by construction; subclasses are checked again."""
    _sound.add(scorer_type)
    return scorer_type


def checked_scores(scorer: Scorer, items: Sequence[ContextItem]) -> list[float]:
    """Run a scorer over a non-empty pass and make sure that it kept its contract: one number an item, as floats."""
    scores = scorer.score_all(items)
    if type(scorer) in _sound:
        return scores
    if len(scores) != len(items):
        raise StrategyContractError(
            type(scorer).__name__, f"score_all returned {len(scores)} scores for {len(items)} items"
        )
    if set(map(type, scores)) == {float}:
        return scores
    return [as_score(scorer, score) for score in scores]


def as_score(scorer: Scorer, score: object) -> float:
    """Turn what a scorer returned for one item into a float: numbers of any kind pass, anything else is a breach."""
    to_float = getattr(type(score), "__float__", None)
    if to_float is None:
        raise StrategyContractError(
            type(scorer).__name__, f"a score must be a number, got {type(score).__name__}: {score!r}"
        )
    try:
        return float(to_float(score))
    except OverflowError:
        raise StrategyContractError(type(scorer).__name__, "a score must fit a double, got a larger integer") from None
