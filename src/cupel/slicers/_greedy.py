"""Most score per token first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from sys import float_info
from typing import TYPE_CHECKING, Any

from cupel._columns import descending
from cupel._ratios import quotient
from cupel.slicers._base import Chooser, FittingSlicer, Reach, Selection, Span
from cupel.slicers._ladders import Ladders
from cupel.slicers._steps import StepChooser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cupel._columns import Candidates
    from cupel._targets import Targets, Wanted, Work
    from cupel.model import ContextBudget
    from cupel.slicers._fill_back import BackwardFill


@dataclass(frozen=True, slots=True)
class GreedySlice(FittingSlicer):
    """Takes items by score per token, highest first, skipping what no longer fits; items without tokens always fit.

    Fast, and usually close to the best: `cupel.analytics.optimality_gap` says how close in a given case.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> big, small = ContextItem("big", 300), ContextItem("small", 50)
    >>> chosen = GreedySlice().slice([ScoredItem(big, 0.9), ScoredItem(small, 0.5)], ContextBudget(320, 320))
    >>> [item.content for item in chosen]
    ['small']
    """

    def _fit(self, candidates: Candidates) -> GreedyChooser | StepChooser:
        """See the candidates once; related ones are taken in steps."""
        if candidates.relations is not None:
            ladders = Ladders(candidates.relations)
            return StepChooser(ladders, ladders.by_density())
        return GreedyChooser(candidates.scores, candidates.tokens)


class GreedyChooser(Chooser):
    """Fills budgets in one fixed order."""

    def __init__(self, scores: list[float], tokens: list[int]) -> None:
        self._scores = scores
        self._tokens = tokens
        self._smallest = min(tokens, default=0)
        ranking = descending(self._merits())
        if self._smallest < 0:
            # Called outside the pipeline, it may meet negative counts; no built-in takes them (ruling 5.4).
            ranking = [position for position in ranking if tokens[position] >= 0]
        self._ranking = ranking

    @property
    def order(self) -> list[int]:
        """Positions in the order in which they are tried."""
        return self._ranking

    @cached_property
    def _backward(self) -> tuple[BackwardFill, dict[int, int]]:
        """The fill from its end, and the rank of each position."""
        from cupel.slicers._fill_back import BackwardFill  # brings NumPy

        fill = BackwardFill([self._tokens[position] for position in self._ranking])
        return fill, {position: rank for rank, position in enumerate(self._ranking)}

    def _merits(self) -> list[float]:
        return _densities(self._scores, self._tokens)

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take in order whatever still fits."""
        chosen: list[int] = []
        remaining = budget.target_tokens
        if remaining <= 0:
            return Selection(chosen)
        tokens, smallest = self._tokens, self._smallest
        for position in self._ranking:
            cost = tokens[position]
            if cost <= remaining:
                chosen.append(position)
                remaining -= cost
                if remaining < smallest:
                    break
        return Selection(chosen)

    def span(self, budget: ContextBudget) -> Span:
        """Reach down to the tokens used, and up to where the first skipped item would have fitted."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1 if self.order else None)
        remaining = target
        missing: int | None = None
        for position in self.order:
            cost = self._tokens[position]
            if cost <= remaining:
                remaining -= cost
            elif missing is None or cost - remaining < missing:
                missing = cost - remaining
        return Span(max(target - remaining, 1), None if missing is None else target + missing)

    def reach(self) -> Reach:
        """Everything fits into the sum."""
        return Reach(sum(self._tokens[position] for position in self.order))

    def targets(self, wanted: Wanted, highest: int, work: Work) -> Targets:
        """Work back from the item to what may be left before the first."""
        fill, ranks = self._backward
        rivals = {ranks[position] for position in wanted.rivals}
        return fill.targets(ranks[wanted.position], rivals, wanted.room, highest, work)

    def replay(self, kinds: Mapping[str, int]) -> dict[str, Any]:
        """The script has the order."""
        del kinds
        return {"type": "greedy"}


def _densities(scores: list[float], tokens: list[int]) -> list[float]:
    pairs = zip(scores, tokens, strict=True)
    try:
        return [score / cost if cost else float_info.max for score, cost in pairs]
    except OverflowError:  # somebody counts more tokens than a double can say
        pairs = zip(scores, tokens, strict=True)
        return [quotient(score, cost) if cost else float_info.max for score, cost in pairs]
