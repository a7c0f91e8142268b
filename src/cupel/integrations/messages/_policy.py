"""The policy for conversations that name none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel.model import OverflowStrategy
from cupel.policy import Policy, register_slicer
from cupel.scorers import RecencyScorer
from cupel.slicers import Slicer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextBudget, ContextItem, ScoredItem


@register_slicer("best_first")
@dataclass(frozen=True, slots=True)
class BestFirstSlice(Slicer):
    """Takes items from the best score down, each one that still fits; size does not count against an item.

    `GreedySlice` weighs score against size, which suits documents. In a conversation it would trade the long tool
    result that is about to be answered for many short greetings.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> scored = [ScoredItem(ContextItem("long and new", 60), 1.0), ScoredItem(ContextItem("short and old", 5), 0.1)]
    >>> [item.content for item in BestFirstSlice().slice(scored, ContextBudget(64, 64))]
    ['long and new']
    """

    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        """Choose items for one budget."""
        remaining = budget.target_tokens
        chosen: list[ContextItem] = []
        for entry in scored if remaining > 0 else ():
            if 0 <= entry.item.tokens <= remaining:
                chosen.append(entry.item)
                remaining -= entry.item.tokens
        return chosen


def newest_first() -> Policy:
    """The default for `fit`: the newest units first, whole, skipping what does not fit; nothing is deduplicated.

    Saying the same thing twice in a conversation is not a mistake to clean up, so equal messages all stay candidates.

    >>> newest_first().to_dict()["slicer"]
    'best_first'
    """
    return Policy(
        RecencyScorer(),
        BestFirstSlice(),
        deduplicate=False,
        overflow=OverflowStrategy.TRUNCATE,
        name="newest-first",
    )
