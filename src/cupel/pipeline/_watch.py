"""Watching a run: nobody, or a recorder that keeps time and passes on events."""

from __future__ import annotations

from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING

from cupel._checks import wrong_type
from cupel._columns import descending
from cupel.diagnostics import (
    BudgetExceeded,
    PipelineStage,
    SelectionReport,
    StageSnapshot,
    TraceCollector,
    TraceDetailLevel,
    TraceEvent,
)
from cupel.pipeline._origin import Origin
from cupel.pipeline._reasons import classified_out, deduplicated_out, placed_in, sliced_out, truncated_out
from cupel.pipeline._slice import effective_budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel._columns import Candidates
    from cupel.diagnostics import ExcludedItem, TraceSink
    from cupel.model import ContextBudget
    from cupel.pipeline._classify import Classified
    from cupel.pipeline._deduplicate import Copies
    from cupel.pipeline._prepared import Completed, PreparedSelection
    from cupel.slicers import Selection

_NANOSECONDS_A_MILLISECOND = 1e6


class Watch:
    """Sees a run go by, stage after stage; this one looks away, so that a run nobody observes costs nothing more."""

    __slots__ = ()

    def classified(self, classified: Classified) -> None:
        """See the three groups."""

    def scored(self, candidates: Candidates) -> None:
        """See the scores."""

    def deduplicated(self, candidates: Candidates, copies: Copies | None) -> None:
        """See which of the candidates are copies."""

    def sliced(
        self, prepared: PreparedSelection, budget: ContextBudget, chosen: list[int], selection: Selection
    ) -> None:
        """See what the slicer chose."""

    def placed(self, completed: Completed) -> None:
        """See the final order."""

    def paused(self) -> None:
        """Learn that a preparation ends here."""

    def resumed(self) -> Recorder:
        """Record the rest of a run that was prepared."""
        return Recorder()

    def finished(self, completed: Completed) -> SelectionReport | None:
        """Learn that the run has succeeded."""


SILENCE = Watch()


class Recorder(Watch):
    """Records one run: five stages with their times, counts and exclusions, and the events made from them.

    Sorting and fitting have no stage of their own: their time is part of Slice, also when they happened in a
    preparation. What a collector does with an event is part of no stage.
    """

    __slots__ = ("_item_trace", "_offset", "_pending", "_trace", "events", "mark", "stages")

    def __init__(self, trace: TraceSink | None = None) -> None:
        self._trace = trace
        self._item_trace = trace if _wants_items(trace) else None
        self.stages: list[StageSnapshot] = []
        self.events: list[TraceEvent] = []
        self._pending = 0
        hook = getattr(trace, "on_pipeline_started", None)
        if hook is not None:
            hook()
        self.mark = perf_counter_ns()
        self._offset = time_ns() - self.mark

    def classified(self, classified: Classified) -> None:
        """Record the items with a negative count."""
        excluded = classified_out(classified.negative)
        self._stage(PipelineStage.CLASSIFY, len(classified) + len(excluded), len(classified), excluded)

    def scored(self, candidates: Candidates) -> None:
        """Record the scores."""
        self._stage(PipelineStage.SCORE, len(candidates), len(candidates), scores=candidates.scores)

    def deduplicated(self, candidates: Candidates, copies: Copies | None) -> None:
        """Record the copies."""
        excluded = [] if copies is None else deduplicated_out(candidates, copies.dropped)
        self._stage(PipelineStage.DEDUPLICATE, len(candidates), len(candidates) - len(excluded), excluded)

    def sliced(
        self, prepared: PreparedSelection, budget: ContextBudget, chosen: list[int], selection: Selection
    ) -> None:
        """Record what the slicer left."""
        target = effective_budget(budget, prepared.pinned_tokens).target_tokens
        roomier = effective_budget(budget, 0).target_tokens if prepared.pinned_tokens > 0 else target
        excluded = sliced_out(prepared.candidates, chosen, selection, prepared.pinned, (target, roomier))
        self._stage(PipelineStage.SLICE, len(prepared.candidates), len(chosen), excluded)

    def placed(self, completed: Completed) -> None:
        """Record what truncation removed."""
        placed = completed.placed
        excluded = truncated_out(placed, completed.budget.target_tokens)
        self._stage(PipelineStage.PLACE, len(placed.settled.merged), len(placed.items), excluded)

    def paused(self) -> None:
        """Keep the time since the last stage, for the report of whoever goes on from here."""
        self._pending += perf_counter_ns() - self.mark

    def resumed(self) -> Recorder:
        """Go on after the stages recorded so far, leaving this recorder as it is."""
        copy = super().resumed()
        copy.stages = list(self.stages)
        copy.events = list(self.events)
        copy.mark -= self._pending
        return copy

    def finished(self, completed: Completed) -> SelectionReport:
        """Make the report, and tell the collector that the run has succeeded."""
        stages, selection = tuple(self.stages), completed.selection
        included = placed_in(completed.placed)
        by_time = [entry for stage in stages for entry in stage.excluded]
        # Highest score first; of equal scores the one that was dropped earlier (ruling 7.27).
        excluded = [by_time[position] for position in descending([entry.score for entry in by_time])]
        report = SelectionReport(
            tuple(self.events),
            tuple(included),
            tuple(excluded),
            len(included) + len(excluded),
            sum([entry.item.tokens for entry in included]) + sum([entry.item.tokens for entry in excluded]),
            selection.shortfalls,
            selection.certificate,
            origin=Origin(completed.prepared, completed.budget, stages),
        )
        hook = getattr(self._trace, "on_pipeline_completed", None)
        if hook is not None:
            hook(report, completed.budget, stages)
        return report

    def _stage(
        self,
        stage: PipelineStage,
        entered: int,
        left: int,
        excluded: Sequence[ExcludedItem] = (),
        scores: Sequence[float] = (),
    ) -> None:
        """Record a stage that has finished: events of its items first, then its own."""
        end = perf_counter_ns()
        start = self.mark
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
        self.mark = perf_counter_ns()


def listening(trace: TraceSink | None, budget: ContextBudget) -> Watch:
    """Start a recorder if the collector listens; `is_enabled` may be a property or, duck-typed, a method."""
    if trace is None:
        return SILENCE
    if isinstance(trace, type) or not all(
        callable(getattr(trace, name, None)) for name in ("record_stage_event", "record_item_event")
    ):
        raise wrong_type("trace", "a trace collector", trace)
    if isinstance(trace, TraceCollector):
        trace = trace.for_run(budget)
    enabled: object = getattr(trace, "is_enabled", False)
    return Recorder(trace) if (enabled() if callable(enabled) else enabled) else SILENCE


def _wants_items(trace: TraceSink | None) -> bool:
    """Tell whether to make an event for every item; a duck-typed collector may say how much it wants in any form."""
    level: object = getattr(trace, "detail_level", TraceDetailLevel.ITEM)
    if isinstance(level, int):
        return trace is not None and level >= TraceDetailLevel.ITEM
    return str(getattr(level, "name", level)).upper() != TraceDetailLevel.STAGE.name


def _message(entry: ExcludedItem) -> str:
    reason = entry.reason
    if isinstance(reason, BudgetExceeded):
        return f"BudgetExceeded: {reason.item_tokens} tokens requested, {reason.available_tokens} available"
    fields = ", ".join(f"{name}={value!r}" for name, value in reason.to_dict().items() if name != "reason")
    return f"{reason.name}: {fields}"
