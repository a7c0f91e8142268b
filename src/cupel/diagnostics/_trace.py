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
    """How much a collector records; each level includes the ones before it."""

    STAGE = 0
    """One event a stage."""
    ITEM = 1
    """Also one event for each score and each exclusion, together when their stage has finished."""


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
    """The three members a collector needs; any object that has them can be passed as `trace`."""

    @property
    def is_enabled(self) -> bool:
        """Whether anybody listens; read once a run."""
        ...

    def record_stage_event(self, event: TraceEvent) -> None:
        """Take the event of a stage that has finished."""
        ...

    def record_item_event(self, event: TraceEvent) -> None:
        """Take the event of one item; those of a stage come when it has finished, before its own event."""
        ...


class TraceCollector:
    """Base for collectors: enabled, and every hook does nothing until overridden.

    Besides the three members of `TraceSink` a collector may be told when a run starts and when it has succeeded, and
    may hand each run to an observer of its own.
    """

    def for_run(self, budget: ContextBudget) -> TraceSink:
        """Return what observes the run that begins: a collector that keeps a run's state apart returns a new object."""
        del budget
        return self

    @property
    def is_enabled(self) -> bool:
        """Whether anybody listens; read once a run."""
        return True

    def record_stage_event(self, event: TraceEvent) -> None:
        """Take the event of a stage that has finished."""

    def record_item_event(self, event: TraceEvent) -> None:
        """Take the event of one item; it comes before its stage's event."""

    def on_pipeline_started(self) -> None:
        """Learn that a run begins."""

    def on_pipeline_completed(
        self, report: SelectionReport, budget: ContextBudget, stages: tuple[StageSnapshot, ...]
    ) -> None:
        """Learn that a run has succeeded; called once, and never for a run that raised."""


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
    """Keeps the events of one run and gives its report; a new run starts it afresh.

    `on_event` is called with each event after it was kept; what it raises reaches the caller of the run.

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
        """What the latest run has recorded so far, in order."""
        return tuple(self._events)

    def record_stage_event(self, event: TraceEvent) -> None:
        """Keep the event."""
        self._keep(event)

    def record_item_event(self, event: TraceEvent) -> None:
        """Keep the event when the detail level asks for items."""
        if self.detail_level >= TraceDetailLevel.ITEM:
            self._keep(event)

    def on_pipeline_started(self) -> None:
        """Forget the run before."""
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
            msg = "no report: this collector has not seen a run succeed; pass it as trace= to Pipeline.run first"
            raise SelectionError(msg)
        return self._report

    def _keep(self, event: TraceEvent) -> None:
        self._events.append(event)
        if self._on_event is not None:
            self._on_event(event)
