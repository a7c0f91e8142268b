"""Counts per kind around any inner slicer but the knapsack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._checks import as_instance
from cupel.errors import SlicerConfigError
from cupel.slicers._base import FittingSlicer, Slicer
from cupel.slicers._count import CountQuotaEntry, ScarcityBehavior
from cupel.slicers._entries import checked_entries
from cupel.slicers._greedy import GreedySlice
from cupel.slicers._knapsack import KnapsackSlice
from cupel.slicers._related_count import count_chooser

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._columns import Candidates
    from cupel.slicers._count_chooser import CountChooser


@dataclass(frozen=True, slots=True)
class CountQuotaSlice(FittingSlicer):
    """Commits the required number of items of each kind, lets `inner` fill the rest, then enforces the caps.

    Required items are taken even when they exceed the budget; the pipeline's overflow strategy deals with that. The
    caps keep what `inner` returns first: with `GreedySlice` the densest items, not the highest-scored ones.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> pool = (("a", 0.9), ("b", 0.8))
    >>> tools = [ScoredItem(ContextItem(name, 10, kind="ToolOutput"), score) for name, score in pool]
    >>> slicer = CountQuotaSlice([CountQuotaEntry("ToolOutput", require_count=1, cap_count=1)])
    >>> [item.content for item in slicer.slice(tools, ContextBudget(100, 100))]
    ['a']
    """

    entries: tuple[CountQuotaEntry, ...]
    inner: Slicer = field(default_factory=GreedySlice)
    scarcity: ScarcityBehavior = field(default=ScarcityBehavior.DEGRADE, kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self, entries: Iterable[CountQuotaEntry], inner: Slicer = ..., *, scarcity: ScarcityBehavior = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", checked_entries("entries", self.entries, CountQuotaEntry))
        as_instance("inner", self.inner, Slicer)
        as_instance("scarcity", self.scarcity, ScarcityBehavior)
        if isinstance(self.inner, KnapsackSlice):
            msg = (
                "inner: CountQuotaSlice does not work with KnapsackSlice; use GreedySlice as the inner slicer, "
                "or CountConstrainedKnapsackSlice for counts with a knapsack"
            )
            raise SlicerConfigError(msg)

    def _fit(self, candidates: Candidates) -> CountChooser:
        """Commit the required items once."""
        return count_chooser(self, candidates, self.inner, resort=False)
