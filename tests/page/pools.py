"""Pools and slicers on which the page is compared with the library."""

import random
from datetime import UTC, datetime, timedelta

from cupel import (
    CompositeScorer,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    PriorityScorer,
    QuotaEntry,
    QuotaSlice,
    RecencyScorer,
    ReflexiveScorer,
    ScarcityBehavior,
)

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
