"""Filling a budget from a stream, a batch at a time."""

from __future__ import annotations

from collections.abc import AsyncIterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar, overload

from cupel._checks import as_integer
from cupel._columns import descending
from cupel.errors import SlicerConfigError
from cupel.slicers._base import Chooser, FittingSlicer
from cupel.slicers._greedy import GreedySlice

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Sequence

    from cupel._columns import Candidates
    from cupel.model import ContextBudget, ContextItem, ScoredItem

T = TypeVar("T")


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
        object.__setattr__(self, "batch_size", check_batch_size(self.batch_size))

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
            while remaining > 0 and len(chosen) < budget.target_tokens:
                batch = await next_batch(entries, self.batch_size)
                items = [entry.item for entry in batch]
                for position in fill([entry.score for entry in batch], [item.tokens for item in items], remaining):
                    chosen.append(items[position])
                    remaining -= items[position].tokens
                if len(batch) < self.batch_size:
                    break
        return chosen


def fill(scores: list[float], tokens: list[int], remaining: int) -> list[int]:
    """Give the positions of one batch that fit, from the highest score down (ruling 14.9); negative counts never do."""
    chosen: list[int] = []
    for position in descending(scores):
        if 0 <= tokens[position] <= remaining:
            chosen.append(position)
            remaining -= tokens[position]
    return chosen


@asynccontextmanager
async def opened(source: AsyncIterable[T]) -> AsyncGenerator[AsyncIterator[T], None]:
    """Iterate over a source and close it however the reading ends, if it can be closed."""
    iterator = aiter(source)
    try:
        yield iterator
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()


async def next_batch(iterator: AsyncIterator[T], batch_size: int) -> list[T]:
    """Read up to `batch_size` entries; fewer mean that the source has ended.

    The event loop gets its turn each time, or a source that never waits could be neither cancelled nor timed out.
    """
    await _turn()
    batch: list[T] = []
    async for entry in iterator:
        batch.append(entry)
        if len(batch) == batch_size:
            break
    return batch


@coroutine
def _turn() -> Generator[None, None, None]:
    """Suspend once, as `asyncio.sleep(0)` does; importing asyncio would cost every command more than its work."""
    yield


def check_batch_size(batch_size: object) -> int:
    """Convert a positive integer and refuse anything else."""
    return as_integer("batch_size", batch_size, least=1, error=SlicerConfigError)
