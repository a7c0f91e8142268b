"""The pipeline: three strategies, pin rules and an overflow strategy, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import as_function, as_instance, as_text, as_tuple
from cupel.errors import PipelineConfigError
from cupel.model import ContextBudget, ContextItem, OverflowStrategy
from cupel.pipeline._observer import Recorder, recorder_for
from cupel.pipeline._pins import PinRule, pinned_positions
from cupel.pipeline._prepared import complete, observe, prepare
from cupel.pipeline._stages import ALL_LISTENERS, Listeners
from cupel.placers import ChronologicalPlacer, Placer
from cupel.scorers import Scorer
from cupel.slicers import GreedySlice, Slicer

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Sequence

    from cupel.diagnostics import ExcludedItem, OverflowEvent, SelectionReport, TraceSink
    from cupel.pipeline._prepared import ContextResult, PreparedSelection
    from cupel.pipeline._sources import ItemSource, OnError, Sources, StreamResult, Timeout


_GREEDY: Final = GreedySlice()
_CHRONOLOGICAL: Final = ChronologicalPlacer()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pipeline:
    """Classify, score, deduplicate, sort, slice, place: the fixed pipeline with its three strategies.

    A pipeline is an immutable value: it is equal to another with equal parts, and holds no run state, so threads can
    share it. `dataclasses.replace` changes a part; `cupel.policy` writes and reads it as a document.

    Args:
        scorer: Rates each item.
        slicer: Selects items that fit the budget.
        placer: Orders the selected items.
        deduplicate: Whether only the best of several items with the same content is kept.
        overflow: What to do when pinned and selected items exceed the target.
        on_overflow: Called with an `OverflowEvent` for selections over the target; needs `OverflowStrategy.PROCEED`.
        pins: Rules that pin items in addition to those that are already pinned.
        name: The name of the pipeline in tables and documents.
        description: A sentence on the purpose of the pipeline.

    >>> from cupel import ContextBudget, ContextItem, ReflexiveScorer
    >>> pipeline = Pipeline(scorer=ReflexiveScorer())
    >>> items = [ContextItem("keep", 60, future_relevance_hint=0.9), ContextItem("drop", 60, future_relevance_hint=0.1)]
    >>> [item.content for item in pipeline.run(items, ContextBudget(100, 100))]
    ['keep']
    """

    scorer: Scorer
    slicer: Slicer = _GREEDY
    placer: Placer = _CHRONOLOGICAL
    deduplicate: bool = True
    overflow: OverflowStrategy = OverflowStrategy.THROW
    on_overflow: Callable[[OverflowEvent], object] | None = None
    pins: Sequence[PinRule] = ()
    name: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pins", as_tuple("pins", self.pins, PinRule))
        as_instance("scorer", self.scorer, Scorer)
        as_instance("slicer", self.slicer, Slicer)
        as_instance("placer", self.placer, Placer)
        as_instance("deduplicate", self.deduplicate, bool)
        as_instance("overflow", self.overflow, OverflowStrategy)
        for field_name in ("name", "description"):
            if (text := getattr(self, field_name)) is not None:
                object.__setattr__(self, field_name, as_text(field_name, text))
        if self.on_overflow is not None:
            as_function("on_overflow", self.on_overflow)
            if self.overflow is not OverflowStrategy.PROCEED:
                msg = f"on_overflow goes with OverflowStrategy.PROCEED only, got overflow={self.overflow}"
                raise PipelineConfigError(msg)

    def __repr__(self) -> str:
        parts = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if field.name == "scorer" or getattr(self, field.name) != field.default
        )
        return f"Pipeline({', '.join(parts)})"

    @classmethod
    def of(cls, policy: Any, *, name: str = "policy") -> Pipeline:
        """Return `policy` if it is a pipeline; the TypeError says how to get one from a name, a path or a document.

        >>> Pipeline.of("mine.toml")
        Traceback (most recent call last):
        TypeError: policy must be a Pipeline, got str: 'mine.toml'; pass a preset such as cupel.presets.chat(), ...
        """
        hint = ""
        if isinstance(policy, (str, PathLike)):
            hint = "; pass a preset such as cupel.presets.chat(), or read a file with cupel.policy.load(path)"
        elif isinstance(policy, Mapping):
            hint = "; read a document with cupel.policy.from_dict(document)"
        return as_instance(name, policy, Pipeline, hint=hint)

    def bind(self, query: str | None) -> Pipeline:
        """Return the pipeline for one query, as every method with a `query` uses it; None changes nothing."""
        if query is None:
            return self
        scorer = self.scorer.bind(query)
        return self if scorer is self.scorer else replace(self, scorer=scorer)

    def pinned(self, items: Sequence[ContextItem]) -> set[int]:
        """Return the positions of the items that are pinned, by themselves or by a rule."""
        return pinned_positions(as_tuple("items", items, ContextItem), self.pins)

    def run(
        self,
        items: Iterable[ContextItem],
        budget: ContextBudget | int,
        *,
        query: str | None = None,
        trace: TraceSink | None = None,
    ) -> list[ContextItem]:
        """Select for a budget and return the items in placed order.

        Args:
            items: The candidates.
            budget: The token budget; a number is a window of that many tokens with the same target.
            query: The question that the items should answer, for scorers such as `RelevanceScorer`.
            trace: A collector that observes the run.
        """
        budget = ContextBudget.of(budget)
        recorder = recorder_for(trace, budget)
        prepared = prepare(self.bind(query), items, budget, recorder)
        if recorder is not None:
            return observe(prepared, budget, recorder).items
        _, placed = complete(prepared, budget, None)
        return placed.items

    def dry_run(
        self, items: Iterable[ContextItem], budget: ContextBudget | int, *, query: str | None = None
    ) -> SelectionReport:
        """Select for a budget and return the report; raises the errors of `run`, but does not call `on_overflow`."""
        return self._observed(items, ContextBudget.of(budget), Recorder(), query, Listeners(notify=False)).report

    def select(
        self,
        items: Iterable[ContextItem],
        budget: ContextBudget | int,
        *,
        query: str | None = None,
        trace: TraceSink | None = None,
    ) -> ContextResult:
        """Select for a budget and return the items together with the report; the arguments are those of `run`.

        >>> from cupel import ContextItem, DiagnosticTraceCollector, Pipeline, RecencyScorer
        >>> heard = DiagnosticTraceCollector()
        >>> result = Pipeline(scorer=RecencyScorer()).select([ContextItem("hi", 1)], 10, trace=heard)
        >>> heard.build_report() == result.report
        True
        """
        budget = ContextBudget.of(budget)
        return self._observed(items, budget, recorder_for(trace, budget) or Recorder(), query)

    def prepare(self, items: Iterable[ContextItem], *, query: str | None = None) -> PreparedSelection:
        """Classify, score, deduplicate and sort once, to select for any number of budgets.

        Call `with_query` on the result for other queries.
        """
        recorder = Recorder()
        prepared = prepare(self.bind(query), items, None, recorder)
        recorder.paused()
        return prepared

    async def arun(
        self,
        sources: Sources,
        budget: ContextBudget | int,
        *,
        timeout: Timeout = None,  # noqa: ASYNC109  (for each source on its own, which a scope around the call is not)
        on_error: OnError = "raise",
        query: str | None = None,
        trace: TraceSink | None = None,
    ) -> ContextResult:
        """Read one or several sources at the same time, then select as `select` does.

        The candidates are in the order of the sources, whichever answers first. A source that fails or times out raises
        `SourceError` and cancels the others; with `on_error="skip"` it is listed in `source_errors` instead.

        Args:
            sources: One source, a list of them, or a mapping of names to sources.
            budget: The token budget; a number is a window of that many tokens with the same target.
            timeout: Seconds for each source, or a mapping of names to seconds.
            on_error: `"raise"`, or `"skip"` to go on without a source that failed.
            query: The question that the items should answer.
            trace: A collector that observes the run.

        >>> import asyncio
        >>> from cupel import ContextBudget, ContextItem, RecencyScorer
        >>> async def memories():
        ...     return [ContextItem("Prefers tabs.", 4)]
        >>> async def search():
        ...     await asyncio.sleep(3600)
        >>> sources = {"memories": memories, "search": search}
        >>> pipeline = Pipeline(scorer=RecencyScorer())
        >>> result = asyncio.run(pipeline.arun(sources, ContextBudget(10, 10), timeout=0.01, on_error="skip"))
        >>> [item.content for item in result], [str(failure) for failure in result.source_errors]
        (['Prefers tabs.'], ['search: timed out after 0.01 s'])
        """
        from cupel.pipeline._sources import gather  # brings asyncio

        budget = ContextBudget.of(budget)
        items, failures = await gather(sources, timeout, on_error)
        bound = self.bind(query)
        await bound.scorer.warm([item for item in items if not item.pinned and item.tokens >= 0])
        result = self._observed(items, budget, recorder_for(trace, budget) or Recorder(), query)
        return replace(result, source_errors=failures)

    async def stream(
        self,
        source: ItemSource | AsyncIterable[ContextItem],
        budget: ContextBudget | int,
        *,
        batch_size: int | None = None,
        slack_tokens: int = 0,
        query: str | None = None,
        on_excluded: Callable[[ExcludedItem], object] | None = None,
    ) -> StreamResult:
        """Select from a stream, reading no further than the budget needs, and close it.

        Items are selected in batches; scores are relative to the batch.

        Args:
            source: An `ItemSource` or an asynchronous iterable of items.
            budget: The token budget; a number is a window of that many tokens with the same target.
            batch_size: Items in a batch; by default that of the `StreamSlice`, or 32.
            slack_tokens: Stop reading once no more than this many tokens are free.
            query: The question that the items should answer.
            on_excluded: Called with each excluded item.

        >>> import asyncio
        >>> from cupel import ContextBudget, ContextItem, ReflexiveScorer
        >>> async def endless():
        ...     number = 0
        ...     while True:
        ...         number += 1
        ...         yield ContextItem(f"result {number}", 10, future_relevance_hint=1 / number)
        >>> pipeline = Pipeline(scorer=ReflexiveScorer())
        >>> result = asyncio.run(pipeline.stream(endless(), ContextBudget(50, 50), batch_size=4))
        >>> len(result), result.consumed, result.excluded
        (5, 8, {'BudgetExceeded': 3})
        """
        from cupel.pipeline._sources import StreamSelection, streamed

        selection = StreamSelection(self.bind(query), ContextBudget.of(budget), on_excluded)
        return await selection.read(streamed(source), batch_size, slack_tokens)

    def _observed(
        self,
        items: Iterable[ContextItem],
        budget: ContextBudget,
        recorder: Recorder,
        query: str | None,
        listeners: Listeners = ALL_LISTENERS,
    ) -> ContextResult:
        return observe(prepare(self.bind(query), items, budget, recorder), budget, recorder, listeners)
