"""Most score per token first."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from operator import truediv  # pyright: ignore[reportUnknownVariableType]
from sys import float_info
from typing import TYPE_CHECKING, cast

from cupel.model import descending
from cupel.slicers._base import Chooser, FittedSlicer, Selection, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from cupel.model import Candidates, ContextBudget

_LARGE_POOL = 4_000  # below, a full sort is as quick
_SAMPLED = 31  # one density of so many tells where to cut
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
        """Compute each candidate's density once."""
        scores, tokens = candidates.scores, candidates.tokens
        smallest = min(tokens) if tokens else 0
        if smallest > 0:
            return GreedyChooser(list(map(_density, scores, tokens)), tokens, smallest)
        densities = [score / cost if cost else float_info.max for score, cost in zip(scores, tokens, strict=True)]
        return GreedyChooser(densities, tokens, smallest)


class GreedyChooser(Chooser):
    """Fills budgets in one fixed order."""

    __slots__ = ("_densities", "_order", "_smallest", "_tokens")

    def __init__(self, densities: list[float], tokens: list[int], smallest: int) -> None:
        self._densities = densities
        self._tokens = tokens
        self._smallest = smallest
        self._order: list[int] | None = None

    @property
    def order(self) -> list[int]:
        """Positions from the highest density to the lowest."""
        if self._order is None:
            order, tokens = descending(self._densities), self._tokens
            # Called outside the pipeline, it may meet negative counts; no built-in takes them (ruling 5.4).
            self._order = order if self._smallest >= 0 else [place for place in order if tokens[place] >= 0]
        return self._order

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take in order whatever still fits."""
        chosen: list[int] = []
        remaining = budget.target_tokens
        if remaining <= 0:
            return Selection(chosen)
        some = self._enough(remaining) if self._order is None else None
        if some is None:
            self._take(self.order, remaining, chosen)
            return Selection(chosen)
        remaining = self._take(some, remaining, chosen)
        if remaining >= self._smallest:
            # What did not fit will not fit later, so of the others only the small ones need an order.
            passed = set(some)
            small = [place for place, cost in enumerate(self._tokens) if cost <= remaining and place not in passed]
            self._take(sorted(small, key=self._densities.__getitem__, reverse=True), remaining, chosen)
        return Selection(chosen)

    def _enough(self, target: int) -> list[int] | None:
        """Give the densest in order, several times as many as fit, where that is few of a large pool."""
        tokens = self._tokens
        if len(tokens) < _LARGE_POOL or self._smallest <= 0:
            return None
        densities = self._densities
        sample = sorted(densities[::_SAMPLED], reverse=True)
        # Dense items are small, so many times more of them fit than of average ones.
        wanted = 24 * target * len(tokens) // sum(tokens) // _SAMPLED + 8
        if wanted * 4 > len(sample) or isnan(sum(densities)):
            return None
        least = sample[wanted]
        dense = [place for place, density in enumerate(densities) if density >= least]
        dense.sort(key=densities.__getitem__, reverse=True)
        return dense

    def _take(self, order: list[int], remaining: int, chosen: list[int]) -> int:
        """Add to `chosen` what fits, and give what is left of the target."""
        tokens, smallest = self._tokens, self._smallest
        for position in order:
            cost = tokens[position]
            if cost <= remaining:
                chosen.append(position)
                remaining -= cost
                if remaining < smallest:
                    break
        return remaining

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
