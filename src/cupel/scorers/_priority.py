"""Higher priority scores higher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel.scorers._base import Scorer, sound
from cupel.scorers._rank import level_scores, rank_score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem


@sound
@dataclass(frozen=True, slots=True)
class PriorityScorer(Scorer):
    """Scores by rank of `priority`: the highest 1, the lowest 0; no priority scores 0. Ties as in `RecencyScorer`.

    >>> from cupel import ContextItem
    >>> PriorityScorer().score_all([ContextItem("x", 1, priority=priority) for priority in (10, None, 2)])
    [1.0, 0.0, 0.0]
    """

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item among all scoreable items."""
        return rank_score(item.priority, (peer.priority for peer in all_items))

    def score_all(self, items: Sequence[ContextItem]) -> list[float]:
        """Score every item in one pass."""
        return level_scores([item.priority for item in items])
