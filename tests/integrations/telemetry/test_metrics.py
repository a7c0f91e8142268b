"""Metrics as the real SDK exports them."""

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from cupel import ContextBudget, ContextItem, OverflowStrategy, Pipeline, ReflexiveScorer, Slicer, __version__
from cupel.integrations.opentelemetry import OpenTelemetryTraceCollector
from tests.integrations.telemetry.pools import BUDGET, ITEMS


def test_an_unsampled_run_is_measured_all_the_same(exporter):
    reader = InMemoryMetricReader()
    collector = OpenTelemetryTraceCollector(
        tracer_provider=TracerProvider(sampler=ALWAYS_OFF),
        metrics=True,
        meter_provider=MeterProvider(metric_readers=[reader]),
    )
    Pipeline(scorer=ReflexiveScorer()).run(ITEMS, BUDGET, trace=collector)
    assert exporter.get_finished_spans() == ()
    assert reader.get_metrics_data() is not None


def test_metrics_are_off_by_default_and_count_runs_when_on(provider):
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader])
    pipeline = Pipeline(scorer=ReflexiveScorer())
    pipeline.run(ITEMS, BUDGET, trace=OpenTelemetryTraceCollector(tracer_provider=provider))
    assert reader.get_metrics_data() is None
    collector = OpenTelemetryTraceCollector(tracer_provider=provider, metrics=True, meter_provider=meters)
    for _ in range(2):
        pipeline.run(ITEMS, BUDGET, trace=collector)
    (resource,) = reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("cupel", __version__)
    measured = {metric.name: (metric.unit, metric.data.data_points) for metric in scope.metrics}
    assert {name: unit for name, (unit, _) in measured.items()} == {
        "cupel.items.selected": "{item}",
        "cupel.items.excluded": "{item}",
        "cupel.tokens.selected": "{token}",
        "cupel.budget.utilization": "1",
        "cupel.run.duration": "s",
    }
    (selected,) = measured["cupel.items.selected"][1]
    assert (selected.value, dict(selected.attributes)) == (6, {})
    excluded = {
        point.attributes["cupel.exclusion.reason"]: point.value for point in measured["cupel.items.excluded"][1]
    }
    assert excluded == {"NegativeTokens": 2, "Deduplicated": 2, "BudgetExceeded": 2}
    (tokens,), (utilization,), (duration,) = (
        measured[name][1] for name in ("cupel.tokens.selected", "cupel.budget.utilization", "cupel.run.duration")
    )
    assert (tokens.count, tokens.sum) == (2, 180)
    assert (utilization.count, utilization.sum) == (2, pytest.approx(0.9))
    assert duration.count == 2
    assert 0 < duration.sum < 10


@pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")
def test_an_infinite_utilisation_is_not_recorded(provider):
    reader = InMemoryMetricReader()
    collector = OpenTelemetryTraceCollector(
        tracer_provider=provider, metrics=True, meter_provider=MeterProvider(metric_readers=[reader])
    )
    items = [ContextItem("t", 5, kind="Tool")]
    Pipeline(
        scorer=ReflexiveScorer(),
        slicer=AlwaysEverything(),
        overflow=OverflowStrategy.PROCEED,
    ).run(items, ContextBudget(0, 0), trace=collector)
    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    assert "cupel.budget.utilization" not in {metric.name for metric in scope.metrics}


class AlwaysEverything(Slicer):
    def slice(self, scored, budget):
        return [entry.item for entry in scored]


def test_the_cost_of_a_turn_is_on_the_current_span_and_in_counters() -> None:
    from cupel.integrations.opentelemetry import TurnRecorder
    from cupel.messages import MessageSession

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    reader = InMemoryMetricReader()
    recorder = TurnRecorder(meter_provider=MeterProvider([reader]))
    session = MessageSession[object](1000, provider="openai")
    with provider.get_tracer("test").start_as_current_span("answer"):
        turn = session.fit([{"role": "user", "content": "Hello!"}])
        recorder.record(turn)
    with provider.get_tracer("test").start_as_current_span("answer"):
        settled = session.observe({"prompt_tokens": 40, "prompt_tokens_details": {"cached_tokens": 16}})
        recorder.record(turn, settled)
    first, second = (dict(span.attributes or {}) for span in exporter.get_finished_spans())
    assert first["cupel.bill.sent"] == turn.bill.sent
    assert first["cupel.bill.settled"] is False
    assert (second["cupel.bill.sent"], second["cupel.bill.read"], second["cupel.turn.action"]) == (40, 16, "append")
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        (metric.name, *dict(point.attributes or {}).values()): getattr(point, "value", None)
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    assert points["cupel.session.turns", "append"] == 2
    assert points["cupel.session.tokens", "read"] == 16
    assert points["cupel.session.tokens", "new"] == turn.bill.new + 24
    TurnRecorder().record(turn)  # nobody listens


@pytest.mark.parametrize(("budget", "compacted"), [(10_000, None), (300, True)])
def test_a_request_that_shows_less_than_its_conversation_says_so(budget: int, compacted: bool | None) -> None:
    from cupel.integrations.opentelemetry import TurnRecorder
    from cupel.messages import MessageSession

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    history = [{"role": role, "content": f"{role} {n}. " * 20} for n in range(9) for role in ("user", "assistant")]
    session = MessageSession[object](budget, provider="openai")
    with provider.get_tracer("test").start_as_current_span("chat"):
        turn = session.fit([*history, {"role": "user", "content": "Go on."}])
        TurnRecorder().record(turn)
    (span,) = exporter.get_finished_spans()
    assert bool(turn.omitted or turn.shortened) is bool(compacted)
    assert (span.attributes or {}).get("gen_ai.conversation.compacted") is compacted
