"""Numbers that describe one selection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cupel._checks import as_instance
from cupel._ratios import quotient
from cupel.diagnostics import SelectionReport
from cupel.model import ContextBudget
from cupel.slicers import CountConstrainedKnapsackSlice, CountQuotaSlice, QuotaSlice, Slicer

if TYPE_CHECKING:
    from cupel.model import ContextKind


class QuotaMode(Enum):
    """What a quota counts: shares of the target in percent, or items."""

    PERCENTAGE = "Percentage"
    COUNT = "Count"


@dataclass(frozen=True, slots=True)
class QuotaUtilization:
    """One quota and how far the selection used it; percentages are of the budget's target."""

    kind: ContextKind
    mode: QuotaMode
    require: float
    cap: float
    actual: float
    utilization: float


def budget_utilization(report: SelectionReport, budget: ContextBudget | int) -> float:
    """The selected tokens as a fraction of `max_tokens`; infinite when something was selected into an empty window.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> budget = ContextBudget(100, 80)
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("a", 40)], budget)
    >>> budget_utilization(report, budget)
    0.4
    """
    as_instance("report", report, SelectionReport)
    budget = ContextBudget.of(budget)
    selected = sum(entry.item.tokens for entry in report.included)
    if budget.max_tokens == 0:  # ruling 10.1
        return math.inf if selected else 0.0
    return quotient(selected, budget.max_tokens)


def kind_diversity(report: SelectionReport) -> int:
    """How many different kinds were selected, whatever their case."""
    as_instance("report", report, SelectionReport)
    return len({entry.item.kind for entry in report.included})


def timestamp_coverage(report: SelectionReport) -> float:
    """The fraction of selected items that carry a timestamp; 0.0 when nothing was selected."""
    as_instance("report", report, SelectionReport)
    if not report.included:
        return 0.0
    return sum(entry.item.timestamp is not None for entry in report.included) / len(report.included)


def quota_utilization(report: SelectionReport, slicer: Slicer, budget: ContextBudget | int) -> list[QuotaUtilization]:
    """One row for each quota of the slicer, sorted by kind; empty for a slicer without quotas.

    Pinned items count, since they too take up their kind's share (ruling 10.3).

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer, QuotaEntry, QuotaSlice
    >>> slicer = QuotaSlice([QuotaEntry("Document", cap=50)])
    >>> budget = ContextBudget(100, 100)
    >>> items = [ContextItem("a", 40, kind="Document")]
    >>> report = Pipeline(scorer=RecencyScorer(), slicer=slicer).dry_run(items, budget)
    >>> [(str(row.kind), row.actual, row.utilization) for row in quota_utilization(report, slicer, budget)]
    [('Document', 40.0, 0.8)]
    """
    as_instance("report", report, SelectionReport)
    as_instance("slicer", slicer, Slicer)
    budget = ContextBudget.of(budget)
    match slicer:
        case QuotaSlice():
            rows = [_share(report, quota.kind, quota.require, quota.cap, budget) for quota in slicer.quotas]
        case CountQuotaSlice() | CountConstrainedKnapsackSlice():
            rows = [_count(report, entry.kind, entry.require_count, entry.cap_count) for entry in slicer.entries]
        case _:
            rows = []
    return sorted(rows, key=lambda row: row.kind.value)


def _share(
    report: SelectionReport, kind: ContextKind, require: float, cap: float, budget: ContextBudget
) -> QuotaUtilization:
    tokens = sum(entry.item.tokens for entry in report.included if entry.item.kind == kind)
    actual = quotient(tokens, budget.target_tokens) * 100.0 if budget.target_tokens else 0.0
    return QuotaUtilization(kind, QuotaMode.PERCENTAGE, require, cap, actual, _used(actual, cap))


def _count(report: SelectionReport, kind: ContextKind, require: int, cap: int) -> QuotaUtilization:
    actual = sum(entry.item.kind == kind for entry in report.included)
    return QuotaUtilization(kind, QuotaMode.COUNT, require, cap, actual, _used(actual, cap))


def _used(actual: float, cap: float) -> float:
    return min(max(actual / cap, 0.0), 1.0) if cap else 0.0
