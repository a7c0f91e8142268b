"""How much of the best possible each slicer selects, on seeded pools that look like chat, retrieval and tool output.

The yardstick is the fractional bound: the total score if the last item could be cut to fit. No selection beats it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import fmean
from typing import Any

from benchmarks.pools import chat_pool, rag_pool, tool_pool
from cupel import ContextBudget, ContextItem, GreedySlice, KnapsackSlice, Pipeline, ReflexiveScorer, Slicer
from cupel.analytics import optimality_gap

SLICERS: dict[str, Slicer] = {
    "greedy": GreedySlice(),
    "buckets of 100": KnapsackSlice(),
    "of 10": KnapsackSlice(10),
    "of 1": KnapsackSlice(1),
    "automatic": KnapsackSlice("auto"),
}
POOLS: dict[str, tuple[Callable[[random.Random, int], list[ContextItem]], int, tuple[int, ...]]] = {
    "chat, 200 turns": (chat_pool, 200, (500, 2_000, 5_000)),
    "retrieval, 60 passages": (rag_pool, 60, (1_000, 4_000, 12_000)),
    "tool output, 120 results": (tool_pool, 120, (1_000, 4_000, 16_000)),
}
REPETITIONS = 20


def measure_quality(repetitions: int = REPETITIONS) -> list[dict[str, Any]]:
    """The mean share of the bound, over so many pools of each sort, and how often each slicer is worse than greedy."""
    return [
        _row(name, make, size, target, repetitions)
        for name, (make, size, targets) in POOLS.items()
        for target in targets
    ]


def _row(
    name: str, make: Callable[[random.Random, int], list[ContextItem]], size: int, target: int, repetitions: int
) -> dict[str, Any]:
    budget = ContextBudget(target, target)
    shares: dict[str, list[float]] = {slicer: [] for slicer in SLICERS}
    bounds: list[float] = []
    for seed in range(repetitions):
        items = make(random.Random(seed), size)
        for slicer_name, slicer in SLICERS.items():
            gap = optimality_gap(Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run(items, budget), budget)
            shares[slicer_name].append(gap.selected_score / gap.upper_bound)
        bounds.append(gap.upper_bound)
    greedy = shares["greedy"]
    return {
        "pool": name,
        "target": target,
        "pools": repetitions,
        "bound": round(fmean(bounds), 3),
        "share": {slicer: round(fmean(found), 5) for slicer, found in shares.items()},
        "worse than greedy": {
            slicer: sum(own < other - 1e-12 for own, other in zip(found, greedy, strict=True))
            for slicer, found in shares.items()
        },
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The Markdown table for the page about choosing a slicer."""
    lines = [
        "| pool | target | bound | " + " | ".join(SLICERS) + " |",
        "|---|--:|--:|" + "--:|" * len(SLICERS),
    ]
    for row in rows:
        best = max(row["share"].values())
        cells = [
            f"**{share * 100:.2f} %**" if share == best else f"{share * 100:.2f} %" for share in row["share"].values()
        ]
        lines.append(f"| {row['pool']} | {row['target']:,} | {row['bound']:,.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)
