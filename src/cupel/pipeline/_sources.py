"""Read candidates asynchronously: whole sources at once, or a stream batch by batch."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import iscoroutine, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from cupel._internal.checks import as_integer, as_number, as_text, as_tuple, shown, wrong_type
from cupel._internal.columns import Candidates, descending
from cupel._internal.relations import are_related, check_batch
from cupel._internal.streams import next_batch, opened
from cupel.diagnostics import ExcludedItem
from cupel.errors import PipelineConfigError, SelectionError
from cupel.model import ContextBudget, ContextItem, ScoredItem
from cupel.pipeline._observer import classified_out, deduplicated_out, displaced_by, sliced_out, truncated_out
from cupel.pipeline._prepared import Selected
from cupel.pipeline._stages import check_pinned, classify, effective_budget, find_copies, place, score, sort
from cupel.slicers import BestFirstSlice, GreedySlice, Selection, Slicer, StreamSlice

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from cupel.pipeline._pipeline import Pipeline
    from cupel.pipeline._stages import Classified


_BATCH: Final = 32
"""Entries read before the event loop gets its turn: a timeout has to be able to strike."""


class ItemSource:
    """Base of item sources: implement `get` to return all items at once, or `stream` to yield them one by one.

    Each method has a default that calls the other. Inheriting from this class is optional: see `SourceLike`.

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
            raise TypeError(f"{cls.__name__} must define get or stream: each is only the other's default")

    async def get(self) -> Iterable[ContextItem]:
        """Return all items."""
        return [item async for item in self.stream()]

    async def stream(self) -> AsyncIterator[ContextItem]:
        """Yield the items one after the other."""
        for item in await self.get():
            yield item


FoundItems: TypeAlias = Iterable[ContextItem] | AsyncIterable[ContextItem]
ItemProvider: TypeAlias = (
    ItemSource | AsyncIterable[ContextItem] | Awaitable[FoundItems] | Callable[[], FoundItems | Awaitable[FoundItems]]
)
SourceLike: TypeAlias = ItemProvider | Iterable[ContextItem]
"""A source of items: an object with an asynchronous `get()`, an asynchronous or plain iterable of items, an awaitable
that returns one, or a function without arguments that returns any of these."""


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source that failed, and the reason.

    >>> print(SourceFailure("web", TimeoutError(), timeout=2.5))
    web: timed out after 2.5 s
    """

    source: str
    """Its name: the key it was given under, or its place in the list."""
    error: BaseException
    """The exception that it raised."""
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


# Only one member fits a dict and one a list, or type checkers could not infer what is in them.
Sources: TypeAlias = "Mapping[str, SourceLike] | Sequence[SourceLike | ContextItem] | ItemProvider"
Timeout: TypeAlias = "float | Mapping[str, float] | None"
OnError: TypeAlias = Literal["raise", "skip"]


async def gather(
    sources: Sources,
    timeout: Timeout,  # noqa: ASYNC109  (for each source on its own)
    on_error: OnError,
) -> tuple[list[ContextItem], tuple[SourceFailure, ...]]:
    """Read all sources concurrently; items and failures come in the order of the sources, whichever answers first."""
    import asyncio  # costs more than a whole synchronous run

    if on_error not in ("raise", "skip"):
        raise PipelineConfigError(f"on_error must be 'raise' or 'skip', got {shown(on_error)}")
    named = _named(cast("Any", sources))
    limits = _limits(named, timeout)
    try:
        async with asyncio.TaskGroup() as group:
            reads = [
                group.create_task(_read(name, source, limits.get(name), on_error)) for name, source in named.items()
            ]
    except BaseExceptionGroup as failures:
        # The sources that were still running have been cancelled; raise the first failure in their order.
        first = min(failures.exceptions, key=lambda error: _place(error, list(named)))
        raise first from first.__cause__
    finally:
        for source in named.values():
            if iscoroutine(source):
                source.close()  # a coroutine that was cancelled before it began would warn that it was never awaited
    results = [read.result() for read in reads]
    items = [item for result in results if isinstance(result, tuple) for item in result]
    return items, tuple(result for result in results if isinstance(result, SourceFailure))


async def _read(
    name: str, source: Any, limit: float | None, on_error: OnError
) -> tuple[ContextItem, ...] | SourceFailure:
    import asyncio

    clock = asyncio.timeout(limit)
    try:
        async with clock:
            return await read_all(source)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # by the caller, or because another source failed
        failure = SourceFailure(name, error)
    except Exception as error:  # noqa: BLE001  (whatever a source raises is that source's failure)
        failure = SourceFailure(name, error, limit if clock.expired() else None)
    if on_error == "raise":
        raise SourceError(failure) from failure.error
    return failure


def _named(sources: Mapping[Any, Any] | list[Any] | tuple[Any, ...]) -> dict[str, Any]:
    """Return sources by name: a mapping has names, a list or tuple is several sources unless it contains items."""
    if isinstance(sources, Mapping):
        named: dict[Any, Any] = dict(sources)
        for name in named:
            as_text("a source's name", name)
        return named
    if isinstance(sources, (list, tuple)):  # pyright: ignore[reportUnnecessaryIsInstance]
        entries: list[Any] = list(sources)
        if not any(isinstance(entry, ContextItem) for entry in entries):
            return {f"sources[{position}]": entry for position, entry in enumerate(entries)}
    return {"source": sources}


def _limits(named: dict[str, Any], timeout: Mapping[str, Any] | float | None) -> dict[str, float]:
    if timeout is None:
        return {}
    limits: dict[str, Any] = dict(timeout) if isinstance(timeout, Mapping) else dict.fromkeys(named, timeout)
    for name, limit in limits.items():
        if name not in named:
            msg = f"timeout names {shown(name)}, which is not a source; the sources are {', '.join(named)}"
            raise PipelineConfigError(msg)
        if not as_number("timeout", limit, error=PipelineConfigError) > 0:
            raise PipelineConfigError(f"timeout must be more than 0 seconds, got {shown(limit)}")
    return limits


def _place(error: BaseException, names: list[str]) -> int:
    return names.index(error.failure.source) if isinstance(error, SourceError) else -1


if TYPE_CHECKING:
    OnExcluded = Callable[[ExcludedItem], object]


@dataclass(frozen=True, slots=True, repr=False)
class StreamResult(Selected):
    """The result of `Pipeline.stream`: the items in placed order, and the number of excluded items per reason."""

    items: list[ContextItem]
    budget: ContextBudget
    consumed: int
    """How many items were read."""
    exhausted: bool
    """Whether the stream ended before the budget was full."""
    excluded: Mapping[str, int]
    """Items left out, counted by the name of the reason."""


@dataclass(slots=True)
class StreamSelection:
    """The items chosen so far. Nothing else of the stream is kept, so memory is bounded by the budget."""

    pipeline: Pipeline
    budget: ContextBudget
    on_excluded: OnExcluded | None
    pinned: list[ContextItem] = field(default_factory=list["ContextItem"])
    chosen: list[ScoredItem] = field(default_factory=list[ScoredItem])
    """In the order of choice."""
    remaining: int = 0
    excluded: dict[str, int] = field(default_factory=dict[str, int])
    """Items left out, counted by the name of the reason."""
    _contents: set[str] = field(default_factory=set[str])
    _labels: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The names of related things and sets, which must not come again."""

    def __post_init__(self) -> None:
        self.remaining = effective_budget(self.budget, 0).target_tokens

    async def read(self, source: AsyncIterable[ContextItem], batch_size: int | None, slack_tokens: int) -> StreamResult:
        """Read batch after batch until no more than `slack_tokens` are free, then place what was chosen."""
        size = _batch_size(self.pipeline, batch_size)
        as_integer("slack_tokens", slack_tokens, least=0, error=PipelineConfigError)
        consumed, exhausted = 0, False
        async with opened(source) as items:
            while not (exhausted or self.is_full(slack_tokens)):
                batch = await next_batch(items, size)
                exhausted = len(batch) < size
                consumed += len(batch)
                self.take(batch)
        return StreamResult(self.place(), self.budget, consumed, exhausted, self.excluded)

    def is_full(self, slack_tokens: int) -> bool:
        """Say whether to stop: hardly a token is left, or items without tokens are as many as the budget has tokens."""
        return self.remaining <= slack_tokens or len(self.chosen) + len(self.pinned) >= self.budget.target_tokens

    def take(self, batch: list[ContextItem]) -> None:
        """Choose among one batch; scores are relative to it (ruling 14.10).

        A copy of an item that was passed over repeats nothing in the selection, so only chosen contents are known.
        """
        classified = classify(batch, self.pipeline.pins)
        check_batch(batch, self._labels)
        self._pin(classified)
        self._exclude(classified_out(classified.negative))
        candidates = score(self.pipeline, classified)
        related = classified.is_related
        copies = find_copies(candidates, self._contents, related=related) if self.pipeline.deduplicate else None
        if copies is not None:
            self._exclude(deduplicated_out(candidates, copies.dropped))
        candidates = sort(candidates, copies, classified, related=related)
        chosen = BestFirstSlice().prepare(candidates)(ContextBudget(self.remaining, self.remaining)).chosen
        self._exclude(sliced_out(candidates, chosen, Selection(chosen), (), (self.remaining, 0)))
        added = candidates.at(chosen)
        self.chosen += added.scored()
        self._contents.update(item.content for item in added.items)
        self.remaining -= sum(added.tokens)

    def _exclude(self, excluded: Iterable[ExcludedItem]) -> None:
        """Count items by the reason, and pass them on without keeping them."""
        for entry in excluded:
            self.excluded[entry.reason.name] = self.excluded.get(entry.reason.name, 0) + 1
            if self.on_excluded is not None:
                self.on_excluded(entry)

    def place(self) -> list[ContextItem]:
        """Handle overflow and put the selection in its final order, as a run does."""
        chosen = Candidates.of(self.chosen)
        placed = place(self.pipeline, self.pinned, chosen.at(descending(chosen.scores)), self.budget)
        self._exclude(truncated_out(placed, self.budget.target_tokens))
        return placed.items

    def _pin(self, classified: Classified) -> None:
        """Reserve room for pinned items; evict items chosen before them, from the lowest score up."""
        pinned = classified.pinned
        if not pinned:
            return
        self.pinned += pinned
        pinned_tokens = sum(item.tokens for item in self.pinned)
        check_pinned(pinned_tokens, self.budget)
        chosen, room = self.chosen, effective_budget(self.budget, pinned_tokens).target_tokens
        used = sum(entry.item.tokens for entry in chosen)
        leaving: set[int] = set()
        for position in reversed(descending([entry.score for entry in chosen])):
            if used <= room:
                break
            entry = chosen[position]
            if entry.item.tokens > 0:
                _check_unrelated(entry.item, pinned)
                leaving.add(position)
                used -= entry.item.tokens
                self._contents.discard(entry.item.content)
                self._exclude([ExcludedItem(entry.item, entry.score, displaced_by(pinned))])
        self.chosen = [entry for position, entry in enumerate(chosen) if position not in leaving]
        self.remaining = room - used


def _batch_size(pipeline: Pipeline, batch_size: int | None) -> int:
    slicer = pipeline.slicer
    # A subclass that overrides `slice` would be ignored.
    if not isinstance(slicer, (StreamSlice, GreedySlice)) or type(slicer).prepare is Slicer.prepare:
        raise PipelineConfigError(
            f"a stream is chosen from a batch at a time, which {type(slicer).__name__} cannot do: "
            "use StreamSlice or GreedySlice, or read the sources whole with arun"
        )
    if batch_size is not None:
        return StreamSlice(batch_size).batch_size
    return slicer.batch_size if isinstance(slicer, StreamSlice) else StreamSlice().batch_size


def _check_unrelated(item: ContextItem, pinned: list[ContextItem]) -> None:
    """Refuse to take back an item without which others may be incomplete."""
    if are_related([item]):
        raise SelectionError(
            f"pinned item {shown(pinned[0].content)} needs the room of {shown(item.content)}, which has relations and "
            "was chosen from an earlier batch; let pinned items come first, or read the sources whole with arun"
        )
