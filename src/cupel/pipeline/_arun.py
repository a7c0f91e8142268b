"""Reading several sources at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from cupel._checks import as_number, as_text, shown
from cupel.errors import PipelineConfigError
from cupel.model import ContextItem
from cupel.pipeline._result import ContextResult
from cupel.pipeline._sources import Provider, SourceError, SourceFailure, SourceLike, read_all

if TYPE_CHECKING:
    from collections.abc import Sequence

# Only one member fits a dict and one a list, or type checkers could not infer what is in them.
Sources: TypeAlias = "Mapping[str, SourceLike] | Sequence[SourceLike | ContextItem] | Provider"
Timeout: TypeAlias = "float | Mapping[str, float] | None"
OnError: TypeAlias = Literal["raise", "skip"]


@dataclass(frozen=True, slots=True, repr=False)
class GatheredResult(ContextResult):
    """What `Pipeline.arun` returns: a `ContextResult` that also says which sources were skipped."""

    source_errors: tuple[SourceFailure, ...] = ()


async def gather(
    sources: Sources,
    timeout: Timeout,  # noqa: ASYNC109  (for each source on its own)
    on_error: OnError,
) -> tuple[list[ContextItem], tuple[SourceFailure, ...]]:
    """Read all sources concurrently; items and failures come in the order of the sources, whichever answers first."""
    if on_error not in ("raise", "skip"):
        msg = f"on_error must be 'raise' or 'skip', got {shown(on_error)}"
        raise PipelineConfigError(msg)
    named = _named(cast("Any", sources))
    limits = _limits(named, timeout)
    try:
        async with asyncio.TaskGroup() as group:
            reads = [
                group.create_task(_read(name, source, limits.get(name), on_error)) for name, source in named.items()
            ]
    except BaseExceptionGroup as failures:
        # The sources that were still at work have been cancelled; the first in their order speaks for all.
        first = min(failures.exceptions, key=lambda error: _place(error, list(named)))
        raise first from first.__cause__
    finally:
        for source in named.values():
            if iscoroutine(source):
                source.close()  # one that was cancelled before it began would warn that nobody awaited it
    results = [read.result() for read in reads]
    items = [item for result in results if isinstance(result, tuple) for item in result]
    return items, tuple(result for result in results if isinstance(result, SourceFailure))


async def _read(
    name: str, source: Any, limit: float | None, on_error: OnError
) -> tuple[ContextItem, ...] | SourceFailure:
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
    """Tell one source from several: a mapping names them, a list or tuple holds them unless it holds items."""
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
            msg = f"timeout must be more than 0 seconds, got {shown(limit)}"
            raise PipelineConfigError(msg)
    return limits


def _place(error: BaseException, names: list[str]) -> int:
    return names.index(error.failure.source) if isinstance(error, SourceError) else -1
