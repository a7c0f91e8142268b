"""The contract of a scorer, and the checks that built-in scorers share."""

from __future__ import annotations

from abc import abstractmethod
from math import inf
from operator import countOf
from typing import TYPE_CHECKING, ClassVar

from cupel._internal.checks import as_finite, as_instance, as_number, as_text, as_tuple, shown
from cupel._internal.strategy import Strategy
from cupel.errors import ScorerConfigError, StrategyContractError
from cupel.model import ContextItem

if TYPE_CHECKING:
    from collections.abc import Sequence


def checked_query(query: object) -> str:
    """Return a query that is not blank."""
    text = as_text("query", query)
    if not text.strip():
        raise ScorerConfigError(f"query must not be empty, got {shown(query)}")
    return text


def required_query(scorer: Scorer, query: str | None) -> str:
    """Return a scorer's query, or raise an error that says how to pass one."""
    if query is None:
        msg = f"{type(scorer).__name__} needs a query: pass query=... to the run, or --query to the command"
        raise ScorerConfigError(msg)
    return query


class Scorer(Strategy):
    """Base of scorers; a higher score is more relevant, from 0 to 1 by convention.

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
        """Score every item; the pipeline calls this once for each run."""
        score = self.score
        scores: list[float] = []
        try:
            for item in items:
                scores.append(score(item, items))  # noqa: PERF401  (their number tells which item failed)
        except Exception as error:
            done = len(scores)
            error.add_note(f"{type(self).__name__}.score, for item {done + 1} of {len(items)}: {shown(items[done])}")
            raise
        return scores

    def checked_scores(self, items: Sequence[ContextItem]) -> list[float]:
        """Return the floats of `score_all`, or raise if it did not return one number for each item."""
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
        return [_as_score(name, score, item) for score, item in zip(scores, items, strict=True)]

    def bind(self, query: str) -> Scorer:
        """Return the scorer for one query: itself, unless it or a scorer inside it uses the query."""
        checked_query(query)
        return self

    @property
    def abstains(self) -> bool:
        """Whether a composite ignores the scorer, for lack of a query for instance."""
        return False

    async def warm(self, items: Sequence[ContextItem]) -> None:
        """Await calls that scoring these items needs, such as embeddings; by default those of scorers inside it."""
        children: Sequence[Scorer] = getattr(self, "children", ())
        for child in children:
            await child.warm(items)


class PassScorer(Scorer):
    """Base of the built-ins: `score` and `score_all` are derived from `_scores`, which scores a whole pass."""

    __slots__ = ()

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item among all scoreable items; an item that is not among them is appended."""
        as_instance("item", item, ContextItem)
        peers = as_tuple("all_items", all_items, ContextItem)
        for position in range(len(peers) - 1, -1, -1):
            if peers[position] is item:
                return self._scores(peers)[position]
        return self._scores((*peers, item))[-1]

    def score_all(self, items: Sequence[ContextItem]) -> list[float]:
        """Score every item; the pipeline calls this once for each run."""
        try:
            return self._scores(items)
        except (AttributeError, TypeError):
            as_tuple("items", items, ContextItem)  # checked only on failure, so that the pipeline does not pay for it
            raise

    @abstractmethod
    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        """Return a float for every item."""


class PeerlessScorer(PassScorer):
    """Base of the built-ins that ignore an item's peers."""

    __slots__ = ()

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item; its peers are ignored."""
        del all_items
        return self._scores((as_instance("item", item, ContextItem),))[0]

    score_all = PassScorer.score_all


def _as_score(scorer: str, score: object, item: ContextItem) -> float:
    """Convert one returned score to a float; anything but a number breaks the contract."""
    to_float = getattr(type(score), "__float__", None)
    if to_float is None:
        breach = f"a score must be a number, got {type(score).__name__}: {shown(score)} for {shown(item)}"
        raise StrategyContractError(scorer, breach)
    try:
        return float(to_float(score))
    except OverflowError:
        raise StrategyContractError(scorer, "a score must fit a double, got a larger integer") from None


def as_weight(value: object, field: str) -> float:
    """Convert a real number of any type; a bool counts as one here, unlike in an item (ruling 4.9)."""
    return as_number(field, value, error=ScorerConfigError, flags=True)


def non_negative(value: object, field: str) -> float:
    """Check a weight that may be zero: finite and not negative."""
    return as_finite(field, value, error=ScorerConfigError, least=0.0, flags=True)


def positive(value: object, field: str) -> float:
    """Check a weight that must not be zero: finite and positive."""
    weight = as_weight(value, field)
    if not 0.0 < weight < inf:
        raise ScorerConfigError(f"{field} must be finite and > 0, got {shown(value)}")
    return weight


def unit_interval(value: object, field: str) -> float:
    """Check the default for a missing score: from 0 to 1, not NaN."""
    return as_finite(field, value, error=ScorerConfigError, least=0.0, most=1.0, flags=True)
