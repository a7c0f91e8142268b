"""Reading an asynchronous source a batch at a time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import coroutine
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator

T = TypeVar("T")


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
