"""Telemetry that nobody collects, or that fails, disturbs no run."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, StaticSampler

from cupel import Pipeline, ReflexiveScorer
from cupel.integrations.opentelemetry import CupelVerbosity, OpenTelemetryTraceCollector
from tests.integrations.telemetry.pools import BUDGET, ITEMS


def test_without_an_sdk_a_run_is_not_disturbed():
    selected = Pipeline(scorer=ReflexiveScorer()).run(ITEMS, BUDGET, trace=OpenTelemetryTraceCollector(metrics=True))
    assert len(selected) == 3


@pytest.mark.parametrize("verbosity", CupelVerbosity)
def test_a_run_that_nobody_would_see_is_not_observed(verbosity, exporter):
    unsampled = TracerProvider(sampler=ALWAYS_OFF)
    unsampled.add_span_processor(SimpleSpanProcessor(exporter))
    for provider in (None, trace.NoOpTracerProvider(), unsampled):
        for metrics in (False, True):
            collector = OpenTelemetryTraceCollector(verbosity, tracer_provider=provider, metrics=metrics)
            assert not collector.for_run(BUDGET).is_enabled
    assert len(Pipeline(scorer=ReflexiveScorer()).run(ITEMS, BUDGET, trace=collector)) == 3
    assert exporter.get_finished_spans() == ()


def test_an_unsampled_parent_switches_observation_off(exporter, provider):
    collector = OpenTelemetryTraceCollector(tracer_provider=provider)
    outside = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(trace.TraceFlags.DEFAULT))
    with trace.use_span(trace.NonRecordingSpan(outside)):
        assert not collector.for_run(BUDGET).is_enabled
    assert collector.for_run(BUDGET).is_enabled


def test_the_sampler_is_asked_once_for_the_run_and_knows_its_budget():
    asked = []

    class Sampler(StaticSampler):
        def should_sample(self, parent_context, trace_id, name, kind=None, attributes=None, links=None, **rest):
            asked.append((name, attributes))
            return super().should_sample(parent_context, trace_id, name, kind, attributes, links, **rest)

    collector = OpenTelemetryTraceCollector(tracer_provider=TracerProvider(sampler=Sampler(Decision.DROP)))
    Pipeline(scorer=ReflexiveScorer()).run(ITEMS, BUDGET, trace=collector)
    assert asked == [("cupel.pipeline", {"cupel.budget.max_tokens": 200, "cupel.verbosity": "StageOnly"})]


class Failing(SpanProcessor):
    def __init__(self, hook):
        self.hook = hook
        self.calls = 0

    def on_start(self, span, parent_context=None):
        self._act("on_start")

    def on_end(self, span):
        self._act("on_end")

    def _act(self, hook):
        if hook == self.hook:
            self.calls += 1
            raise RuntimeError("the collector is down")


@pytest.mark.parametrize("hook", ["on_start", "on_end"])
@pytest.mark.parametrize("metrics", [False, True])
def test_a_processor_that_raises_fails_no_run(hook, metrics, caplog):
    processor, reader = Failing(hook), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(processor)
    meters = {"meter_provider": MeterProvider(metric_readers=[reader])} if metrics else {}
    collector = OpenTelemetryTraceCollector(CupelVerbosity.FULL, tracer_provider=provider, metrics=metrics, **meters)
    assert len(Pipeline(scorer=ReflexiveScorer()).run(ITEMS, BUDGET, trace=collector)) == 3
    assert processor.calls > 0
    assert "telemetry of a run failed" in caplog.text
    assert "the collector is down" in caplog.text
    assert (reader.get_metrics_data() is not None) == metrics


def test_an_exporter_or_sampler_that_raises_fails_no_run():
    class Exporter(InMemorySpanExporter):
        def export(self, spans):
            raise RuntimeError("no route to host")

    class Sampler(StaticSampler):
        def should_sample(self, *args, **kwargs):
            raise RuntimeError("no idea")

    exporting = TracerProvider()
    exporting.add_span_processor(SimpleSpanProcessor(Exporter()))
    for provider in (exporting, TracerProvider(sampler=Sampler(Decision.DROP))):
        collector = OpenTelemetryTraceCollector(tracer_provider=provider)
        assert len(Pipeline(scorer=ReflexiveScorer()).run(ITEMS, BUDGET, trace=collector)) == 3
