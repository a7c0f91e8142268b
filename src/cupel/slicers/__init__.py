"""Slicers decide what fits the budget."""

from cupel.slicers._base import Chooser, Selection, Slicer, Span, enforce_relations
from cupel.slicers._counts import CountConstrainedKnapsackSlice, CountQuotaEntry, CountQuotaSlice, ScarcityBehavior
from cupel.slicers._greedy import BestFirstSlice, GreedySlice, StreamSlice
from cupel.slicers._knapsack import KnapsackSlice
from cupel.slicers._optimal import KindLimit, OptimalSlice
from cupel.slicers._quota import QuotaEntry, QuotaSlice

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
    "ScarcityBehavior",
    "Selection",
    "Slicer",
    "Span",
    "StreamSlice",
    "enforce_relations",
]
