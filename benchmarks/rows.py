"""The configurations that are measured from 10 to 1,000,000 items."""

from __future__ import annotations

from dataclasses import dataclass

from cupel import (
    CompositeScorer,
    CountQuotaEntry,
    CountQuotaSlice,
    FrequencyScorer,
    KindScorer,
    KnapsackSlice,
    Pipeline,
    PriorityScorer,
    QuotaEntry,
    QuotaSlice,
    RecencyScorer,
    ReflexiveScorer,
    ScaledScorer,
    UShapedPlacer,
)

EVERY_SIZE = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration and the numbers of items it is run with."""

    name: str
    pipeline: Pipeline
    sizes: tuple[int, ...] = EVERY_SIZE
    tags: int = 0
    target: int | None = None


ROWS = (
    Row("reflexive + greedy + chronological", Pipeline(scorer=ReflexiveScorer())),
    Row("recency + greedy + chronological", Pipeline(scorer=RecencyScorer())),
    Row(
        "composite (recency, priority, kind) + greedy + u-shaped",
        Pipeline(
            scorer=CompositeScorer([(RecencyScorer(), 2), (PriorityScorer(), 1), (KindScorer(), 1)]),
            placer=UShapedPlacer(),
        ),
    ),
    Row("scaled (recency) + greedy", Pipeline(scorer=ScaledScorer(RecencyScorer()))),
    Row("frequency, 5 tags an item + greedy", Pipeline(scorer=FrequencyScorer()), EVERY_SIZE[:5], tags=5),
    Row(
        "reflexive + quota",
        Pipeline(
            scorer=ReflexiveScorer(),
            slicer=QuotaSlice([QuotaEntry("Document", 20, 50), QuotaEntry("ToolOutput", 10, 40)]),
        ),
    ),
    Row(
        "reflexive + count quota",
        Pipeline(
            scorer=ReflexiveScorer(),
            slicer=CountQuotaSlice([CountQuotaEntry("Document", 2, 50), CountQuotaEntry("ToolOutput", 1, 20)]),
        ),
    ),
    Row(
        "reflexive + knapsack, buckets of 100",
        Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice()),
        (100, 1_000, 5_000),
        target=128_000,
    ),
    Row(
        "reflexive + knapsack, buckets of 1, target 8,000",
        Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice(1)),
        (1_000,),
        target=8_000,
    ),
    Row(
        "reflexive + knapsack, automatic buckets",
        Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice("auto")),
        (100, 1_000, 5_000),
        target=128_000,
    ),
)
