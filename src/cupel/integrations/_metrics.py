"""What is measured of runs, and who measures."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics

from cupel._version import __version__
from cupel.analytics import budget_utilization
from cupel.diagnostics import KNOWN_REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.metrics import Histogram, Meter, MeterProvider

    from cupel.diagnostics import ExclusionReason, SelectionReport
    from cupel.model import ContextBudget

SCOPE_NAME: Final = "cupel"
"""The name of the instrumentation scope of all spans and metrics (ruling 8.1)."""
_UTILIZATION_BUCKETS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
_SECONDS_BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_TOKEN_BUCKETS: Final = (256, 1024, 4096, 16384, 65536, 131072, 262144, 524288, 1048576)


def meter_of(provider: MeterProvider | None) -> Meter:
    """Return the meter of a provider, the global one for None."""
    return metrics.get_meter(SCOPE_NAME, __version__, provider)


def reason_name(reason: ExclusionReason) -> str:
    """Return the canonical name of a reason."""
    # A custom strategy's own reason has no canonical name (ruling 8.6).
    return reason.name if reason.name in KNOWN_REASONS else "Unknown"


def is_read(provider: MeterProvider | None) -> bool:
    """Return whether an SDK is there to read measurements: the providers of the API itself forget everything."""
    provider = provider if provider is not None else metrics.get_meter_provider()
    return not type(provider).__module__.startswith("opentelemetry.metrics")


class RunMetrics:
    """What is measured of each run."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = meter_of(provider)

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
        for reason, count in Counter(reason_name(entry.reason) for entry in report.excluded).items():
            self.excluded.add(count, {"cupel.exclusion.reason": reason})
        self.tokens.record(sum(entry.item.tokens for entry in report.included))
        utilization = budget_utilization(report, budget)
        if isfinite(utilization):  # a window of 0 with something in it has none (ruling 10.1)
            self.utilization.record(utilization)
        self.duration.record(seconds)
