"""Filling a budget from a stream, a batch at a time."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from cupel._checks import as_integer
from cupel._columns import Candidates
from cupel._relations import check_batch
from cupel._streams import fill, next_batch, opened
from cupel.errors import SlicerConfigError
from cupel.model import ContextBudget
from cupel.slicers._base import Chooser, FittingSlicer
from cupel.slicers._best_first import BestFirstSlice
from cupel.slicers._greedy import GreedySlice

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from cupel.model import ContextItem, ScoredItem


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
