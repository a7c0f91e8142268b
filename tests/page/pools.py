"""Pools and policies on which the page's scripts are compared with the library."""

import random
from datetime import UTC, datetime, timedelta

from cupel import (
    CompositeScorer,
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    Pipeline,
    PriorityScorer,
    QuotaEntry,
    QuotaSlice,
    RecencyScorer,
    ReflexiveScorer,
    ScarcityBehavior,
)
from cupel.errors import SelectionError

SCORER = CompositeScorer([(ReflexiveScorer(), 2.0), (RecencyScorer(), 1.0), (PriorityScorer(), 1.0)])
COUNTS = [CountQuotaEntry("ToolOutput", 2, 4), CountQuotaEntry("memory", 1, 2), CountQuotaEntry("Absent", 0, 3)]
QUOTAS = [QuotaEntry("Message", require=29, cap=57), QuotaEntry("document", cap=33.3), QuotaEntry("Absent", require=7)]
SLICERS = {
    "greedy": GreedySlice(),
    "knapsack": KnapsackSlice(10),
    "knapsack with a small table": KnapsackSlice(7, max_cells=4_000),
    "quota": QuotaSlice(QUOTAS),
    "quota of knapsacks": QuotaSlice(QUOTAS, KnapsackSlice(5)),
    "count quota": CountQuotaSlice(COUNTS),
    "count quota of quotas": CountQuotaSlice(COUNTS, QuotaSlice(QUOTAS)),
    "count knapsack": CountConstrainedKnapsackSlice(COUNTS, KnapsackSlice(5)),
    "scarce": CountQuotaSlice([CountQuotaEntry("Absent", 2, 2)], scarcity=ScarcityBehavior.THROW),
}


def random_items(seed: int, count: int = 60) -> list[ContextItem]:
    """Items that meet every rule: ties, duplicates, no tokens, negative tokens, pins, other spellings of kinds."""
    rng = random.Random(seed)
    start = datetime(2026, 3, 12, tzinfo=UTC)
    return [
        ContextItem(
            f"item {rng.randrange(count) if rng.random() < 0.2 else number}",
            rng.choice([-3, 0]) if rng.random() < 0.08 else rng.randrange(1, 60),
            kind=rng.choice(["Message", "message", "Document", "ToolOutput", "Memory"]),
            priority=rng.choice([None, 1, 2, 3]),
            timestamp=None if rng.random() < 0.2 else start + timedelta(minutes=rng.randrange(40)),
            future_relevance_hint=rng.choice([None, 0.0, 0.25, 0.5, 0.57, 1.0]),
            pinned=rng.random() < 0.06,
        )
        for number in range(count)
    ]


def answer_of_library(policy: Pipeline, items, budget: ContextBudget):
    """What the library says, in positions."""
    positions = {id(item): position for position, item in enumerate(items)}
    try:
        report = policy.dry_run(items, budget)
    except SelectionError as error:
        return type(error).__name__
    placed = [positions[id(entry.item)] for entry in report.included]
    excluded = [[positions[id(entry.item)], entry.reason.name] for entry in report.excluded]
    return {"placed": placed, "excluded": excluded, "tokens": sum(items[position].tokens for position in placed)}
