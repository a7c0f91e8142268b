"""Numbers that describe one selection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

from cupel._internal.checks import as_instance
from cupel._internal.relations import relation_of
from cupel.diagnostics import Deduplicated, InclusionReason, NegativeTokens, SelectionReport
from cupel.model import ContextBudget
from cupel.pipeline import effective_budget
from cupel.slicers import CountConstrainedKnapsackSlice, CountQuotaSlice, QuotaSlice, Slicer

if TYPE_CHECKING:
    from cupel.diagnostics import Certificate, ExcludedItem, IncludedItem
    from cupel.model import ContextKind


class QuotaMode(Enum):
    """The unit of a quota: shares of the target in percent, or items."""

    PERCENTAGE = "Percentage"
    COUNT = "Count"


@dataclass(frozen=True, slots=True)
class QuotaUtilization:
    """One quota and how far the selection used it; percentages are of the budget's target."""

    kind: ContextKind
    mode: QuotaMode
    require: float
    cap: float
    """Infinite for a count without a cap, of which nothing is used."""
    actual: float
    utilization: float


def budget_utilization(report: SelectionReport, budget: ContextBudget | int) -> float:
    """Return the selected tokens as a fraction of `max_tokens`; infinite if items are selected into an empty window.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> budget = ContextBudget(100, 80)
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("a", 40)], budget)
    >>> budget_utilization(report, budget)
    0.4
    """
    as_instance("report", report, SelectionReport)
    budget = ContextBudget.of(budget)
    selected = report.total_tokens
    if budget.max_tokens == 0:  # ruling 10.1
        return math.inf if selected else 0.0
    return selected / budget.max_tokens


def kind_diversity(report: SelectionReport) -> int:
    """Return the number of different kinds that were selected, ignoring case."""
    as_instance("report", report, SelectionReport)
    return len({entry.item.kind for entry in report.included})


def timestamp_coverage(report: SelectionReport) -> float:
    """Return the fraction of selected items that carry a timestamp; 0.0 when nothing was selected."""
    as_instance("report", report, SelectionReport)
    if not report.included:
        return 0.0
    return sum(entry.item.timestamp is not None for entry in report.included) / len(report.included)


def quota_utilization(report: SelectionReport, slicer: Slicer, budget: ContextBudget | int) -> list[QuotaUtilization]:
    """Return one row for each quota of the slicer, sorted by kind; empty for a slicer without quotas.

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
    actual = tokens / budget.target_tokens * 100.0 if budget.target_tokens else 0.0
    return QuotaUtilization(kind, QuotaMode.PERCENTAGE, require, cap, actual, _used(actual, cap))


def _count(report: SelectionReport, kind: ContextKind, require: int, cap_count: int | None) -> QuotaUtilization:
    actual = sum(entry.item.kind == kind for entry in report.included)
    cap = math.inf if cap_count is None else cap_count
    return QuotaUtilization(kind, QuotaMode.COUNT, require, cap, actual, _used(actual, cap))


def _used(actual: float, cap: float) -> float:
    return min(max(actual / cap, 0.0), 1.0) if cap else 0.0


_STEPS = 10_000
"""The steps of a certificate in a score of 1."""


@dataclass(frozen=True, slots=True)
class OptimalityGap:
    """A certificate: no choice of at most `capacity_tokens` tokens has a total score above `upper_bound`."""

    selected_score: float
    """Total score of the selected items without the pinned ones."""
    upper_bound: float
    """The best total that would be possible if the last item could be cut to fit."""
    capacity_tokens: int
    """The tokens open to unpinned items: the effective target, or the tokens used if they are more."""
    gap: float
    """How far the selection may be below the best one; never negative. Zero proves that it is the best."""
    ratio: float
    """Selected score over bound, between 0 and 1; 1 when the gap is zero."""


def optimality_gap(report: SelectionReport, budget: ContextBudget | int) -> OptimalityGap:
    """Compare a selection with the fractional (Dantzig) bound on its candidates.

    Candidates are the items the slicer could have chosen: pinned, negative and deduplicated items are not among them.
    Items with a score of zero, below zero or NaN never raise the bound; items without tokens raise it for free. Quotas
    and requirements are ignored by the bound, so the gap includes their cost; so are relations between items, but a
    form counts with the share of its score that it keeps. `budget` must be the report's own.

    A report with a `certificate` has a better bound, which is used instead: it keeps all rules, and like the value it
    counts scores times worth in steps of 0.0001.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem("a", 60, future_relevance_hint=0.9), ContextItem("b", 60, future_relevance_hint=0.8)]
    >>> budget = ContextBudget(90, 90)
    >>> found = optimality_gap(Pipeline(scorer=ReflexiveScorer()).dry_run(items, budget), budget)
    >>> round(found.upper_bound, 3), round(found.gap, 3)  # a whole, and half of b
    (1.3, 0.4)
    """
    as_instance("report", report, SelectionReport)
    budget = ContextBudget.of(budget)
    pinned_tokens = sum(e.item.tokens for e in report.included if e.reason is InclusionReason.PINNED)
    chosen = [e for e in report.included if e.reason is not InclusionReason.PINNED]
    passed = [e for e in report.excluded if not isinstance(e.reason, (Deduplicated, NegativeTokens))]
    target = effective_budget(budget, pinned_tokens).target_tokens
    capacity = max(target, sum(e.item.tokens for e in chosen))
    if report.certificate is not None:
        return _certified(report.certificate, capacity)
    candidates: list[IncludedItem | ExcludedItem] = [*chosen, *passed]
    values = [(max(0.0, _score(entry)), entry.item.tokens) for entry in candidates]
    bound = _fractional_bound(values, capacity) if target > 0 else Fraction(0)
    return _compare([_score(e) for e in chosen], bound, capacity)


def _fractional_bound(values: list[tuple[float, int]], capacity: int) -> Fraction | None:
    """Fill the capacity in order of density and cut the first item that does not fit; None if it is infinite.

    The order is that of rounded densities, which may put two almost equal items the wrong way round; so the bound is
    taken from the density at which the fill breaks off, which is one for every order: no item gains more than its
    worth beyond that density, and no token more than the density.
    """
    if any(worth == math.inf for worth, _ in values):
        return None
    costly = [(Fraction(worth), tokens) for worth, tokens in values if tokens and worth > 0]
    free = sum((Fraction(worth) for worth, tokens in values if not tokens), Fraction(0))
    costly.sort(key=lambda pair: float(pair[0] / pair[1]), reverse=True)
    remaining, density = capacity, Fraction(0)
    for worth, tokens in costly:
        if tokens >= remaining:
            density = worth / tokens
            break
        remaining -= tokens
    surplus = sum((max(Fraction(0), worth - density * tokens) for worth, tokens in costly), Fraction(0))
    return free + density * capacity + surplus


def _certified(certificate: Certificate, capacity: int) -> OptimalityGap:
    value, bound = Fraction(certificate.value, _STEPS), Fraction(certificate.bound, _STEPS)
    ratio = 1.0 if value == bound else float(value / bound)
    return OptimalityGap(float(value), _upwards(bound), capacity, _upwards(bound - value), ratio)


def _upwards(exact: Fraction) -> float:
    try:
        rounded = float(exact)
    except OverflowError:
        return math.inf
    return rounded if rounded >= exact else math.nextafter(rounded, math.inf)


def _compare(scores: list[float], bound: Fraction | None, capacity: int) -> OptimalityGap:
    """Compare exactly; only the reported figures are rounded, the bound and the gap upwards."""
    try:
        selected = math.fsum(scores)
    except (OverflowError, ValueError):  # sums beyond the floats, or inf and -inf together
        selected = math.inf
    if bound is None or not all(map(math.isfinite, scores)):
        upper = math.inf if bound is None else max(_upwards(bound), selected)
        gap = 0.0 if upper == selected else upper - selected
    else:
        total = sum(map(Fraction, scores), Fraction(0))
        upper, gap = _upwards(max(bound, total)), _upwards(max(bound - total, Fraction(0)))
    ratio = 1.0 if gap == 0.0 else max(0.0, selected / upper) if 0.0 < upper < math.inf else 0.0
    return OptimalityGap(selected, upper, capacity, gap, ratio)


def _score(entry: IncludedItem | ExcludedItem) -> float:
    """Return the share of an item's score that its form keeps; NaN counts as 0."""
    worth = relation_of(entry.item).worth
    score = entry.score * worth if worth else 0.0
    return 0.0 if math.isnan(score) else score
