"""Higher priority scores higher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel.scorers._base import PassScorer
from cupel.scorers._rank import level_scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem


@dataclass(frozen=True, slots=True)
class PriorityScorer(PassScorer):
    """Scores by rank of `priority`: the highest 1, the lowest 0; no priority scores 0. Ties as in `RecencyScorer`.

    >>> from cupel import ContextItem
    >>> PriorityScorer().score_all([ContextItem("x", 1, priority=priority) for priority in (10, None, 2)])
    [1.0, 0.0, 0.0]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return level_scores([item.priority for item in items])
