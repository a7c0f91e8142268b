"""Numbers about one selection."""

import math
from datetime import UTC, datetime

import pytest

from cupel import (
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    OverflowStrategy,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
)
from cupel.analytics import (
    QuotaMode,
    budget_utilization,
    kind_diversity,
    optimality_gap,
    quota_utilization,
    timestamp_coverage,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ITEMS = [
    ContextItem("a", 30, kind="Document", timestamp=NOW),
    ContextItem("b", 10, kind="DOCUMENT"),
    ContextItem("c", 20, kind="note", pinned=True),
    ContextItem("d", 900, kind="Memory"),
]


def report(items, budget, slicer=None, **options):
    return Pipeline(scorer=ReflexiveScorer(), slicer=slicer or GreedySlice(), **options).dry_run(items, budget)


def test_utilization_is_a_fraction_of_the_window():
    budget = ContextBudget(240, 100)
    assert budget_utilization(report(ITEMS, budget), budget) == 60 / 240


def test_utilization_of_an_empty_window():
    """Ruling 10.1."""
    empty = ContextBudget(0, 0)
    full = report(ITEMS, ContextBudget(240, 100))
    assert budget_utilization(report([], empty), empty) == 0.0
    assert budget_utilization(full, empty) == math.inf


def test_kinds_are_counted_whatever_their_case():
    assert kind_diversity(report(ITEMS, ContextBudget(240, 100))) == 2
    assert kind_diversity(report([], ContextBudget(240, 100))) == 0


def test_timestamps():
    assert timestamp_coverage(report(ITEMS, ContextBudget(240, 100))) == 1 / 3
    assert timestamp_coverage(report([], ContextBudget(240, 100))) == 0.0


def rows(items, slicer, budget, **options):
    found = quota_utilization(report(items, budget, slicer, **options), slicer, budget)
    return [(str(row.kind), row.mode, row.require, row.cap, row.actual, row.utilization) for row in found]


def test_shares_are_of_the_target_and_sorted_by_spelling():
    entries = [QuotaEntry("note", cap=10), QuotaEntry("document", require=50), QuotaEntry("Zebra", cap=0)]
    assert rows(ITEMS, QuotaSlice(entries), ContextBudget(200, 100)) == [
        ("Zebra", QuotaMode.PERCENTAGE, 0.0, 0.0, 0.0, 0.0),
        ("document", QuotaMode.PERCENTAGE, 50.0, 100.0, 40.0, 0.4),
        ("note", QuotaMode.PERCENTAGE, 0.0, 10.0, 20.0, 1.0),  # pinned items count, and utilization stops at 1
    ]


@pytest.mark.parametrize("slicer", [CountQuotaSlice, CountConstrainedKnapsackSlice])
def test_counts(slicer):
    entries = [CountQuotaEntry("Note", 0, 0), CountQuotaEntry("Document", 1, 4)]
    assert rows(ITEMS, slicer(entries), ContextBudget(1000, 1000)) == [
        (
            "Document",
            QuotaMode.COUNT,
            1,
            4,
            1 if slicer is not CountQuotaSlice else 2,
            0.25 if slicer is not CountQuotaSlice else 0.5,
        ),
        ("Note", QuotaMode.COUNT, 0, 0, 1, 0.0),
    ]


@pytest.mark.parametrize("slicer", [CountQuotaSlice, CountConstrainedKnapsackSlice])
def test_of_a_count_without_a_cap_nothing_is_used(slicer):
    (row,) = rows(ITEMS, slicer([CountQuotaEntry("Note", 1)]), ContextBudget(1000, 1000))
    assert row[2:] == (1, math.inf, 1, 0.0)


def test_a_target_of_zero_and_slicers_without_quotas():
    nothing = ContextBudget(100, 0)
    entries = [QuotaEntry("note", cap=10)]
    assert rows(ITEMS[2:3], QuotaSlice(entries), nothing, overflow=OverflowStrategy.PROCEED) == [
        ("note", QuotaMode.PERCENTAGE, 0.0, 10.0, 0.0, 0.0)
    ]
    assert rows(ITEMS, GreedySlice(), ContextBudget(240, 100)) == []


def test_an_integer_is_accepted_as_a_budget():
    slicer = QuotaSlice([QuotaEntry("Document", cap=50)])
    report = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run(ITEMS, 100)
    budget = ContextBudget(100, 100)
    assert budget_utilization(report, 100) == budget_utilization(report, budget)
    assert quota_utilization(report, slicer, 100) == quota_utilization(report, slicer, budget)
    assert optimality_gap(report, 100) == optimality_gap(report, budget)
