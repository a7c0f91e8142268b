"""The best at both ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel._columns import descending
from cupel.placers._base import ArrangingPlacer

if TYPE_CHECKING:
    from cupel._columns import Candidates


@dataclass(frozen=True, slots=True)
class UShapedPlacer(ArrangingPlacer):
    """Puts the highest scores at the two ends, where models attend most, and the lowest in the middle.

    >>> from cupel import ContextItem, ScoredItem
    >>> scored = [ScoredItem(ContextItem(name, 1), score) for name, score in (("A", 0.9), ("B", 0.8), ("C", 0.7))]
    >>> [item.content for item in UShapedPlacer().place(scored)]
    ['A', 'C', 'B']
    """

    def _arrange(self, selected: Candidates) -> list[int]:
        """Return the positions of the selected items, ranks alternating between the left and the right end."""
        ranked = descending(selected.scores)
        return ranked[::2] + ranked[1::2][::-1]
