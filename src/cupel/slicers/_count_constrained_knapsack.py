"""Counts per kind around a knapsack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._checks import as_instance, wrong_type
from cupel.slicers._base import FittingSlicer
from cupel.slicers._count import CountQuotaEntry, ScarcityBehavior
from cupel.slicers._entries import checked_entries
from cupel.slicers._knapsack import KnapsackSlice
from cupel.slicers._related_count import count_chooser

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._columns import Candidates
    from cupel.slicers._count_chooser import CountChooser


@dataclass(frozen=True, slots=True)
class CountConstrainedKnapsackSlice(FittingSlicer):
    """Commits the required number of items of each kind, fills the rest with a knapsack, then enforces the caps.

    The caps keep the highest scores. The knapsack does not know about them, so room it spent on items that a cap then
    removes stays empty.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> pool = (("a", 0.8), ("b", 0.9))
    >>> tools = [ScoredItem(ContextItem(name, 10, kind="ToolOutput"), score) for name, score in pool]
    >>> slicer = CountConstrainedKnapsackSlice([CountQuotaEntry("ToolOutput", 0, 1)], KnapsackSlice(1))
    >>> [item.content for item in slicer.slice(tools, ContextBudget(100, 100))]
    ['b']
    """

    entries: tuple[CountQuotaEntry, ...]
    knapsack: KnapsackSlice = field(default_factory=KnapsackSlice)
    scarcity: ScarcityBehavior = field(default=ScarcityBehavior.DEGRADE, kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self, entries: Iterable[CountQuotaEntry], knapsack: KnapsackSlice = ..., *, scarcity: ScarcityBehavior = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", checked_entries("entries", self.entries, CountQuotaEntry))
        if not isinstance(self.knapsack, KnapsackSlice):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("knapsack", "a KnapsackSlice", self.knapsack)
        as_instance("scarcity", self.scarcity, ScarcityBehavior)

    def _fit(self, candidates: Candidates) -> CountChooser:
        """Commit the required items once."""
        # The knapsack returns items from last to first; the caps must see the highest scores first (ruling 5.27).
        return count_chooser(self, candidates, self.knapsack, resort=True)
