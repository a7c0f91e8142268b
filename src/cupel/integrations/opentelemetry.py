"""Selections as OpenTelemetry traces and metrics; needs `cupel-context[otel]`, and an SDK to export them.

A run becomes a span `cupel.pipeline` with five children, `cupel.stage.classify` to `cupel.stage.place`, with the times
of the stages. Its parent is the caller's current span. A run that raises has no span, and an error in telemetry fails
no run. Neither the content nor the metadata of an item is ever recorded.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cupel._internal.checks import as_instance
from cupel._version import __version__
from cupel.analytics import budget_utilization
from cupel.diagnostics import KNOWN_REASONS, NullTraceCollector, PipelineStage, TraceCollector, TraceDetailLevel
from cupel.errors import ConfigurationError, MissingExtraError

try:
    from opentelemetry import metrics, trace
except ImportError:
    raise MissingExtraError("opentelemetry-api", "otel") from None

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, Meter, MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

    from cupel.diagnostics import ExclusionReason, SelectionReport, StageSnapshot
    from cupel.messages import Bill, Turn
    from cupel.model import ContextBudget

__all__ = ["SCOPE_NAME", "CupelVerbosity", "OpenTelemetryTraceCollector", "TurnRecorder"]

SCOPE_NAME: Final = "cupel"
"""The name of the instrumentation scope of all spans and metrics (ruling 8.1)."""
_UTILIZATION_BUCKETS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
_SECONDS_BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_TOKEN_BUCKETS: Final = (256, 1024, 4096, 16384, 65536, 131072, 262144, 524288, 1048576)
_NANOSECONDS: Final = 1e9
_COMPACTED: Final = "gen_ai.conversation.compacted"
"""OpenTelemetry's attribute for a request that shows less than its conversation; it is true or absent, never false."""
_BILL: Final = ("sent", "read", "rewritten", "new", "price", "settled")
_log = logging.getLogger("cupel")


def _meter_of(provider: MeterProvider | None) -> Meter:
    """Return the meter of a provider, the global one for None."""
    return metrics.get_meter(SCOPE_NAME, __version__, provider)


def _reason_name(reason: ExclusionReason) -> str:
    """Return the canonical name of a reason."""
    # A custom strategy's own reason has no canonical name (ruling 8.6).
    return reason.name if reason.name in KNOWN_REASONS else "Unknown"


def _is_read(provider: MeterProvider | None) -> bool:
    """Return whether an SDK reads measurements: the providers of the API itself drop them."""
    provider = provider if provider is not None else metrics.get_meter_provider()
    return not type(provider).__module__.startswith("opentelemetry.metrics")


class _RunMetrics:
    """The instruments of a run."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = _meter_of(provider)

        def histogram(name: str, unit: str, description: str, buckets: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

        share = "Tokens of a selection as a fraction of the window"
        self.selected = meter.create_counter("cupel.items.selected", "{item}", "Items selected")
        self.excluded = meter.create_counter("cupel.items.excluded", "{item}", "Items left out, by reason")
        self.tokens = histogram("cupel.tokens.selected", "{token}", "Tokens of a selection", _TOKEN_BUCKETS)
        self.utilization = histogram("cupel.budget.utilization", "1", share, _UTILIZATION_BUCKETS)
        self.duration = histogram("cupel.run.duration", "s", "Duration of a run", _SECONDS_BUCKETS)

    def record(self, report: SelectionReport, budget: ContextBudget, seconds: float) -> None:
        """Record one run."""
        self.selected.add(len(report.included))
        for reason, count in Counter(_reason_name(entry.reason) for entry in report.excluded).items():
            self.excluded.add(count, {"cupel.exclusion.reason": reason})
        self.tokens.record(report.total_tokens)
        utilization = budget_utilization(report, budget)
        if isfinite(utilization):  # a window of 0 with something in it has none (ruling 10.1)
            self.utilization.record(utilization)
        self.duration.record(seconds)


class CupelVerbosity(Enum):
    """How detailed a trace is; each level includes the ones before it."""

    STAGE_ONLY = "StageOnly"
    """Six spans and their counts: for production."""
    STAGE_AND_EXCLUSIONS = "StageAndExclusions"
    """Also an event for each item left out, on the stage that left it out: for staging."""
    FULL = "Full"
    """Also an event for each selected item: for development."""

    @property
    def exclusions(self) -> bool:
        """Whether items left out are recorded."""
        return self is not CupelVerbosity.STAGE_ONLY


class OpenTelemetryTraceCollector(TraceCollector):
    """Turns each run it is passed to into spans and, with `metrics=True`, measurements.

    It holds no state of a run: one collector can serve any number of pipelines and threads at once. Without a `tracer`
    or `tracer_provider` the global provider is used, also one that is set later.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> collector = OpenTelemetryTraceCollector(CupelVerbosity.STAGE_AND_EXCLUSIONS)
    >>> items = Pipeline(scorer=RecencyScorer()).run([ContextItem("hi", 1)], ContextBudget(10, 10), trace=collector)
    """

    detail_level: ClassVar = TraceDetailLevel.STAGE
    """Spans are made from the finished run, so events of single items are not needed."""

    def __init__(
        self,
        verbosity: CupelVerbosity = CupelVerbosity.STAGE_ONLY,
        *,
        tracer: Tracer | None = None,
        tracer_provider: TracerProvider | None = None,
        metrics: bool = False,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        if tracer is not None and tracer_provider is not None:
            raise ConfigurationError("pass a tracer or a tracer_provider, not both")
        if meter_provider is not None and not metrics:
            raise ConfigurationError("meter_provider is only used with metrics=True")
        self.verbosity = as_instance("verbosity", verbosity, CupelVerbosity)
        self._tracer = tracer if tracer is not None else trace.get_tracer(SCOPE_NAME, __version__, tracer_provider)
        self._provider = meter_provider
        self._metrics = _RunMetrics(meter_provider) if metrics else None

    def for_run(self, budget: ContextBudget) -> TraceCollector:
        """Start the span of a run; without a recorder or a reader of measurements, the run is not observed."""
        return self._start(budget, None)

    def on_pipeline_completed(
        self, report: SelectionReport, budget: ContextBudget, stages: tuple[StageSnapshot, ...]
    ) -> None:
        """Record a run that another collector observed."""
        self._start(budget, stages[0].start_ns).on_pipeline_completed(report, budget, stages)

    def _start(self, budget: ContextBudget, start_ns: int | None) -> TraceCollector:
        measured = self._metrics if self._metrics is not None and _is_read(self._provider) else None
        root: trace.Span = trace.INVALID_SPAN
        with _never_failing():
            root = self._tracer.start_span(
                "cupel.pipeline",
                attributes={"cupel.budget.max_tokens": budget.max_tokens, "cupel.verbosity": self.verbosity.value},
                start_time=start_ns,
            )
        if not root.is_recording() and measured is None:
            return NullTraceCollector()
        return _RunSpans(self.verbosity, self._tracer, root, measured)


@dataclass(frozen=True)
class _RunSpans(TraceCollector):
    """One observed run. Its span starts with it, because only then the sampler decides whether to record it."""

    verbosity: CupelVerbosity
    tracer: Tracer
    root: trace.Span
    metrics: _RunMetrics | None
    detail_level: ClassVar = OpenTelemetryTraceCollector.detail_level

    def on_pipeline_completed(
        self, report: SelectionReport, budget: ContextBudget, stages: tuple[StageSnapshot, ...]
    ) -> None:
        """Make the spans of a finished run, and record its measurements."""
        if self.root.is_recording():
            with _never_failing():
                self._make_spans(report, stages)
        if self.metrics is not None:
            seconds = (stages[-1].end_ns - stages[0].start_ns) / _NANOSECONDS
            with _never_failing():
                self.metrics.record(report, budget, seconds)

    def _make_spans(self, report: SelectionReport, stages: tuple[StageSnapshot, ...]) -> None:
        parent = trace.set_span_in_context(self.root)
        self.root.set_attribute("cupel.tokens.selected", report.total_tokens)
        try:
            for stage in stages:
                self._stage_span(stage, report, parent)
        finally:
            self.root.end(stages[-1].end_ns)

    def _stage_span(self, stage: StageSnapshot, report: SelectionReport, parent: Context) -> None:
        name = stage.stage.value.lower()
        attributes: dict[str, str | int] = {
            "cupel.stage.name": name,
            "cupel.stage.item_count_in": stage.item_count_in,
            "cupel.stage.item_count_out": stage.item_count_out,
        }
        if stage.excluded and self.verbosity.exclusions:
            attributes["cupel.exclusion.count"] = len(stage.excluded)
        span = self.tracer.start_span(f"cupel.stage.{name}", parent, attributes=attributes, start_time=stage.start_ns)
        if span.is_recording():
            if self.verbosity.exclusions:
                _add_exclusions(span, stage)
            if self.verbosity is CupelVerbosity.FULL and stage.stage is PipelineStage.PLACE:
                _add_inclusions(span, report, stage.end_ns)
        span.end(stage.end_ns)


class TurnRecorder:
    """Records the turns of sessions: the bill as attributes of the current span and as counters, changes as events.

    An event `cupel.session.evicted`, `.shortened`, `.restored` or `.recalled` gives the tokens and the positions in the
    history, never a content. A request that omits or shortens messages has OpenTelemetry's own attribute
    `gen_ai.conversation.compacted` as well. Without a recording span or an SDK that reads the counters, a turn costs
    nothing. One recorder serves all sessions and threads.

    >>> from cupel.messages import MessageSession
    >>> session, recorder = MessageSession(1000), TurnRecorder()
    >>> recorder.record(session.fit([{"role": "user", "content": "Hello!"}]))
    """

    def __init__(self, *, meter_provider: MeterProvider | None = None) -> None:
        self._provider = meter_provider
        meter = _meter_of(meter_provider)
        self._turns = meter.create_counter("cupel.session.turns", "{turn}", "Requests, by action")
        self._tokens = meter.create_counter("cupel.session.tokens", "{token}", "Tokens sent: read, rewritten and new")
        self._price = meter.create_counter("cupel.session.price", "{token}", "Their price, in uncached input tokens")

    def record(self, turn: Turn[Any], settled: Bill | None = None) -> None:
        """Record a turn; `settled` is the bill that `observe` returned for it, in place of the estimate."""
        bill = turn.bill if settled is None else settled
        span = trace.get_current_span()
        with _never_failing():
            if span.is_recording():
                numbers = {f"cupel.bill.{name}": getattr(bill, name) for name in _BILL}
                numbers |= {"cupel.turn.omitted": turn.omitted, "cupel.turn.shortened": len(turn.shortened)}
                if turn.omitted or turn.shortened:
                    numbers[_COMPACTED] = True
                span.set_attributes({"cupel.turn.action": turn.action, **numbers})
                for change in turn.changes:
                    about: dict[str, Any] = {
                        "cupel.change.tokens": change.tokens,
                        "cupel.change.positions": change.positions,
                    }
                    span.add_event(f"cupel.session.{change.what}", about)
            if _is_read(self._provider):
                self._turns.add(1, {"cupel.turn.action": turn.action})
                for part in ("read", "rewritten", "new"):
                    self._tokens.add(getattr(bill, part), {"cupel.bill.part": part})
                self._price.add(bill.price)


@contextmanager
def _never_failing() -> Generator[None]:
    """Log an error of a sampler, processor or reader instead of failing the selection."""
    try:
        yield
    except Exception:  # noqa: BLE001  (the application brings the code that fails here)
        _log.exception("telemetry of a run failed; the run itself did not")


def _add_exclusions(span: trace.Span, stage: StageSnapshot) -> None:
    for entry in stage.excluded:
        attributes: dict[str, str | int] = {
            "cupel.exclusion.reason": _reason_name(entry.reason),
            "cupel.exclusion.item_kind": str(entry.item.kind),
            "cupel.exclusion.item_tokens": entry.item.tokens,
        }
        span.add_event("cupel.exclusion", attributes, stage.end_ns)


def _add_inclusions(span: trace.Span, report: SelectionReport, end_ns: int) -> None:
    for entry in report.included:
        attributes: dict[str, str | int | float] = {
            "cupel.item.kind": str(entry.item.kind),
            "cupel.item.tokens": entry.item.tokens,
            "cupel.item.score": float(entry.score),
        }
        span.add_event("cupel.item.included", attributes, end_ns)
