"""Keeping time and passing on events while a run is observed."""

from __future__ import annotations

from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING

from cupel._columns import descending
from cupel.diagnostics import (
    BudgetExceeded,
    SelectionReport,
    StageSnapshot,
    TraceCollector,
    TraceDetailLevel,
    TraceEvent,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.diagnostics import CountRequirementShortfall, ExcludedItem, IncludedItem, PipelineStage, TraceSink
    from cupel.model import ContextBudget

_NANOSECONDS_A_MILLISECOND = 1e6


class Recording:
    """One observed run: five stages with their times, counts and exclusions, and the events made from them.

    Without a trace it only keeps what a report needs. A recording that ends after the first stages can be taken up
    again by `resumed`, once for each budget that a prepared selection is asked about.
    """

    __slots__ = ("_item_trace", "_mark", "_offset", "_trace", "events", "stages")

    def __init__(self, trace: TraceSink | None = None) -> None:
        self._trace = trace
        # A collector that keeps stages only should not cost an event for every item.
        self._item_trace = trace if getattr(trace, "detail_level", 1) >= TraceDetailLevel.ITEM else None
        self.stages: list[StageSnapshot] = []
        self.events: list[TraceEvent] = []
        hook = getattr(trace, "on_pipeline_started", None)
        if hook is not None:
            hook()
        self._mark = perf_counter_ns()
        self._offset = time_ns() - self._mark

    def resumed(self) -> Recording:
        """Go on after the stages recorded so far, leaving this recording as it is."""
        copy = Recording()
        copy.stages = list(self.stages)
        copy.events = list(self.events)
        return copy

    def stage(
        self,
        stage: PipelineStage,
        entered: int,
        left: int,
        excluded: Sequence[ExcludedItem] = (),
        scores: Sequence[float] = (),
    ) -> None:
        """Record a stage that has finished: events of its items first, then its own."""
        end = perf_counter_ns()
        start = self._mark
        self.stages.append(
            StageSnapshot(stage, entered, left, start + self._offset, end + self._offset, tuple(excluded))
        )
        if self._item_trace is not None:
            for message in (*(f"Score: {score!r}" for score in scores), *map(_message, excluded)):
                item_event = TraceEvent(stage, 0.0, 1, message)
                self.events.append(item_event)
                self._item_trace.record_item_event(item_event)
        event = TraceEvent(stage, (end - start) / _NANOSECONDS_A_MILLISECOND, left)
        self.events.append(event)
        if self._trace is not None:
            self._trace.record_stage_event(event)
        self._mark = perf_counter_ns()

    def report(
        self,
        included: list[IncludedItem],
        shortfalls: tuple[CountRequirementShortfall, ...],
        origin: object,
    ) -> SelectionReport:
        """Sum the run up, once all five stages are recorded."""
        by_time = [entry for stage in self.stages for entry in stage.excluded]
        # Highest score first; of equal scores the one that was dropped earlier (ruling 7.27).
        excluded = [by_time[position] for position in descending([entry.score for entry in by_time])]
        return SelectionReport(
            tuple(self.events),
            tuple(included),
            tuple(excluded),
            len(included) + len(excluded),
            sum([entry.item.tokens for entry in included]) + sum([entry.item.tokens for entry in excluded]),
            shortfalls,
            origin=origin,
        )

    def completed(self, report: SelectionReport, budget: ContextBudget) -> None:
        """Tell the collector that the run has succeeded."""
        hook = getattr(self._trace, "on_pipeline_completed", None)
        if hook is not None:
            hook(report, budget, tuple(self.stages))


def listening(trace: TraceSink | None, budget: ContextBudget) -> Recording | None:
    """Start a recording if the collector listens; `is_enabled` may be a property or, duck-typed, a method."""
    if trace is None:
        return None
    if isinstance(trace, TraceCollector):
        trace = trace.for_run(budget)
    enabled: object = trace.is_enabled
    return Recording(trace) if (enabled() if callable(enabled) else enabled) else None


def _message(entry: ExcludedItem) -> str:
    reason = entry.reason
    if isinstance(reason, BudgetExceeded):
        return f"BudgetExceeded: {reason.item_tokens} tokens requested, {reason.available_tokens} available"
    fields = ", ".join(f"{name}={value!r}" for name, value in reason.to_dict().items() if name != "reason")
    return f"{reason.name}: {fields}"
