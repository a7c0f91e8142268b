"""The order of the stages."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cupel._columns import Candidates
from cupel.diagnostics import OverflowEvent, PipelineStage
from cupel.errors import PipelineConfigError
from cupel.model import ContextBudget, OverflowStrategy
from cupel.pipeline._classify import check_pinned, classify
from cupel.pipeline._deduplicate import deduplicate
from cupel.pipeline._place import settle
from cupel.pipeline._reasons import classified_out, deduplicated_out, placed_in, sliced_out, truncated_out
from cupel.pipeline._recording import Recording, listening
from cupel.pipeline._result import ContextResult
from cupel.pipeline._score import score
from cupel.pipeline._slice import effective_budget, slice_candidates
from cupel.pipeline._sort import sort
from cupel.placers import ChronologicalPlacer, Placer
from cupel.scorers import Scorer
from cupel.slicers import GreedySlice, Slicer

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable

    from cupel.diagnostics import ExcludedItem, SelectionReport, StageSnapshot, TraceSink
    from cupel.model import ContextItem
    from cupel.pipeline._arun import GatheredResult, OnError, Sources, Timeout
    from cupel.pipeline._sources import ItemSource
    from cupel.pipeline._stream import StreamResult
    from cupel.slicers import Chooser

_log = logging.getLogger("cupel")
_log.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Classify, score, deduplicate, sort, slice, place: the fixed pipeline with its three strategies.

    Immutable and without state of its own: share it between threads. `on_overflow` is told about selections over the
    target and goes with `OverflowStrategy.PROCEED` only.

    >>> from cupel import ContextBudget, ContextItem, ReflexiveScorer
    >>> pipeline = Pipeline(scorer=ReflexiveScorer())
    >>> items = [ContextItem("keep", 60, future_relevance_hint=0.9), ContextItem("drop", 60, future_relevance_hint=0.1)]
    >>> [item.content for item in pipeline.run(items, ContextBudget(100, 100))]
    ['keep']
    """

    scorer: Scorer
    slicer: Slicer = field(default_factory=GreedySlice)
    placer: Placer = field(default_factory=ChronologicalPlacer)
    deduplicate: bool = True
    overflow: OverflowStrategy = OverflowStrategy.THROW
    on_overflow: Callable[[OverflowEvent], object] | None = None

    def __post_init__(self) -> None:
        for name, expected in (
            ("scorer", Scorer),
            ("slicer", Slicer),
            ("placer", Placer),
            ("deduplicate", bool),
            ("overflow", OverflowStrategy),
        ):
            value = getattr(self, name)
            if not isinstance(value, expected):
                msg = f"{name} must be a {expected.__name__}, got {type(value).__name__}: {value!r}"
                raise TypeError(msg)
        if self.on_overflow is not None:
            if not callable(self.on_overflow):
                msg = f"on_overflow must be callable, got {type(self.on_overflow).__name__}: {self.on_overflow!r}"
                raise TypeError(msg)
            if self.overflow is not OverflowStrategy.PROCEED:
                msg = f"on_overflow goes with OverflowStrategy.PROCEED only, got overflow={self.overflow}"
                raise PipelineConfigError(msg)

    def run(
        self, items: Iterable[ContextItem], budget: ContextBudget, *, trace: TraceSink | None = None
    ) -> list[ContextItem]:
        """Select for a budget and give the items in placed order; `trace` observes the run."""
        _check_budget(budget)
        recording = listening(trace, budget)
        return _complete(self._prepare(items, budget, recording), budget, recording)[0]

    def dry_run(self, items: Iterable[ContextItem], budget: ContextBudget) -> SelectionReport:
        """Select for a budget and give the report; raises whatever `run` raises, but tells `on_overflow` nothing."""
        return self._observed(items, budget, notify=False).report

    def select(self, items: Iterable[ContextItem], budget: ContextBudget) -> ContextResult:
        """Select for a budget and give the items together with the report."""
        return self._observed(items, budget, notify=True)

    def prepare(self, items: Iterable[ContextItem]) -> PreparedSelection:
        """Classify, score, deduplicate and sort once, to select for any number of budgets."""
        return self._prepare(items, None, Recording())

    async def arun(
        self,
        sources: Sources,
        budget: ContextBudget,
        *,
        timeout: Timeout = None,  # noqa: ASYNC109  (for each source on its own, which a scope around the call is not)
        on_error: OnError = "raise",
        trace: TraceSink | None = None,
    ) -> GatheredResult:
        """Read one or several sources at the same time, then select as `select` does.

        A mapping of names to sources, or a list of them; the candidates are in the order of the sources, whichever
        answers first. `timeout` is in seconds for each source, or a mapping of names to seconds. A source that fails or
        runs out of time raises `SourceError` and the others are cancelled; with `on_error="skip"` it gives nothing and
        is listed in `source_errors`.

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
        from cupel.pipeline._arun import GatheredResult, gather  # brings asyncio

        _check_budget(budget)
        items, failures = await gather(sources, timeout, on_error)
        recording = listening(trace, budget) or Recording()
        result = _result(self._prepare(items, budget, recording), budget, recording)
        return GatheredResult(result.items, result.report, budget, failures)

    async def stream(
        self,
        source: ItemSource | AsyncIterable[ContextItem],
        budget: ContextBudget,
        *,
        batch_size: int | None = None,
        slack_tokens: int = 0,
        on_excluded: Callable[[ExcludedItem], object] | None = None,
    ) -> StreamResult:
        """Select from a stream, reading no further than the budget needs, and close it.

        Items are decided on in batches, those of the `StreamSlice` or of 32; scores are relative to the batch. Reading
        stops after a batch that leaves no more than `slack_tokens` free. `on_excluded` is told of each item left out.

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
        from cupel.pipeline._sources import streamed
        from cupel.pipeline._stream import stream

        _check_budget(budget)
        return await stream(
            self, streamed(source), budget, batch_size=batch_size, slack_tokens=slack_tokens, on_excluded=on_excluded
        )

    def _observed(self, items: Iterable[ContextItem], budget: ContextBudget, *, notify: bool) -> ContextResult:
        _check_budget(budget)
        recording = Recording()
        return _result(self._prepare(items, budget, recording), budget, recording, notify=notify)

    def _prepare(
        self, items: Iterable[ContextItem], budget: ContextBudget | None, recording: Recording | None
    ) -> PreparedSelection:
        classified = classify(items)
        pinned, scoreable = classified.pinned, classified.scoreable
        pinned_tokens = sum(item.tokens for item in pinned) if pinned else 0
        if budget is not None:
            check_pinned(pinned_tokens, budget)
        if recording is not None:
            usable = len(pinned) + len(scoreable)
            excluded = classified_out(classified.negative)
            recording.stage(PipelineStage.CLASSIFY, usable + len(excluded), usable, excluded)

        scores = score(scoreable, self.scorer)
        if recording is not None:
            recording.stage(PipelineStage.SCORE, len(scoreable), len(scores), scores=scores)

        candidates = Candidates(scoreable, scores, classified.tokens)
        duplicates = deduplicate(scoreable, scores) if self.deduplicate else None
        if duplicates is not None:
            candidates = candidates.at(duplicates.kept)
        if recording is not None:
            excluded = deduplicated_out(scoreable, scores, duplicates.dropped) if duplicates is not None else []
            recording.stage(PipelineStage.DEDUPLICATE, len(scoreable), len(candidates), excluded)

        candidates = sort(candidates)
        return PreparedSelection(self, pinned, pinned_tokens, candidates, self.slicer.fit(candidates), recording)


class PreparedSelection(msgspec.Struct, frozen=True):
    """Candidates that are classified, scored, deduplicated and sorted: only the budget is missing.

    >>> from cupel import ContextBudget, ContextItem, RecencyScorer
    >>> prepared = Pipeline(scorer=RecencyScorer()).prepare([ContextItem("a", 40), ContextItem("b", 40)])
    >>> [len(prepared.run(ContextBudget(tokens, tokens))) for tokens in (30, 50, 90)]
    [0, 1, 2]
    """

    pipeline: Pipeline
    pinned: list[ContextItem]
    pinned_tokens: int
    candidates: Candidates
    chooser: Chooser
    _recording: Recording | None
    """The first three stages; None only inside an unobserved run, which asks for no report."""

    def run(self, budget: ContextBudget) -> list[ContextItem]:
        """Select for a budget and give the items in placed order."""
        self._check(budget)
        return _complete(self, budget, None)[0]

    def dry_run(self, budget: ContextBudget) -> SelectionReport:
        """Select for a budget and give the report; the times of the first stages are those of the preparation."""
        self._check(budget)
        return _result(self, budget, self._resumed(), notify=False).report

    def select(self, budget: ContextBudget) -> ContextResult:
        """Select for a budget and give the items together with the report."""
        self._check(budget)
        return _result(self, budget, self._resumed())

    def included(self, budget: ContextBudget) -> list[ContextItem]:
        """Give the items a run would select, not placed, without telling `on_overflow`: the cheapest way to ask."""
        self._check(budget)
        chosen, _ = slice_candidates(self.chooser, effective_budget(budget, self.pinned_tokens))
        picked = self.candidates.at(chosen)
        return list(settle(self.pinned, picked, budget.target_tokens, self.pipeline.overflow).selected.items)

    def _check(self, budget: ContextBudget) -> None:
        _check_budget(budget)
        check_pinned(self.pinned_tokens, budget)

    def _resumed(self) -> Recording:
        assert self._recording is not None  # noqa: S101  (only `Pipeline.prepare` hands out prepared selections)
        return self._recording.resumed()


def _result(
    prepared: PreparedSelection, budget: ContextBudget, recording: Recording, *, notify: bool = True
) -> ContextResult:
    items, report = _complete(prepared, budget, recording, notify=notify)
    assert report is not None  # noqa: S101  (a recording was given, so a report was built)
    return ContextResult(items, report, budget)


def _complete(
    prepared: PreparedSelection, budget: ContextBudget, recording: Recording | None, *, notify: bool = True
) -> tuple[list[ContextItem], SelectionReport | None]:
    """Slice and place: the part of a run that depends on the budget; the report is built for a recording only."""
    pinned, candidates, pipeline = prepared.pinned, prepared.candidates, prepared.pipeline
    chosen, selection = slice_candidates(prepared.chooser, effective_budget(budget, prepared.pinned_tokens))
    if recording is not None:
        excluded = sliced_out(candidates, chosen, selection, pinned, budget)
        recording.stage(PipelineStage.SLICE, len(candidates), len(chosen), excluded)

    settled = settle(pinned, candidates.at(chosen), budget.target_tokens, pipeline.overflow)
    selected = settled.selected
    if settled.excess > 0 and notify and pipeline.on_overflow is not None:
        pipeline.on_overflow(OverflowEvent(settled.excess, tuple(selected.items), budget))
    order = pipeline.placer.arrange(selected)
    items = [selected.items[position] for position in order]
    if _log.isEnabledFor(logging.DEBUG):
        tokens = sum(selected.tokens)
        _log.debug("selected %d items, %d of %d target tokens", len(items), tokens, budget.target_tokens)
    if recording is None:
        return items, None

    excluded = truncated_out(settled, pinned, budget.target_tokens) if settled.truncated else []
    recording.stage(PipelineStage.PLACE, len(settled.merged), len(items), excluded)
    origin = Origin(prepared, budget, tuple(recording.stages))
    report = recording.report(placed_in(selected, order, len(pinned)), selection.shortfalls, origin)
    recording.completed(report, budget)
    return items, report


class Origin(NamedTuple):
    """Where a report comes from, so that it can be asked what another budget would have done."""

    prepared: PreparedSelection
    budget: ContextBudget
    stages: tuple[StageSnapshot, ...]


def _check_budget(budget: object) -> None:
    if not isinstance(budget, ContextBudget):
        msg = f"budget must be a ContextBudget, got {type(budget).__name__}: {budget!r}"
        raise TypeError(msg)
