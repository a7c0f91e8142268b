"""Another scorer, stretched to the full range."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan
from typing import TYPE_CHECKING

from cupel._checks import as_instance, as_tuple
from cupel.model import ContextItem
from cupel.scorers._base import PassScorer, Scorer
from cupel.scorers._graph import refuse_cycles

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_INFORMATION = 0.5
"""The score when the inner scorer tells no two items apart."""


@dataclass(frozen=True, slots=True)
class ScaledScorer(PassScorer):
    """Stretches another scorer's scores so that the lowest of a pass becomes 0 and the highest 1.

    If the inner scorer gives every item one score, or the item is not among its peers, the score is 0.5.

    >>> from cupel import ContextItem, ReflexiveScorer
    >>> hints = (0.3, 0.4, 0.5)
    >>> ScaledScorer(ReflexiveScorer()).score_all([ContextItem("x", 1, future_relevance_hint=hint) for hint in hints])
    [0.0, 0.5000000000000001, 1.0]
    """

    inner: Scorer

    def __post_init__(self) -> None:
        as_instance("inner", self.inner, Scorer)
        refuse_cycles(self)

    @property
    def children(self) -> tuple[Scorer, ...]:
        """The one scorer that is stretched."""
        return (self.inner,)

    def bind(self, query: str) -> ScaledScorer:
        """Return the scorer around its inner one, bound to a query."""
        return ScaledScorer(self.inner.bind(query))

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item among all scoreable items; one that is not among them has no place in their range."""
        if not any(peer is item for peer in as_tuple("all_items", all_items, ContextItem)):
            return NO_INFORMATION  # ruling 4.11
        return super(ScaledScorer, self).score(item, all_items)

    score_all = PassScorer.score_all

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        if not items:
            return []
        raw = self.inner.checked_scores(items)
        ordered = [score for score in raw if not isnan(score)] if isnan(sum(raw)) else raw
        low, high = min(ordered, default=inf), max(ordered, default=-inf)
        if low == high:
            return [NO_INFORMATION] * len(raw)
        span = high - low
        return [(score - low) / span for score in raw]
