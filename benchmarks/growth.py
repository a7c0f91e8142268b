"""How the cost of each strategy grows: the time for 100,000 items over the time for 1,000."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from benchmarks.measure import PASSES, garbage_collection, timed
from benchmarks.pools import FIRST, budget_for, mixed_pool, timeline
from cupel import (
    CompositeScorer,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    DecayScorer,
    Exponential,
    FixedClock,
    FrequencyScorer,
    GreedySlice,
    KindScorer,
    MetadataKeyScorer,
    MetadataTrustScorer,
    PriorityScorer,
    QuotaEntry,
    QuotaSlice,
    RecencyScorer,
    ReflexiveScorer,
    ScaledScorer,
    Scorer,
    Slicer,
    StreamSlice,
    TagScorer,
)
from cupel.model import Candidates, descending

SCORERS: tuple[Scorer, ...] = (
    RecencyScorer(),
    PriorityScorer(),
    ReflexiveScorer(),
    KindScorer(),
    TagScorer({"tag 1": 1, "tag 2": 2}),
    FrequencyScorer(),
    MetadataTrustScorer(),
    MetadataKeyScorer("cupel:priority", "high", 1.5),
    DecayScorer(FixedClock(FIRST + timedelta(days=200)), Exponential(timedelta(days=7))),
    ScaledScorer(RecencyScorer()),
    CompositeScorer([(RecencyScorer(), 2), (PriorityScorer(), 1), (KindScorer(), 1)]),
)
SLICERS: tuple[Slicer, ...] = (
    GreedySlice(),
    StreamSlice(),
    QuotaSlice([QuotaEntry("Document", 20, 50), QuotaEntry("ToolOutput", 10, 40)]),
    CountQuotaSlice([CountQuotaEntry("Document", 2, 50), CountQuotaEntry("ToolOutput", 1, 20)]),
)


def measure_growth(small: int = 1_000, large: int = 100_000, *, seconds: float = 0.5) -> list[dict[str, Any]]:
    """Time every scorer's pass and every slicer's choice at both sizes; the knapsack has a table of its own."""
    mixed = {size: mixed_pool(size, tags=5) for size in (small, large)}
    in_time = {size: timeline(size) for size in (small, large)}
    measured = [(type(strategy).__name__, "", strategy, mixed) for strategy in (*SCORERS, *SLICERS)]
    measured.insert(1, ("RecencyScorer", "items in time order", RecencyScorer(), in_time))
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    with garbage_collection(enabled=False):
        for _ in range(PASSES):
            for name, note, strategy, pools in measured:
                best = [timed(_work(strategy, pool), seconds=seconds / PASSES).best for pool in pools.values()]
                row = rows.setdefault(
                    (name, note), {"strategy": name, "note": note, "items": [small, large], "best": best}
                )
                row["best"] = list(map(min, row["best"], best))
    return [{**row, "growth": round(row["best"][1] / row["best"][0], 1)} for row in rows.values()]


def _work(strategy: Scorer | Slicer, pool: list[ContextItem]) -> Callable[[], object]:
    if isinstance(strategy, Scorer):
        return lambda: strategy.score_all(pool)
    scores = ReflexiveScorer().score_all(pool)
    candidates = Candidates(pool, scores, [item.tokens for item in pool]).at(descending(scores))
    budget = budget_for(len(pool))
    return lambda: strategy.fit(candidates)(budget)
