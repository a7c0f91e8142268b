"""Best score first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cupel.slicers._base import FittingSlicer
from cupel.slicers._greedy import GreedyChooser
from cupel.slicers._ladders import Ladders
from cupel.slicers._steps import StepChooser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cupel._columns import Candidates


@dataclass(frozen=True, slots=True)
class BestFirstSlice(FittingSlicer):
    """Takes items from the best score down, each one that still fits; size does not count against an item.

    The choice for scores that already speak of the whole item, such as relevance to a query or recency. `GreedySlice`
    weighs score against size: it would trade the long tool result that is about to be answered for many greetings.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> scored = [ScoredItem(ContextItem("long and new", 60), 1.0), ScoredItem(ContextItem("short and old", 5), 0.1)]
    >>> [item.content for item in BestFirstSlice().slice(scored, ContextBudget(64, 64))]
    ['long and new']
    """

    def _fit(self, candidates: Candidates) -> BestFirstChooser | StepChooser:
        """See the candidates once; related ones are taken in steps: all in their smallest forms before larger ones."""
        if candidates.relations is not None:
            ladders = Ladders(candidates.relations)
            return StepChooser(ladders, ladders.by_score())
        return BestFirstChooser(candidates.scores, candidates.tokens)


class BestFirstChooser(GreedyChooser):
    """Fills budgets in the order of the scores."""

    def _merits(self) -> list[float]:
        return self._scores

    def replay(self, kinds: Mapping[str, int]) -> dict[str, Any]:
        """The script's candidates are in this order."""
        del kinds
        return {"type": "best_first"}
