"""Observe a run: time its stages and turn dropped items into reasons."""

from __future__ import annotations

from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, NamedTuple

from cupel._internal.checks import did_you_mean, wrong_type
from cupel._internal.columns import descending
from cupel.diagnostics import (
    BudgetExceeded,
    Deduplicated,
    ExcludedItem,
    GroupIncomplete,
    IncludedItem,
    InclusionReason,
    NegativeTokens,
    PinnedOverride,
    PipelineStage,
    SelectionReport,
    StageSnapshot,
    Superseded,
    TraceCollector,
    TraceDetailLevel,
    TraceEvent,
)
from cupel.pipeline._stages import effective_budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel._internal.columns import Candidates
    from cupel._internal.relations import Relations
    from cupel.diagnostics import ExclusionReason, TraceSink
    from cupel.model import ContextBudget, ContextItem
    from cupel.pipeline._prepared import PreparedSelection
    from cupel.pipeline._stages import Classified, Copies, Placed
    from cupel.slicers import Selection


class Origin(NamedTuple):
    """The run that a report is about; it answers questions about other budgets."""

    prepared: PreparedSelection
    budget: ContextBudget
    stages: tuple[StageSnapshot, ...]


class RelationReasons:
    """The relations that keep candidates out of a selection, and the tokens that a candidate would bring along."""

    __slots__ = ("_candidates", "_inside", "_relations", "_smallest")

    def __init__(self, candidates: Candidates, relations: Relations, chosen: Iterable[int]) -> None:
        self._candidates = candidates
        self._relations = relations
        self._inside = {relations.entity_of[position]: candidates.items[position].content for position in chosen}
        self._smallest = [min((form.tokens for form in entity.forms), default=0) for entity in relations.entities]

    def reason(self, position: int) -> ExclusionReason | None:
        """Return the relation that keeps a candidate out: another form, or an incomplete group; None for the budget."""
        relations = self._relations
        place = relations.entity_of[position]
        entity = relations.entities[place]
        if place in self._inside:
            return Superseded(self._inside[place])
        if entity.id is not None and entity.id in relations.pinned:
            return Superseded(relations.pinned[entity.id])
        if entity.group is not None and not relations.groups[relations.group_of[place]].is_open:
            return GroupIncomplete(entity.group)
        return None

    def needs(self, position: int) -> int:
        """Return the tokens that a candidate costs with the rest of its group."""
        place = self._relations.entity_of[position]
        entities = self._relations.groups[self._relations.group_of[place]].entities
        others = (self._smallest[other] for other in entities if other != place and other not in self._inside)
        return self._candidates.tokens[position] + sum(others)


def classified_out(negative: list[ContextItem]) -> list[ExcludedItem]:
    """Return reasons for items with a negative count; they were not scored, so their score is 0."""
    return [ExcludedItem(item, 0.0, NegativeTokens(item.tokens)) for item in negative]


def deduplicated_out(candidates: Candidates, dropped: list[int]) -> list[ExcludedItem]:
    """Return reasons for copies; both contents are the same string (ruling 3.10)."""
    items, scores = candidates.items, candidates.scores
    return [
        ExcludedItem(items[position], scores[position], Deduplicated(items[position].content)) for position in dropped
    ]


def sliced_out(
    candidates: Candidates,
    chosen: list[int],
    selection: Selection,
    pinned: Sequence[ContextItem],
    targets: tuple[int, int],
) -> list[ExcludedItem]:
    """Return reasons for candidates that the slicer did not choose, highest score first.

    Args:
        candidates: All candidates, sorted.
        chosen: Positions that the slicer chose.
        selection: The slicer's answer, which may explain exclusions itself.
        pinned: The pinned items.
        targets: The slicer's target, and the target it would have had without the pinned items.
    """
    items, scores, tokens = candidates.items, candidates.scores, candidates.tokens
    target, target_without_pins = targets
    # One number for the whole run: the tokens that the complete selection leaves free (ruling 7.19).
    available = target - sum(tokens[position] for position in chosen)
    explain = selection.explain
    related = _related(candidates, chosen)
    taken = set(chosen)
    excluded: list[ExcludedItem] = []
    for position, cost in enumerate(tokens):
        if position in taken:
            continue
        reason: ExclusionReason | None = None
        if related is not None:
            reason, cost = related.reason(position), related.needs(position)  # noqa: PLW2901
        if reason is None and explain is not None:
            reason = explain(position)
        if reason is None and target < cost <= target_without_pins:
            reason = displaced_by(pinned)
        if reason is None:
            reason = BudgetExceeded(cost, available)
        excluded.append(ExcludedItem(items[position], scores[position], reason))
    return excluded


def truncated_out(placed: Placed, target_tokens: int) -> list[ExcludedItem]:
    """Return reasons for truncated items; pins if it would have stayed without them (ruling 7.17)."""
    if not placed.truncated:
        return []
    everything, pinned = placed.everything, placed.pinned
    available = target_tokens - sum(placed.selected.tokens)
    removed = set(placed.truncated)
    first = len(pinned)
    kept = [position - first for position in range(first, len(everything)) if position not in removed]
    related = _related(placed.chosen, kept)
    pins_cost = any(item.tokens > 0 for item in pinned)
    kept_beside_pins = 0
    excluded: list[ExcludedItem] = []
    for position in range(first, len(everything)):
        cost = everything.tokens[position]
        if position not in removed:
            kept_beside_pins += cost
            continue
        reason = None if related is None else related.reason(position - first)
        if reason is None and pins_cost and kept_beside_pins + cost <= target_tokens:
            reason = displaced_by(pinned)
        if reason is None:
            reason = BudgetExceeded(cost if related is None else related.needs(position - first), available)
        excluded.append(ExcludedItem(everything.items[position], everything.scores[position], reason))
    return excluded


def _related(candidates: Candidates, chosen: list[int]) -> RelationReasons | None:
    relations = candidates.relations
    return None if relations is None else RelationReasons(candidates, relations, chosen)


def placed_in(placed: Placed) -> list[IncludedItem]:
    """Return the selected items with their reasons, in their final order."""
    selected, pinned_count = placed.selected, len(placed.pinned)
    items, scores, tokens = selected.items, selected.scores, selected.tokens
    pinned, free, scored = InclusionReason.PINNED, InclusionReason.ZERO_TOKEN, InclusionReason.SCORED
    return [
        IncludedItem(
            items[position],
            scores[position],
            pinned if position < pinned_count else scored if tokens[position] else free,
        )
        for position in placed.order
    ]


def displaced_by(pinned: Sequence[ContextItem]) -> PinnedOverride:
    """Name the first pinned item that takes any room."""
    return PinnedOverride(next(item.content for item in pinned if item.tokens > 0))


_NANOSECONDS_A_MILLISECOND = 1e6


class Recorder:
    """Record one run: five stages with their times, counts and exclusions, and the events made from them.

    A run that nobody observes has no recorder.

    Sorting and the slicer's preparation are no separate stages: their time counts for Slice, even if they happened
    in `Pipeline.prepare`. Time that a collector spends on an event counts for no stage.

    Args:
        trace: The collector to notify.
        prepared: The recorder of a preparation that the run continues; it keeps its stages and their times.
    """

    __slots__ = ("_item_trace", "_mark", "_offset", "_trace", "events", "pending", "stages")

    def __init__(self, trace: TraceSink | None = None, *, prepared: Recorder | None = None) -> None:
        self._trace = trace
        self._item_trace = trace if _wants_items(trace) else None
        self.stages: list[StageSnapshot] = [] if prepared is None else [*prepared.stages]
        self.events: list[TraceEvent] = [] if prepared is None else [*prepared.events]
        self.pending = 0
        hook = getattr(trace, "on_pipeline_started", None)
        if hook is not None:
            hook()
        now = perf_counter_ns()
        self._offset = time_ns() - now
        self._mark = now if prepared is None else now - prepared.pending

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
        """Record the candidates that the slicer did not choose."""
        target = effective_budget(budget, prepared.pinned_tokens).target_tokens
        roomier = effective_budget(budget, 0).target_tokens if prepared.pinned_tokens > 0 else target
        excluded = sliced_out(prepared.candidates, chosen, selection, prepared.pinned, (target, roomier))
        message = _absent_kinds(prepared)
        self._stage(PipelineStage.SLICE, len(prepared.candidates), len(chosen), excluded, message=message)

    def placed(self, placed: Placed, budget: ContextBudget) -> None:
        """Record the items that truncation removed, and the tokens that are still over the target."""
        excluded = truncated_out(placed, budget.target_tokens)
        total, target = sum(placed.selected.tokens), budget.target_tokens
        message = f"{total} tokens selected, {total - target} over the target of {target}" if total > target else None
        self._stage(PipelineStage.PLACE, len(placed.everything), len(placed.items), excluded, message=message)

    def paused(self) -> None:
        """Keep the time since the last stage for the reports of later runs."""
        self.pending += perf_counter_ns() - self._mark

    def finished(
        self, prepared: PreparedSelection, budget: ContextBudget, selection: Selection, placed: Placed
    ) -> SelectionReport:
        """Build the report and notify the collector."""
        stages = tuple(self.stages)
        included = placed_in(placed)
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
            origin=Origin(prepared, budget, stages),
        )
        hook = getattr(self._trace, "on_pipeline_completed", None)
        if hook is not None:
            hook(report, budget, stages)
        return report

    def _stage(
        self,
        stage: PipelineStage,
        entered: int,
        left: int,
        excluded: Sequence[ExcludedItem] = (),
        *,
        scores: Sequence[float] = (),
        message: str | None = None,
    ) -> None:
        """Record a finished stage: events of its items first, then its own."""
        end = perf_counter_ns()
        start = self._mark
        self.stages.append(
            StageSnapshot(stage, entered, left, start + self._offset, end + self._offset, tuple(excluded))
        )
        if self._item_trace is not None:
            for about_item in (*(f"Score: {score!r}" for score in scores), *map(_message, excluded)):
                item_event = TraceEvent(stage, 0.0, 1, about_item)
                self.events.append(item_event)
                self._item_trace.record_item_event(item_event)
        event = TraceEvent(stage, (end - start) / _NANOSECONDS_A_MILLISECOND, left, message)
        self.events.append(event)
        if self._trace is not None:
            self._trace.record_stage_event(event)
        self._mark = perf_counter_ns()


def recorder_for(trace: TraceSink | None, budget: ContextBudget) -> Recorder | None:
    """Return a recorder if the collector is enabled; `is_enabled` may be a property or, duck-typed, a method."""
    if trace is None:
        return None
    if isinstance(trace, type) or not all(
        callable(getattr(trace, name, None)) for name in ("record_stage_event", "record_item_event")
    ):
        raise wrong_type("trace", "a trace collector", trace)
    if isinstance(trace, TraceCollector):
        trace = trace.for_run(budget)
    enabled: object = getattr(trace, "is_enabled", False)
    return Recorder(trace) if (enabled() if callable(enabled) else enabled) else None


def _wants_items(trace: TraceSink | None) -> bool:
    """Return whether the collector wants an event for every item; others may name the level as a string."""
    level: object = getattr(trace, "detail_level", TraceDetailLevel.ITEM)
    if isinstance(level, int):
        return trace is not None and level >= TraceDetailLevel.ITEM
    return str(getattr(level, "name", level)).upper() != TraceDetailLevel.STAGE.name


def _absent_kinds(prepared: PreparedSelection) -> str | None:
    """Name the kinds that the slicer limits and no item has: perhaps a misspelling, perhaps there are none today."""
    slicer, items = prepared.pipeline.slicer, prepared.items
    absent = {kind.key: kind.value for kind in slicer.limited_kinds}
    for item in items:
        if not absent:
            return None
        absent.pop(item.kind.key, None)
    if not absent:
        return None
    present = {item.kind.value for item in items}
    hints = {name: did_you_mean(name, sorted(present)).removeprefix("; ") for name in absent.values()}
    names = (f"'{name}' ({hint})" if hint else f"'{name}'" for name, hint in hints.items())
    return f"{type(slicer).__name__} limits kinds that no item has: {', '.join(names)}"


def _message(entry: ExcludedItem) -> str:
    reason = entry.reason
    if isinstance(reason, BudgetExceeded):
        return f"BudgetExceeded: {reason.item_tokens} tokens requested, {reason.available_tokens} available"
    fields = ", ".join(f"{name}={value!r}" for name, value in reason.to_dict().items() if name != "reason")
    return f"{reason.name}: {fields}"
