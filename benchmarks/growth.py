"""How the cost of each strategy grows: the time for 100,000 items over the time for 1,000."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any

from benchmarks.measure import PASSES, garbage_collection, timed
from benchmarks.pools import FIRST, budget_for, mixed_pool, timeline
from cupel import (
    BestFirstSlice,
    CompositeScorer,
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    DecayScorer,
    EmbeddingScorer,
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
    RelevanceScorer,
    ReuseScorer,
    ScaledScorer,
    Scorer,
    Slicer,
    StreamSlice,
    TagScorer,
)
from cupel._internal.columns import Candidates, descending

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
    RelevanceScorer(neighbours=0.5, stem=False, query="item 7"),  # indexed by the first pass
    ReuseScorer(),
    EmbeddingScorer(lambda texts: [[len(text), 1.0] for text in texts], query="item 7"),
    ScaledScorer(RecencyScorer()),
    CompositeScorer([(RecencyScorer(), 2), (PriorityScorer(), 1), (KindScorer(), 1)]),
)
SLICERS: tuple[Slicer, ...] = (
    GreedySlice(),
    BestFirstSlice(),
    StreamSlice(),
    QuotaSlice([QuotaEntry("Document", 20, 50), QuotaEntry("ToolOutput", 10, 40)]),
    CountQuotaSlice([CountQuotaEntry("Document", 2, 50), CountQuotaEntry("ToolOutput", 1, 20)]),
)


def measure_growth(small: int = 1_000, large: int = 100_000, *, seconds: float = 0.5) -> list[dict[str, Any]]:
    """Time every scorer's pass and every slicer's choice at both sizes; the knapsack has a table of its own."""
    mixed = {size: mixed_pool(size, tags=5) for size in (small, large)}
    in_time = {size: timeline(size) for size in (small, large)}
    work: dict[tuple[str, str], list[Callable[[], object]]] = {}
    for scorer in SCORERS:
        work[type(scorer).__name__, ""] = [_scoring(scorer, pool) for pool in mixed.values()]
        if isinstance(scorer, RecencyScorer):
            work["RecencyScorer", "items in time order"] = [_scoring(scorer, pool) for pool in in_time.values()]
    columns = {size: _sorted(pool) for size, pool in mixed.items()}
    for slicer in SLICERS:
        name = type(slicer).__name__
        work[name, ""] = [_choosing(slicer, columns[size], budget_for(size)) for size in columns]
        halves = [budget_for(size, sum(columns[size].tokens) // 2) for size in columns]
        work[name, "half of all tokens"] = list(map(_choosing, [slicer] * 2, columns.values(), halves))
    found = {key: [inf, inf] for key in work}
    with garbage_collection(enabled=False):
        for _ in range(PASSES):
            for key, tasks in work.items():
                best = [timed(task, seconds=seconds / PASSES).best for task in tasks]
                found[key] = list(map(min, found[key], best))
    return [
        {"strategy": name, "note": note, "items": [small, large], "best": best, "growth": round(best[1] / best[0], 1)}
        for (name, note), best in found.items()
    ]


def _scoring(scorer: Scorer, pool: list[ContextItem]) -> Callable[[], object]:
    return lambda: scorer.score_all(pool)


def _choosing(slicer: Slicer, candidates: Candidates, budget: ContextBudget) -> Callable[[], object]:
    return lambda: slicer.prepare(candidates)(budget)


def _sorted(pool: list[ContextItem]) -> Candidates:
    """What the pipeline hands to a slicer."""
    scores = ReflexiveScorer().score_all(pool)
    return Candidates(pool, scores, [item.tokens for item in pool]).at(descending(scores))
