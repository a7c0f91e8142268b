"""The contract of a placer."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from cupel._columns import Candidates, positions_of
from cupel._strategy import Strategy
from cupel.errors import StrategyContractError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem, ScoredItem


class Placer(Strategy):
    """Puts the selected items in the order the model will read them.

    Write `place`: it gets the pinned items (with score 1), then the chosen ones by score, and returns the same items in
    another order.

    >>> class Reversed(Placer):
    ...     def place(self, scored):
    ...         return [entry.item for entry in reversed(scored)]
    """

    __slots__ = ()
    _faces: ClassVar[tuple[str, str]] = ("place", "arrange")

    @abstractmethod
    def place(self, scored: Sequence[ScoredItem]) -> list[ContextItem]:
        """Return the items in their final order."""

    def arrange(self, selected: Candidates) -> list[int]:
        """Return the positions of the selected items in their final order; what the pipeline calls."""
        name = type(self).__name__
        positions = positions_of(self.place(selected.scored()), selected.items, name, "place")
        if len(positions) != len(selected):
            raise StrategyContractError(
                name, f"place returned {len(positions)} of the {len(selected)} items it was given"
            )
        return positions


class ArrangingPlacer(Placer):
    """Base of the built-ins: both methods come from `_arrange`."""

    __slots__ = ()

    def place(self, scored: Sequence[ScoredItem]) -> list[ContextItem]:
        """Return the items in their final order."""
        selected = Candidates.of(scored)
        return [selected.items[position] for position in self._arrange(selected)]

    def arrange(self, selected: Candidates) -> list[int]:
        """Return the positions of the selected items in their final order; what the pipeline calls."""
        return self._arrange(selected)

    @abstractmethod
    def _arrange(self, selected: Candidates) -> list[int]:
        """Return the positions of the selected items in their final order."""
