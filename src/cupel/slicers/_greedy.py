"""Slicers that take candidates in a fixed order: by density, by score, from a stream."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass
from functools import cached_property
from sys import float_info
from typing import TYPE_CHECKING, Any, overload

from cupel._checks import as_integer
from cupel._columns import Candidates, descending
from cupel._ratios import quotient
from cupel._relations import check_batch
from cupel._streams import fill, next_batch, opened
from cupel.errors import SlicerConfigError
from cupel.model import ContextBudget
from cupel.slicers._base import Chooser, FittingSlicer, Reach, Selection, Span
from cupel.slicers._related import Ladders, StepChooser

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from cupel._targets import Targets, Wanted, Work
    from cupel.model import ContextItem, ScoredItem
    from cupel.slicers._targets import BackwardFill


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
        from cupel.slicers._targets import BackwardFill  # brings NumPy

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


@dataclass(frozen=True, slots=True)
class StreamSlice(FittingSlicer):
    """Takes scored items as they come, `batch_size` at a time, and stops reading once the budget is full.

    Each batch is taken by score, highest first, skipping what no longer fits; items without tokens always fit, but no
    more is read once there are as many items as the budget has tokens. Awaiting `slice` reads an asynchronous iterable
    and closes it. Everything that has its candidates at hand, such as
    `Pipeline.run`, gets the choice of `GreedySlice`.

    >>> import asyncio
    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> async def endless():
    ...     while True:
    ...         yield ScoredItem(ContextItem("again", 40), 0.5)
    >>> len(asyncio.run(StreamSlice(batch_size=4).slice(endless(), ContextBudget(80, 80))))
    2
    """

    batch_size: int = 32

    def __post_init__(self) -> None:
        size = as_integer("batch_size", self.batch_size, least=1, error=SlicerConfigError)
        object.__setattr__(self, "batch_size", size)

    @overload
    def slice(
        self, scored: AsyncIterable[ScoredItem], budget: ContextBudget
    ) -> Coroutine[Any, Any, list[ContextItem]]: ...
    @overload
    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]: ...
    def slice(
        self, scored: AsyncIterable[ScoredItem] | Sequence[ScoredItem], budget: ContextBudget
    ) -> Coroutine[Any, Any, list[ContextItem]] | list[ContextItem]:
        """Choose items for one budget: to be awaited when `scored` is asynchronous."""
        if isinstance(scored, AsyncIterable):
            return self._read(scored, budget)
        return GreedySlice().slice(scored, budget)

    fit = FittingSlicer.fit  # its own `slice` chooses the same

    def _fit(self, candidates: Candidates) -> Chooser:
        """See the candidates once; with all of them at hand there is nothing to wait for (ruling 14.2)."""
        return GreedySlice().fit(candidates)

    async def _read(self, scored: AsyncIterable[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        remaining = budget.target_tokens
        chosen: list[ContextItem] = []
        async with opened(scored) as entries:
            # A last, partial batch is not looked at when the budget is full; items without tokens alone never fill it.
            seen: set[tuple[str, str]] = set()
            while remaining > 0 and len(chosen) < budget.target_tokens:
                batch = await next_batch(entries, self.batch_size)
                check_batch((entry.item for entry in batch), seen)
                candidates = Candidates.of(batch)
                for position in _fitting(candidates, remaining):
                    chosen.append(candidates.items[position])
                    remaining -= candidates.tokens[position]
                if len(batch) < self.batch_size:
                    break
        return chosen


def _fitting(candidates: Candidates, remaining: int) -> list[int]:
    """Return the positions of one batch that fit, from the highest score down."""
    if candidates.relations is None:
        return fill(candidates.scores, candidates.tokens, remaining)
    return BestFirstSlice().fit(candidates)(ContextBudget(remaining, remaining)).chosen
