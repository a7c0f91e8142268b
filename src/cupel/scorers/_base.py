"""The contract of a scorer, and what the built-ins share."""

from __future__ import annotations

from abc import abstractmethod
from operator import countOf
from typing import TYPE_CHECKING, ClassVar

from cupel._checks import as_instance, as_tuple, shown
from cupel._strategy import Strategy
from cupel.errors import StrategyContractError
from cupel.model import ContextItem
from cupel.scorers._query import checked_query

if TYPE_CHECKING:
    from collections.abc import Sequence


class Scorer(Strategy):
    """Scores items; higher is more relevant, from 0 to 1 by convention.

    Write `score`, a pure function of the item and its peers. Override `score_all` when the whole pass can be computed
    at once; it must return exactly what `score` returns item by item.

    >>> class Shortest(Scorer):
    ...     def score(self, item, all_items):
    ...         return 1.0 / (1 + item.tokens)
    >>> from cupel import ContextItem
    >>> Shortest().score_all([ContextItem("a", 0), ContextItem("b", 3)])
    [1.0, 0.25]
    """

    __slots__ = ()
    _faces: ClassVar[tuple[str, str]] = ("score", "score_all")

    @abstractmethod
    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item among all scoreable items, itself included."""

    def score_all(self, items: Sequence[ContextItem]) -> list[float]:
        """Score every item; what the pipeline calls, once a run."""
        score = self.score
        return [score(item, items) for item in items]

    def checked_scores(self, items: Sequence[ContextItem]) -> list[float]:
        """Run `score_all` over a non-empty pass and hold it to its contract: one number for each item, as floats."""
        scores = self.score_all(items)
        if type(self).score_all is PassScorer.score_all:
            return scores
        name = type(self).__name__
        try:
            count = len(scores)
        except TypeError:
            raise StrategyContractError(name, f"score_all must return a list of numbers, got {shown(scores)}") from None
        if count != len(items):
            raise StrategyContractError(name, f"score_all returned {count} scores for {len(items)} items")
        if countOf(map(type, scores), float) == count and isinstance(scores, list):
            return scores
        return [_as_score(name, score) for score in scores]

    def bind(self, query: str) -> Scorer:
        """Return the scorer for one query: itself, unless it or a scorer inside it asks what the query is."""
        checked_query(query)
        return self

    @property
    def abstains(self) -> bool:
        """Whether the scorer has nothing to say, for lack of a query for instance: a composite then leaves it out."""
        return False

    async def warm(self, items: Sequence[ContextItem]) -> None:
        """Await what scoring these items needs; nothing, unless this scorer or one inside it asks a service."""
        children: Sequence[Scorer] = getattr(self, "children", ())
        for child in children:
            await child.warm(items)


class PassScorer(Scorer):
    """Base of the built-ins: both methods come from `_scores`, a whole pass at once."""

    __slots__ = ()

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item among all scoreable items; one that is not among them counts as the last of them."""
        as_instance("item", item, ContextItem)
        peers = as_tuple("all_items", all_items, ContextItem)
        for position in range(len(peers) - 1, -1, -1):
            if peers[position] is item:
                return self._scores(peers)[position]
        return self._scores((*peers, item))[-1]

    def score_all(self, items: Sequence[ContextItem]) -> list[float]:
        """Score every item; what the pipeline calls, once a run."""
        try:
            return self._scores(items)
        except (AttributeError, TypeError):
            as_tuple("items", items, ContextItem)  # looked at only now, so that the pipeline does not pay for it
            raise

    @abstractmethod
    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        """Return a float for every item."""


class PeerlessScorer(PassScorer):
    """Base of the built-ins to which an item's peers do not matter."""

    __slots__ = ()

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item; its peers do not matter."""
        del all_items
        return self._scores((as_instance("item", item, ContextItem),))[0]

    score_all = PassScorer.score_all


def _as_score(scorer: str, score: object) -> float:
    """Turn what a scorer returned for one item into a float: numbers of any kind pass, anything else is a breach."""
    to_float = getattr(type(score), "__float__", None)
    if to_float is None:
        breach = f"a score must be a number, got {type(score).__name__}: {shown(score)}"
        raise StrategyContractError(scorer, breach)
    try:
        return float(to_float(score))
    except OverflowError:
        raise StrategyContractError(scorer, "a score must fit a double, got a larger integer") from None
