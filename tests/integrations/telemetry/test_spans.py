"""Spans as the real SDK exports them, and what the collector is given."""

import asyncio
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from cupel import (
    BudgetOverflowError,
    ConfigurationError,
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    OverflowStrategy,
    Pipeline,
    ReflexiveScorer,
    Slicer,
    __version__,
)
from cupel.diagnostics import ExclusionReason, TraceCollector
from cupel.integrations.opentelemetry import SCOPE_NAME, CupelVerbosity, OpenTelemetryTraceCollector
from cupel.slicers import Chooser, Selection
from tests.integrations.telemetry.pools import BUDGET, ITEMS, SECRET

ROOT = Path(__file__).parents[3]
STAGES = ["classify", "score", "deduplicate", "slice", "place"]


@pytest.fixture
def run(exporter, provider):
    def run(verbosity=CupelVerbosity.STAGE_ONLY, items=ITEMS, budget=BUDGET, **parts):
        pipeline = Pipeline(scorer=ReflexiveScorer(), **parts)
        pipeline.run(items, budget, trace=OpenTelemetryTraceCollector(verbosity, tracer_provider=provider))
        return {span.name: span for span in exporter.get_finished_spans()}

    return run


def events(span):
    return [(event.name, dict(event.attributes)) for event in span.events]


def test_a_run_is_one_root_and_five_stages_in_order(run, exporter):
    run()
    root, *stages = sorted(exporter.get_finished_spans(), key=lambda span: (span.parent is not None, span.start_time))
    assert root.name == "cupel.pipeline"
    assert root.parent is None
    assert [span.name for span in stages] == [f"cupel.stage.{name}" for name in STAGES]
    assert {span.parent.span_id for span in stages} == {root.context.span_id}
    assert {span.context.trace_id for span in (root, *stages)} == {root.context.trace_id}


def test_the_scope_is_named_after_the_library(run):
    scope = run()["cupel.pipeline"].instrumentation_scope
    assert (scope.name, scope.version) == (SCOPE_NAME, __version__) == ("cupel", __version__)


def test_stage_only_has_exactly_the_listed_attributes(run):
    spans = run()
    assert dict(spans["cupel.pipeline"].attributes) == {
        "cupel.budget.max_tokens": 200,
        "cupel.verbosity": "StageOnly",
        "cupel.tokens.selected": 90,
    }
    counts = {"classify": (6, 5), "score": (4, 4), "deduplicate": (4, 3), "slice": (3, 2), "place": (3, 3)}
    for name, (entered, left) in counts.items():
        span = spans[f"cupel.stage.{name}"]
        assert dict(span.attributes) == {
            "cupel.stage.name": name,
            "cupel.stage.item_count_in": entered,
            "cupel.stage.item_count_out": left,
        }
        assert events(span) == []


def test_exclusions_sit_on_the_stage_that_excluded(run):
    spans = run(CupelVerbosity.STAGE_AND_EXCLUSIONS)
    assert spans["cupel.pipeline"].attributes["cupel.verbosity"] == "StageAndExclusions"
    expected = {
        "classify": ("NegativeTokens", "Message", -5),
        "deduplicate": ("Deduplicated", "memory", 20),
        "slice": ("BudgetExceeded", "Document", 80),
    }
    for name in STAGES:
        span = spans[f"cupel.stage.{name}"]
        if name in expected:
            reason, kind, tokens = expected[name]
            assert span.attributes["cupel.exclusion.count"] == 1
            assert events(span) == [
                (
                    "cupel.exclusion",
                    {
                        "cupel.exclusion.reason": reason,
                        "cupel.exclusion.item_kind": kind,
                        "cupel.exclusion.item_tokens": tokens,
                    },
                )
            ]
        else:
            assert "cupel.exclusion.count" not in span.attributes
            assert events(span) == []


def test_full_adds_the_selected_items_in_placed_order_to_the_place_span(run):
    spans = run(CupelVerbosity.FULL)
    assert spans["cupel.pipeline"].attributes["cupel.verbosity"] == "Full"
    assert events(spans["cupel.stage.place"]) == [
        ("cupel.item.included", {"cupel.item.kind": kind, "cupel.item.tokens": tokens, "cupel.item.score": score})
        for kind, tokens, score in [("SystemPrompt", 10, 1.0), ("ToolOutput", 60, 0.9), ("memory", 20, 0.5)]
    ]
    assert [len(spans[f"cupel.stage.{name}"].events) for name in STAGES] == [1, 0, 1, 1, 3]


def test_attributes_have_the_listed_types(run):
    spans = run(CupelVerbosity.FULL)
    types = {
        name: type(value)
        for span in spans.values()
        for attributes in (span.attributes, *(event.attributes for event in span.events))
        for name, value in attributes.items()
    }
    strings = {"cupel.verbosity", "cupel.stage.name", "cupel.exclusion.reason", "cupel.exclusion.item_kind"}
    assert {name for name, found in types.items() if found is str} == strings | {"cupel.item.kind"}
    assert {name for name, found in types.items() if found is float} == {"cupel.item.score"}
    assert {name for name, found in types.items() if found is int} == {
        "cupel.budget.max_tokens",
        "cupel.stage.item_count_in",
        "cupel.stage.item_count_out",
        "cupel.exclusion.count",
        "cupel.exclusion.item_tokens",
        "cupel.item.tokens",
        "cupel.tokens.selected",
    }


def test_truncation_is_an_exclusion_of_place_which_counts_what_came_in_before_it(run):
    items = [ContextItem(name, 80, kind="Tool", future_relevance_hint=hint) for name, hint in (("a", 0.5), ("b", 0.25))]
    slicer = CountQuotaSlice([CountQuotaEntry("Tool", 2, 2)])
    spans = run(CupelVerbosity.FULL, items, slicer=slicer, overflow=OverflowStrategy.TRUNCATE)
    place = spans["cupel.stage.place"]
    assert (place.attributes["cupel.stage.item_count_in"], place.attributes["cupel.stage.item_count_out"]) == (2, 1)
    assert [name for name, _ in events(place)] == ["cupel.exclusion", "cupel.item.included"]


def test_spans_have_the_real_times_of_the_stages(exporter, provider):
    class Slow(ReflexiveScorer):
        def score_all(self, items):
            time.sleep(0.05)
            return super().score_all(items)

    before = time.time_ns()
    Pipeline(scorer=Slow()).run(ITEMS, BUDGET, trace=OpenTelemetryTraceCollector(tracer_provider=provider))
    after = time.time_ns()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    root, stages = spans["cupel.pipeline"], [spans[f"cupel.stage.{name}"] for name in STAGES]
    slack = 5_000_000  # the wall clock may be adjusted while the test runs
    assert before - slack <= root.start_time <= root.end_time <= after + slack
    assert stages[0].start_time - slack <= root.start_time <= stages[0].start_time + slack
    assert root.end_time == stages[-1].end_time
    for span, following in zip(stages, [*stages[1:], None], strict=True):
        assert span.start_time <= span.end_time
        assert following is None or span.end_time <= following.start_time
    assert stages[1].end_time - stages[1].start_time >= 45_000_000
    assert sum(span.end_time - span.start_time for span in stages if span is not stages[1]) < 45_000_000


def test_the_current_span_is_the_parent(exporter, provider):
    collector = OpenTelemetryTraceCollector(tracer_provider=provider)
    with provider.get_tracer("application").start_as_current_span("answer") as answer:
        Pipeline(scorer=ReflexiveScorer()).run(ITEMS, BUDGET, trace=collector)
    root = next(span for span in exporter.get_finished_spans() if span.name == "cupel.pipeline")
    assert root.parent.span_id == answer.get_span_context().span_id
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_run_that_raises_leaves_no_spans_and_no_measurements(exporter, provider):
    reader = InMemoryMetricReader()
    collector = OpenTelemetryTraceCollector(
        tracer_provider=provider, metrics=True, meter_provider=MeterProvider(metric_readers=[reader])
    )
    slicer = CountQuotaSlice([CountQuotaEntry("ToolOutput", 1, 1)])
    with pytest.raises(BudgetOverflowError):
        Pipeline(scorer=ReflexiveScorer(), slicer=slicer).run(ITEMS, ContextBudget(50, 50), trace=collector)
    assert exporter.get_finished_spans() == ()
    assert reader.get_metrics_data() is None


def test_no_content_metadata_or_tag_is_recorded(run):
    spans = run(CupelVerbosity.FULL)
    assert all(SECRET not in span.to_json() for span in spans.values())


def test_a_reason_of_a_custom_strategy_is_unknown(run):
    class Whim(ExclusionReason, frozen=True):
        pass

    class Whimsical(Slicer):
        def slice(self, scored, budget):
            return []

        def prepare(self, candidates):
            class Choose(Chooser):
                def __call__(self, budget):
                    return Selection([], explain=lambda position: Whim())

            return Choose()

    spans = run(CupelVerbosity.STAGE_AND_EXCLUSIONS, ITEMS[1:2], slicer=Whimsical())
    assert events(spans["cupel.stage.slice"])[0][1]["cupel.exclusion.reason"] == "Unknown"


def test_one_collector_serves_many_threads_at_once(exporter, provider):
    collector = OpenTelemetryTraceCollector(CupelVerbosity.FULL, tracer_provider=provider)
    pipeline = Pipeline(scorer=ReflexiveScorer())
    tracer = provider.get_tracer("application")

    def answer(number):
        with tracer.start_as_current_span(f"answer {number}"):
            pipeline.run(ITEMS[:1] * (number % 4), ContextBudget(1000 + number, 500), trace=collector)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(answer, range(40)))
    spans = exporter.get_finished_spans()
    by_id = {span.context.span_id: span for span in spans}
    roots = [span for span in spans if span.name == "cupel.pipeline"]
    assert len(spans) == 40 * 7
    for root in roots:
        number = root.attributes["cupel.budget.max_tokens"] - 1000
        assert by_id[root.parent.span_id].name == f"answer {number}"
        children = [span for span in spans if span.parent and span.parent.span_id == root.context.span_id]
        assert sorted(span.attributes["cupel.stage.name"] for span in children) == sorted(STAGES)
        (place,) = [span for span in children if span.name == "cupel.stage.place"]
        assert len(place.events) == place.attributes["cupel.stage.item_count_out"] == number % 4


def test_nothing_to_select_from_is_a_run_too(run):
    spans = run(CupelVerbosity.FULL, [])
    assert len(spans) == 6
    assert all(not span.events for span in spans.values())


def test_a_tracer_can_be_passed(exporter, provider):
    collector = OpenTelemetryTraceCollector(tracer=provider.get_tracer("mine"))
    Pipeline(scorer=ReflexiveScorer()).run(ITEMS, BUDGET, trace=collector)
    assert {span.instrumentation_scope.name for span in exporter.get_finished_spans()} == {"mine"}


def test_a_run_in_an_asynchronous_task_has_the_tasks_span_as_its_parent(exporter, provider):
    collector = OpenTelemetryTraceCollector(tracer_provider=provider)
    tracer = provider.get_tracer("application")

    async def answer(number):
        with tracer.start_as_current_span(f"answer {number}"):
            await Pipeline(scorer=ReflexiveScorer()).arun([lambda: ITEMS], ContextBudget(number, 100), trace=collector)

    async def both():
        await asyncio.gather(answer(200), answer(300))

    asyncio.run(both())
    names = {span.context.span_id: span.name for span in exporter.get_finished_spans()}
    roots = [span for span in exporter.get_finished_spans() if span.name == "cupel.pipeline"]
    assert {(names[span.parent.span_id], span.attributes["cupel.budget.max_tokens"]) for span in roots} == {
        ("answer 200", 200),
        ("answer 300", 300),
    }


def test_a_selection_has_spans_and_a_report(exporter, provider):
    collector = OpenTelemetryTraceCollector(CupelVerbosity.FULL, tracer_provider=provider)
    result = Pipeline(scorer=ReflexiveScorer()).select(ITEMS, BUDGET, trace=collector)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert len(spans["cupel.stage.place"].events) == len(result.report.included) == len(result.items)


def test_a_selection_that_the_sampler_rejects_still_has_a_report():
    collector = OpenTelemetryTraceCollector(tracer_provider=trace.NoOpTracerProvider())
    assert Pipeline(scorer=ReflexiveScorer()).select(ITEMS, BUDGET, trace=collector).report.included


def test_a_collector_that_hands_runs_on_loses_nothing(exporter, provider):
    telemetry = OpenTelemetryTraceCollector(tracer_provider=provider)

    class Both(TraceCollector):
        def on_pipeline_completed(self, report, budget, stages):
            telemetry.on_pipeline_completed(report, budget, stages)

    Pipeline(scorer=ReflexiveScorer()).run(ITEMS, BUDGET, trace=Both())
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert len(spans) == 6
    assert spans["cupel.pipeline"].start_time == spans["cupel.stage.classify"].start_time


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"verbosity": "Full"}, TypeError, "verbosity must be a CupelVerbosity, got str: 'Full'"),
        (
            {"tracer": trace.get_tracer("x"), "tracer_provider": trace.NoOpTracerProvider()},
            ConfigurationError,
            "not both",
        ),
        ({"meter_provider": MeterProvider()}, ConfigurationError, "only used with metrics=True"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        OpenTelemetryTraceCollector(**arguments)


def test_the_core_never_imports_opentelemetry():
    code = """
import sys
import cupel, cupel.policy, cupel.analytics, cupel.testing, cupel.presets, cupel.integrations
cupel.Pipeline(scorer=cupel.RecencyScorer()).select([cupel.ContextItem("a", 1)], cupel.ContextBudget(9, 9))
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_without_the_extra_the_error_says_what_to_install():
    code = """
import sys
sys.modules["opentelemetry"] = None
try:
    import cupel.integrations.opentelemetry
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == (
        "MissingExtraError opentelemetry-api is not installed; install it with: pip install 'cupel-context[otel]'"
    )


def test_the_trace_in_the_documentation_is_up_to_date():
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "otel_trace_page.py"), "--check"], check=False)
    assert done.returncode == 0, "stale; run: python scripts/otel_trace_page.py"
