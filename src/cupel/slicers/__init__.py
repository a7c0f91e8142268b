"""Slicers decide what fits the budget."""

from cupel.slicers._base import Chooser, Reach, Selection, Slicer, Span
from cupel.slicers._best_first import BestFirstSlice
from cupel.slicers._count import CountQuotaEntry, ScarcityBehavior
from cupel.slicers._count_constrained_knapsack import CountConstrainedKnapsackSlice
from cupel.slicers._count_quota import CountQuotaSlice
from cupel.slicers._greedy import GreedySlice
from cupel.slicers._knapsack import KnapsackSlice
from cupel.slicers._optimal import KindLimit, OptimalSlice
from cupel.slicers._quota import QuotaEntry, QuotaSlice
from cupel.slicers._stream import StreamSlice

__all__ = [
    "BestFirstSlice",
    "Chooser",
    "CountConstrainedKnapsackSlice",
    "CountQuotaEntry",
    "CountQuotaSlice",
    "GreedySlice",
    "KindLimit",
    "KnapsackSlice",
    "OptimalSlice",
    "QuotaEntry",
    "QuotaSlice",
    "Reach",
    "ScarcityBehavior",
    "Selection",
    "Slicer",
    "Span",
    "StreamSlice",
]
