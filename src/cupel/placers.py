"""Placers decide in which order the model reads the selection."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from cupel._internal.checks import as_instance
from cupel._internal.columns import Candidates, ascending, descending, positions_of
from cupel._internal.strategy import Strategy
from cupel.errors import StrategyContractError
from cupel.model import ContextKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem, ScoredItem

__all__ = ["ChronologicalPlacer", "Placer", "SystemFirst", "UShapedPlacer"]


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
        """Return the positions of the selected items in their final order; the pipeline calls this method."""
        name = type(self).__name__
        try:
            placed = self.place(selected.scored())
        except Exception as error:
            error.add_note(f"{name}.place, for {len(selected)} items")
            raise
        positions = positions_of(placed, selected.items, name, "place")
        if len(positions) != len(selected):
            raise StrategyContractError(
                name, f"place returned {len(positions)} of the {len(selected)} items it was given"
            )
        return positions


class _ArrangingPlacer(Placer):
    """Base of the built-ins: both methods come from `_arrange`."""

    __slots__ = ()

    def place(self, scored: Sequence[ScoredItem]) -> list[ContextItem]:
        """Return the items in their final order."""
        selected = Candidates.of(scored)
        return [selected.items[position] for position in self._arrange(selected)]

    def arrange(self, selected: Candidates) -> list[int]:
        """Return the positions of the selected items in their final order; the pipeline calls this method."""
        return self._arrange(selected)

    @abstractmethod
    def _arrange(self, selected: Candidates) -> list[int]:
        """Return the positions of the selected items in their final order."""


@dataclass(frozen=True, slots=True)
class ChronologicalPlacer(_ArrangingPlacer):
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


@dataclass(frozen=True, slots=True)
class UShapedPlacer(_ArrangingPlacer):
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


@dataclass(frozen=True, slots=True)
class SystemFirst(_ArrangingPlacer):
    """Puts items of kind SystemPrompt first, in the order they came in, and lets `inner` order the rest.

    Without it, a system prompt has no timestamp and `ChronologicalPlacer` puts it last.

    >>> from cupel import ContextItem, ScoredItem
    >>> system, user = ContextItem("Be brief.", 3, kind="SystemPrompt", pinned=True), ContextItem("Hello!", 2)
    >>> [item.content for item in SystemFirst().place([ScoredItem(user, 0.5), ScoredItem(system, 1.0)])]
    ['Be brief.', 'Hello!']
    """

    inner: Placer = field(default_factory=ChronologicalPlacer)

    def __post_init__(self) -> None:
        as_instance("inner", self.inner, Placer)

    def _arrange(self, selected: Candidates) -> list[int]:
        """Return the positions of the system prompts, then those of the rest as the inner placer orders them."""
        first: list[int] = []
        rest: list[int] = []
        for position, item in enumerate(selected.items):
            (first if item.kind == ContextKind.SYSTEM_PROMPT else rest).append(position)
        return first + [rest[index] for index in self.inner.arrange(selected.at(rest))]
