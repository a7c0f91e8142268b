"""Collectors that receive the events of a run."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from cupel._checks import wrong_type
from cupel.diagnostics._report import (
    ExcludedItem,
    PipelineStage,
    TraceEvent,
)
from cupel.errors import SelectionError
from cupel.model import ContextBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    from cupel.diagnostics._report import SelectionReport


class TraceDetailLevel(IntEnum):
    """How much a collector records; each level includes the previous ones."""

    STAGE = 0
    """One event for each stage."""
    ITEM = 1
    """Also one event for each score and each exclusion, when their stage has finished."""


class StageSnapshot(msgspec.Struct, frozen=True):
    """One stage of a finished run; the times are wall-clock nanoseconds that advance monotonically within the run."""

    stage: PipelineStage
    item_count_in: int
    item_count_out: int
    start_ns: int
    end_ns: int
    excluded: tuple[ExcludedItem, ...] = ()


@runtime_checkable
class TraceSink(Protocol):
    """The members that a collector needs; any object that has them can be passed as `trace`."""

    @property
    def is_enabled(self) -> bool:
        """Whether to record; read once for each run."""
        ...

    def record_stage_event(self, event: TraceEvent) -> None:
        """Receive the event of a finished stage."""
        ...

    def record_item_event(self, event: TraceEvent) -> None:
        """Receive the event of one item, sent before the event of its finished stage."""
        ...


class TraceCollector:
    """Base for collectors: enabled, and every hook does nothing until overridden.

    A collector may also implement `on_pipeline_started` and `on_pipeline_completed`, and return another object for each
    run from `for_run`.
    """

    def for_run(self, budget: ContextBudget) -> TraceSink:
        """Return the collector of a new run; return a new object to keep runs apart."""
        del budget
        return self

    @property
    def is_enabled(self) -> bool:
        """Whether to record; read once for each run."""
        return True

    def record_stage_event(self, event: TraceEvent) -> None:
        """Receive the event of a finished stage."""

    def record_item_event(self, event: TraceEvent) -> None:
        """Receive the event of one item, sent before its stage's event."""

    def on_pipeline_started(self) -> None:
        """Receive the start of a run."""

    def on_pipeline_completed(
        self, report: SelectionReport, budget: ContextBudget, stages: tuple[StageSnapshot, ...]
    ) -> None:
        """Receive the report of a successful run; not called for a run that raised."""


class NullTraceCollector(TraceCollector):
    """Records nothing and costs nothing.

    >>> NullTraceCollector().is_enabled
    False
    """

    @property
    def is_enabled(self) -> bool:
        """Always false."""
        return False


class DiagnosticTraceCollector(TraceCollector):
    """Keep the events of the latest run and build its report.

    `on_event` is called with each event; its exceptions reach the caller of the run.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> trace = DiagnosticTraceCollector()
    >>> _ = Pipeline(scorer=RecencyScorer()).run([ContextItem("hi", 1)], ContextBudget(10, 10), trace=trace)
    >>> [event.stage.value for event in trace.build_report().events]
    ['Classify', 'Score', 'Deduplicate', 'Slice', 'Place']
    """

    def __init__(
        self,
        detail_level: TraceDetailLevel = TraceDetailLevel.STAGE,
        *,
        on_event: Callable[[TraceEvent], object] | None = None,
    ) -> None:
        if not isinstance(detail_level, TraceDetailLevel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("detail_level", "a TraceDetailLevel", detail_level)
        self.detail_level = detail_level
        self._on_event = on_event
        self._events: list[TraceEvent] = []
        self._report: SelectionReport | None = None

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """The events of the latest run so far, in order."""
        return tuple(self._events)

    def record_stage_event(self, event: TraceEvent) -> None:
        """Keep the event."""
        self._keep(event)

    def record_item_event(self, event: TraceEvent) -> None:
        """Keep the event if the detail level includes items."""
        if self.detail_level >= TraceDetailLevel.ITEM:
            self._keep(event)

    def on_pipeline_started(self) -> None:
        """Discard the previous run."""
        self._events = []
        self._report = None

    def on_pipeline_completed(
        self, report: SelectionReport, budget: ContextBudget, stages: tuple[StageSnapshot, ...]
    ) -> None:
        """Keep the report."""
        del budget, stages
        self._report = report

    def build_report(self) -> SelectionReport:
        """Return the report of the run that was traced."""
        if self._report is None:
            msg = "no report: this collector has not recorded a successful run; pass it as trace= to Pipeline.run first"
            raise SelectionError(msg)
        return self._report

    def _keep(self, event: TraceEvent) -> None:
        self._events.append(event)
        if self._on_event is not None:
            self._on_event(event)
