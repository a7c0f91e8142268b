"""Most score per token first."""

from __future__ import annotations

from dataclasses import dataclass
from operator import truediv  # pyright: ignore[reportUnknownVariableType]
from sys import float_info
from typing import TYPE_CHECKING, cast

from cupel.model import descending
from cupel.slicers._base import Chooser, FittedSlicer, Selection, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from cupel.model import Candidates, ContextBudget

_density = cast("Callable[[float, int], float]", truediv)


@dataclass(frozen=True, slots=True)
class GreedySlice(FittedSlicer):
    """Takes items by score per token, highest first, skipping what no longer fits; items without tokens always fit.

    Fast, and usually close to the best: `cupel.analytics.optimality_gap` says how close in a given case.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> big, small = ContextItem("big", 300), ContextItem("small", 50)
    >>> chosen = GreedySlice().slice([ScoredItem(big, 0.9), ScoredItem(small, 0.5)], ContextBudget(320, 320))
    >>> [item.content for item in chosen]
    ['small']
    """

    def fit(self, candidates: Candidates) -> GreedyChooser:
        """Order the candidates by density once."""
        tokens = candidates.tokens
        smallest = min(tokens, default=0)
        if smallest > 0:
            densities = list(map(_density, candidates.scores, tokens))
            return GreedyChooser(descending(densities), tokens, smallest)
        densities = [
            score / cost if cost else float_info.max for score, cost in zip(candidates.scores, tokens, strict=True)
        ]
        # A slicer called outside the pipeline may meet negative counts; none of the built-ins takes them (ruling 5.4).
        return GreedyChooser([position for position in descending(densities) if tokens[position] >= 0], tokens, 0)


class GreedyChooser(Chooser):
    """Fills budgets in one fixed order."""

    __slots__ = ("_smallest", "_tokens", "order")

    def __init__(self, order: list[int], tokens: list[int], smallest: int) -> None:
        self.order = order
        """Positions from the highest density to the lowest."""
        self._tokens = tokens
        self._smallest = smallest

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take in order whatever still fits."""
        remaining = budget.target_tokens
        chosen: list[int] = []
        if remaining <= 0:
            return Selection(chosen)
        tokens, smallest = self._tokens, self._smallest
        for position in self.order:
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
