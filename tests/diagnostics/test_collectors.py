"""Collectors: events in order, detail levels, hooks, and silence that costs nothing."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import cupel.diagnostics
import cupel.pipeline._observer as watch_module
from cupel import (
    BudgetOverflowError,
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    DiagnosticTraceCollector,
    GreedySlice,
    NullTraceCollector,
    OverflowStrategy,
    PinnedExceedsBudgetError,
    Pipeline,
    PipelineStage,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    SelectionError,
    Slicer,
    TraceCollector,
    TraceDetailLevel,
    TraceEvent,
    UShapedPlacer,
)
from cupel.diagnostics import StageSnapshot, TraceSink

if TYPE_CHECKING:
    from cupel import SelectionReport

PIPELINE = Pipeline(scorer=ReflexiveScorer())
BUDGET = ContextBudget(100, 100)
STAGES = ["Classify", "Score", "Deduplicate", "Slice", "Place"]


def pool() -> list[ContextItem]:
    return [
        ContextItem("neg", -5, future_relevance_hint=0.9),
        ContextItem("pin", 10, pinned=True),
        ContextItem("in", 60, future_relevance_hint=0.9),
        ContextItem("in", 60, future_relevance_hint=0.8),
        ContextItem("out", 60, future_relevance_hint=0.1),
        ContextItem("held", 95, future_relevance_hint=0.05),
    ]


def names(events: Any) -> list[str]:
    return [event.stage.value for event in events]


@pytest.mark.parametrize("items", [[], pool()])
@pytest.mark.parametrize("deduplicate", [True, False])
def test_five_stage_events_in_order(items: list[ContextItem], deduplicate: bool) -> None:
    trace = DiagnosticTraceCollector()
    Pipeline(scorer=ReflexiveScorer(), deduplicate=deduplicate).run(items, BUDGET, trace=trace)
    assert names(trace.events) == STAGES
    assert trace.build_report().events == trace.events
    assert all(event.duration_ms >= 0.0 and event.message is None for event in trace.events)


def test_item_counts_are_what_leaves_each_stage() -> None:
    report = PIPELINE.dry_run(pool(), BUDGET)
    assert [event.item_count for event in report.events] == [5, 4, 3, 1, 2]


def test_item_events_precede_their_stage_and_start_with_the_reason() -> None:
    trace = DiagnosticTraceCollector(TraceDetailLevel.ITEM)
    PIPELINE.run(pool(), BUDGET, trace=trace)
    assert [(event.stage.value, event.message) for event in trace.events] == [
        ("Classify", "NegativeTokens: tokens=-5"),
        ("Classify", None),
        ("Score", "Score: 0.9"),
        ("Score", "Score: 0.8"),
        ("Score", "Score: 0.1"),
        ("Score", "Score: 0.05"),
        ("Score", None),
        ("Deduplicate", "Deduplicated: deduplicated_against='in'"),
        ("Deduplicate", None),
        ("Slice", "BudgetExceeded: 60 tokens requested, 30 available"),
        ("Slice", "PinnedOverride: displaced_by='pin'"),
        ("Slice", None),
        ("Place", None),
    ]
    assert all(event.duration_ms == 0.0 and event.item_count == 1 for event in trace.events if event.message)
    assert trace.build_report().events == trace.events


@pytest.mark.parametrize("level", list(TraceDetailLevel))
def test_one_select_gives_the_result_its_report_and_what_a_collector_hears(level: TraceDetailLevel) -> None:
    trace = DiagnosticTraceCollector(level)
    result = PIPELINE.select(pool(), BUDGET, trace=trace)
    assert result.items == PIPELINE.run(pool(), BUDGET)
    assert trace.build_report() == result.report
    assert result.report.events == trace.events


@pytest.mark.parametrize("trace", [None, NullTraceCollector()])
def test_select_reports_even_if_nobody_listens(trace: TraceCollector | None) -> None:
    result = PIPELINE.select(pool(), BUDGET, trace=trace)
    assert names(result.report.events) == STAGES
    assert result.report.included == PIPELINE.dry_run(pool(), BUDGET).included


def test_select_refuses_what_is_no_collector() -> None:
    with pytest.raises(TypeError, match="trace must be a trace collector, got str: 'x'"):
        PIPELINE.select(pool(), BUDGET, trace="x")  # type: ignore[arg-type]


def test_truncation_is_reported_at_place() -> None:
    trace = DiagnosticTraceCollector(TraceDetailLevel.ITEM)
    slicer = CountQuotaSlice([CountQuotaEntry("tool", 2, 2)])
    items = [ContextItem(c, 80, kind="tool", future_relevance_hint=0.5) for c in "ab"]
    Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=OverflowStrategy.TRUNCATE).run(
        items, BUDGET, trace=trace
    )
    assert [event.message for event in trace.events if event.stage is PipelineStage.PLACE] == [
        "BudgetExceeded: 80 tokens requested, 20 available",
        None,
    ]


@pytest.mark.parametrize("level", TraceDetailLevel)
def test_an_overflow_that_proceeds_is_told_at_place(level: TraceDetailLevel) -> None:
    """Also where nobody set `on_overflow`."""
    trace = DiagnosticTraceCollector(level)
    slicer = CountQuotaSlice([CountQuotaEntry("tool", 2)])
    items = [ContextItem(c, 80, kind="tool", future_relevance_hint=0.5) for c in "ab"]
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=OverflowStrategy.PROCEED)
    pipeline.run(items, ContextBudget(500, 100), trace=trace)
    stages = [event for event in trace.events if event.duration_ms]
    assert [event.message for event in stages] == [None] * 4 + ["160 tokens selected, 60 over the target of 100"]
    assert pipeline.dry_run(items, ContextBudget(500, 160)).events[-1].message is None


@pytest.mark.parametrize(
    "slicer",
    [
        QuotaSlice([QuotaEntry("ToolOuput", cap=30), QuotaEntry("tooloutput", 20)]),
        CountQuotaSlice([CountQuotaEntry("ToolOuput", cap_count=1)]),
        CountQuotaSlice([], QuotaSlice([QuotaEntry("ToolOuput", cap=30)])),
        CountConstrainedKnapsackSlice([CountQuotaEntry("ToolOuput", 1)]),
    ],
)
def test_a_limit_for_a_kind_that_no_item_has_is_told_at_slice(slicer: Slicer) -> None:
    items = [ContextItem("a", 10, kind="ToolOutput")]
    messages = [event.message for event in Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run(items, 50).events]
    name = type(slicer).__name__
    told = f"{name} limits kinds that no item has: 'ToolOuput' (did you mean 'ToolOutput'?)"
    assert messages == [None, None, None, told, None]


@pytest.mark.parametrize("item", [ContextItem("a", 5, kind="MEMORY", pinned=True), ContextItem("a", -5, kind="memory")])
def test_a_kind_that_only_pinned_or_negative_items_have_is_no_misspelling(item: ContextItem) -> None:
    slicer = QuotaSlice([QuotaEntry("Memory", 20), QuotaEntry("Message", 20)])
    report = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run([item, ContextItem("b", 1)], 50)
    assert report.events[3].message is None


def test_stage_level_drops_item_events_given_directly() -> None:
    trace = DiagnosticTraceCollector()
    trace.record_item_event(TraceEvent(PipelineStage.SCORE, 0.0, 1, "x"))
    assert trace.events == ()


def test_lists_are_complete_at_stage_level() -> None:
    trace = DiagnosticTraceCollector()
    PIPELINE.run(pool(), BUDGET, trace=trace)
    report = trace.build_report()
    assert (len(report.included), len(report.excluded)) == (2, 4)


def test_callback_sees_each_event_after_it_was_kept() -> None:
    seen: list[tuple[TraceEvent, bool]] = []
    trace = DiagnosticTraceCollector(on_event=lambda event: seen.append((event, event in trace.events)))
    PIPELINE.run(pool(), BUDGET, trace=trace)
    assert [event for event, _ in seen] == list(trace.events)
    assert all(kept for _, kept in seen)


def test_what_a_callback_raises_reaches_the_caller() -> None:
    def fail(event: TraceEvent) -> None:
        raise RuntimeError(event.stage.value)

    with pytest.raises(RuntimeError, match="Classify"):
        PIPELINE.run(pool(), BUDGET, trace=DiagnosticTraceCollector(on_event=fail))


def test_a_report_needs_a_run_that_succeeded() -> None:
    trace = DiagnosticTraceCollector()
    with pytest.raises(SelectionError, match="has not recorded a successful run"):
        trace.build_report()
    PIPELINE.run(pool(), BUDGET, trace=trace)
    with pytest.raises(PinnedExceedsBudgetError):
        PIPELINE.run(pool(), ContextBudget(5, 5), trace=trace)
    assert trace.events == ()  # the failed stage emits nothing, and the run before is forgotten
    with pytest.raises(SelectionError):
        trace.build_report()


def test_a_stage_that_raises_emits_no_event() -> None:
    trace = DiagnosticTraceCollector()
    slicer = CountQuotaSlice([CountQuotaEntry("tool", 2, 2)])
    items = [ContextItem(c, 80, kind="tool") for c in "ab"]
    with pytest.raises(BudgetOverflowError):
        Pipeline(scorer=ReflexiveScorer(), slicer=slicer).run(items, BUDGET, trace=trace)
    assert names(trace.events) == STAGES[:4]


def test_detail_level_must_be_one() -> None:
    with pytest.raises(TypeError, match="detail_level must be a TraceDetailLevel, got str: 'item'"):
        DiagnosticTraceCollector("item")  # type: ignore[arg-type]


class Duck:
    """A collector with the three members and nothing else; `enabled` may be a method, as the book writes it."""

    def __init__(self, *, as_method: bool) -> None:
        self.stage_events: list[TraceEvent] = []
        self.item_events: list[TraceEvent] = []
        self.is_enabled: Any = (lambda: True) if as_method else True

    def record_stage_event(self, event: TraceEvent) -> None:
        self.stage_events.append(event)

    def record_item_event(self, event: TraceEvent) -> None:
        self.item_events.append(event)


@pytest.mark.parametrize("as_method", [True, False])
def test_a_duck_typed_collector_works(as_method: bool) -> None:
    duck = Duck(as_method=as_method)
    assert isinstance(duck, TraceSink)
    PIPELINE.run(pool(), BUDGET, trace=duck)
    assert names(duck.stage_events) == STAGES
    assert len(duck.item_events) == 8


@pytest.mark.parametrize(("level", "item_events"), [(0, 0), (1, 8), (2, 8)])
def test_a_duck_typed_collector_may_say_how_much_it_wants(level: int, item_events: int) -> None:
    duck = Duck(as_method=False)
    duck.detail_level = level  # type: ignore[attr-defined]
    PIPELINE.run(pool(), BUDGET, trace=duck)
    assert (len(duck.stage_events), len(duck.item_events)) == (5, item_events)


@pytest.mark.parametrize(
    ("level", "item_events"),
    [("stage", 0), ("STAGE", 0), ("item", 8), (None, 8), (TraceDetailLevel.STAGE, 0), ("anything", 8), ([], 8)],
)
def test_a_detail_level_of_any_form_does_no_harm(level: Any, item_events: int) -> None:
    duck = Duck(as_method=False)
    duck.detail_level = level  # type: ignore[attr-defined]
    PIPELINE.run(pool(), BUDGET, trace=duck)
    assert (len(duck.stage_events), len(duck.item_events)) == (5, item_events)


@pytest.mark.parametrize("enabled", [False, lambda: False])
def test_a_duck_typed_collector_may_be_silent(enabled: Any) -> None:
    duck = Duck(as_method=False)
    duck.is_enabled = enabled
    PIPELINE.run(pool(), BUDGET, trace=duck)
    assert duck.stage_events == duck.item_events == []


def test_the_completion_hook_gets_report_budget_and_stages() -> None:
    calls: list[Any] = []

    class Hooked(TraceCollector):
        def on_pipeline_started(self) -> None:
            calls.append("started")

        def on_pipeline_completed(
            self, report: SelectionReport, budget: ContextBudget, stages: tuple[StageSnapshot, ...]
        ) -> None:
            calls.append((report, budget, stages))

    PIPELINE.run(pool(), BUDGET, trace=Hooked())
    started, (report, budget, stages) = calls
    assert started == "started"
    assert budget is BUDGET
    again = PIPELINE.dry_run(pool(), BUDGET)
    assert (report.included, report.excluded) == (again.included, again.excluded)
    assert [stage.stage.value for stage in stages] == STAGES
    assert [event.item_count for event in report.events if event.message is None] == [5, 4, 3, 1, 2]
    counts = [(stage.item_count_in, stage.item_count_out, len(stage.excluded)) for stage in stages]
    assert counts == [(6, 5, 1), (4, 4, 0), (4, 3, 1), (3, 1, 2), (2, 2, 0)]
    times = [time for stage in stages for time in (stage.start_ns, stage.end_ns)]
    assert times == sorted(times)


def test_durations_are_milliseconds_of_the_steady_clock_anchored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steady, anchor = count(7_000, 1_500_000), 1_700_000_000_000_000_000
    monkeypatch.setattr(watch_module, "perf_counter_ns", lambda: next(steady))
    monkeypatch.setattr(watch_module, "time_ns", lambda: anchor)
    seen: list[tuple[StageSnapshot, ...]] = []

    class Hooked(TraceCollector):
        def on_pipeline_completed(self, report: SelectionReport, budget: ContextBudget, stages: Any) -> None:
            seen.append(stages)

    trace = DiagnosticTraceCollector()
    PIPELINE.run(pool(), BUDGET, trace=trace)
    PIPELINE.run(pool(), BUDGET, trace=Hooked())
    assert [event.duration_ms for event in trace.events] == [1.5] * 5
    ((first, *rest),) = seen
    assert (first.start_ns, first.end_ns) == (anchor, anchor + 1_500_000)
    assert [(stage.start_ns - anchor) / 1_500_000 for stage in rest] == [2, 4, 6, 8]
    assert all(stage.end_ns - stage.start_ns == 1_500_000 for stage in rest)


class Slow(GreedySlice):
    """Takes a second to see its candidates, by a clock that only moves when told to."""

    clock = 0

    def _prepare(self, candidates: Any) -> Any:
        Slow.clock += 1_000_000_000
        return super()._prepare(candidates)


def test_preparing_is_part_of_slice_in_a_run_and_after_a_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "perf_counter_ns", lambda: Slow.clock)
    monkeypatch.setattr(watch_module, "time_ns", lambda: Slow.clock)
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=Slow())
    prepared = pipeline.prepare(pool())
    Slow.clock += 5_000_000_000  # nobody asks for a while
    other = prepared.with_pipeline(Pipeline(scorer=ReflexiveScorer(), slicer=Slow(), placer=UShapedPlacer()))
    for report, seconds in (
        (pipeline.dry_run(pool(), BUDGET), 1),
        (prepared.dry_run(BUDGET), 1),
        (prepared.dry_run(BUDGET), 1),
        (other.dry_run(BUDGET), 2),  # prepared once for each
    ):
        assert [event.duration_ms for event in report.events] == [0, 0, 0, 1000 * seconds, 0]
        assert report.origin is not None
        times = [time for stage in report.origin.stages for time in (stage.start_ns, stage.end_ns)]
        assert times == sorted(times)


def test_a_plain_base_collector_listens_and_ignores() -> None:
    assert len(PIPELINE.run(pool(), BUDGET, trace=TraceCollector())) == 2


@pytest.mark.parametrize("trace", [None, NullTraceCollector()])
def test_silence_reads_no_clock_and_builds_nothing(trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_args: object, **_kwargs: object) -> Any:
        raise AssertionError

    for name in ("perf_counter_ns", "time_ns", "TraceEvent", "StageSnapshot"):
        monkeypatch.setattr(watch_module, name, forbidden)
    reasons = sys.modules["cupel.pipeline._observer"]
    for name in ("BudgetExceeded", "Deduplicated", "NegativeTokens", "PinnedOverride", "ExcludedItem", "IncludedItem"):
        monkeypatch.setattr(reasons, name, forbidden)
    assert len(PIPELINE.run(pool(), BUDGET, trace=trace)) == 2


def test_silence_allocates_nothing_in_diagnostics() -> None:
    items = pool()
    PIPELINE.run(items, BUDGET, trace=NullTraceCollector())
    tracemalloc.start()
    try:
        PIPELINE.run(items, BUDGET, trace=NullTraceCollector())
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    watched = [tracemalloc.Filter(inclusive=True, filename_pattern=f"*{part}*") for part in ("diagnostics", "_reasons")]
    assert snapshot.filter_traces(watched).statistics("filename") == []


def test_null_collector_ignores_everything() -> None:
    null = NullTraceCollector()
    event = TraceEvent(PipelineStage.SCORE, 0.0, 1)
    null.record_stage_event(event)
    null.record_item_event(event)
    assert null.is_enabled is False


def test_public_names_are_listed() -> None:
    assert sorted(cupel.diagnostics.__all__) == sorted(set(cupel.diagnostics.__all__))


def test_a_collector_may_hand_each_run_to_an_observer_of_its_own():
    class Run(DiagnosticTraceCollector):
        pass

    class Hub(TraceCollector):
        def __init__(self) -> None:
            self.runs: list[tuple[int, Run]] = []

        def for_run(self, budget: ContextBudget) -> TraceCollector:
            if budget.max_tokens > 100:
                return NullTraceCollector()
            self.runs.append((budget.max_tokens, Run()))
            return self.runs[-1][1]

    hub = Hub()
    for tokens in (50, 100, 150):
        Pipeline(scorer=ReflexiveScorer()).run([ContextItem("a", 1)], ContextBudget(tokens, tokens), trace=hub)
    assert [tokens for tokens, _ in hub.runs] == [50, 100]
    assert all(len(run.events) == 5 for _, run in hub.runs)
