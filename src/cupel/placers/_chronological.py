"""Oldest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel._columns import ascending
from cupel.placers._base import ArrangingPlacer

if TYPE_CHECKING:
    from cupel._columns import Candidates


@dataclass(frozen=True, slots=True)
class ChronologicalPlacer(ArrangingPlacer):
    """Orders by timestamp, oldest first; items without one come last. Ties keep their order.

    >>> from datetime import UTC, datetime
    >>> from cupel import ContextItem, ScoredItem
    >>> new, old = (ContextItem(str(day), 1, timestamp=datetime(2024, 1, day, tzinfo=UTC)) for day in (2, 1))
    >>> [item.content for item in ChronologicalPlacer().place([ScoredItem(new, 0.9), ScoredItem(old, 0.1)])]
    ['1', '2']
    """

    def _arrange(self, selected: Candidates) -> list[int]:
        """Return the positions of the selected items in time order."""
        times = [item.timestamp for item in selected.items]
        dated = ascending(times)
        if len(dated) == len(times):
            return dated
        return dated + [position for position, time in enumerate(times) if time is None]
