"""Where candidates come from when they have to be waited for."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from cupel._checks import as_tuple, wrong_type
from cupel._streams import next_batch, opened
from cupel.errors import SelectionError
from cupel.model import ContextItem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


_BATCH: Final = 32
"""Entries read before the event loop gets its turn: a timeout has to be able to strike."""


class ItemSource:
    """Provides candidates: write `get` to give them all at once, or `stream` to give one after the other.

    Each is the default of the other. Nothing has to inherit from this class: see `SourceLike`.

    >>> import asyncio
    >>> from cupel import ContextItem
    >>> class Notes(ItemSource):
    ...     async def get(self):
    ...         return [ContextItem("The build is green.", 5)]
    >>> async def first(source):
    ...     return await anext(source.stream())
    >>> asyncio.run(first(Notes())).tokens
    5
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.get is ItemSource.get and cls.stream is ItemSource.stream:
            msg = f"{cls.__name__} must define get or stream: each is only the other's default"
            raise TypeError(msg)

    async def get(self) -> Iterable[ContextItem]:
        """Return all items."""
        return [item async for item in self.stream()]

    async def stream(self) -> AsyncIterator[ContextItem]:
        """Yield the items one after the other."""
        for item in await self.get():
            yield item


Found: TypeAlias = Iterable[ContextItem] | AsyncIterable[ContextItem]
Provider: TypeAlias = (
    ItemSource | AsyncIterable[ContextItem] | Awaitable[Found] | Callable[[], Found | Awaitable[Found]]
)
SourceLike: TypeAlias = Provider | Iterable[ContextItem]
"""What can stand for a source: an object with an asynchronous `get()`, an asynchronous or plain iterable of items, an
awaitable that gives one, or a function without arguments that returns any of these."""


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source that gave nothing, and why.

    >>> print(SourceFailure("web", TimeoutError(), timeout=2.5))
    web: timed out after 2.5 s
    """

    source: str
    """Its name: the key it was given under, or its place in the list."""
    error: BaseException
    """What it raised."""
    timeout: float | None = None
    """The seconds it was given, if they ran out."""

    def __str__(self) -> str:
        if self.timeout is not None:
            return f"{self.source}: timed out after {self.timeout:g} s"
        return f"{self.source}: {type(self.error).__name__}: {self.error}"


class SourceError(SelectionError):
    """A source failed or ran out of time and `on_error` is `raise`; `failure` has the details."""

    def __init__(self, failure: SourceFailure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        return str(self.failure)


def streamed(source: object) -> AsyncIterable[ContextItem]:
    """Return the asynchronous iterable a source is or has; raises for anything that would have to be read whole."""
    if isinstance(source, ItemSource):
        return source.stream()
    if isinstance(source, AsyncIterable):
        return cast("AsyncIterable[ContextItem]", source)
    raise wrong_type("source", "an asynchronous iterable or an ItemSource", source)


async def read_all(source: Any) -> tuple[ContextItem, ...]:
    """Read a source to its end, closing what can be closed."""
    found: AsyncIterable[Any] | Iterable[Any] | Awaitable[Any] = source
    if isinstance(source, ItemSource) or iscoroutinefunction(getattr(source, "get", None)):
        found = source.get()
    elif callable(source):
        found = cast("Awaitable[Any]", source())
    return as_tuple("items", await _listed(await found if isinstance(found, Awaitable) else found), ContextItem)


async def _listed(found: AsyncIterable[Any] | Iterable[Any]) -> list[Any]:
    if isinstance(found, (list, tuple)):
        return list(cast("list[Any]", found))
    if not isinstance(found, AsyncIterable):
        plain: object = found
        if isinstance(plain, (str, bytes, Mapping)) or not isinstance(plain, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("what a source gives", "an iterable of items", found)
        found = _one_by_one(found)
    entries: list[Any] = []
    async with opened(found) as iterator:
        while len(entries) % _BATCH == 0:  # a shorter batch is the last
            batch = await next_batch(iterator, _BATCH)
            if not batch:
                break
            entries += batch
    return entries


async def _one_by_one(entries: Iterable[Any]) -> AsyncIterator[Any]:
    for entry in entries:
        yield entry
