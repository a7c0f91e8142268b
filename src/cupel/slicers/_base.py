"""The contract of a slicer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec

from cupel._checks import as_instance
from cupel._columns import Candidates, positions_of
from cupel._strategy import Strategy
from cupel.model import ContextBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cupel.diagnostics import CountRequirementShortfall, ExclusionReason
    from cupel.model import ContextItem, ScoredItem


class Selection(msgspec.Struct, frozen=True):
    """What a slicer chose, as positions in its output order, and what it knows about the rest.

    `explain(position)` gives the slicer's own reason for leaving an item out, or None when the item just did not fit
    the budget; it is called only when somebody wants a report.
    """

    chosen: list[int]
    shortfalls: tuple[CountRequirementShortfall, ...] = ()
    explain: Callable[[int], ExclusionReason | None] | None = None


class Span(NamedTuple):
    """The targets around a given one that give the same selection: `start <= target < stop`; no stop means for ever."""

    start: int
    stop: int | None


class Chooser(ABC):
    """A slicer that has seen its candidates: everything that does not depend on the budget is done."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose for one effective budget."""

    def span(self, budget: ContextBudget) -> Span:
        """Give targets, `budget.target_tokens` among them, that are sure to give the same selection."""
        return Span(budget.target_tokens, budget.target_tokens + 1)


class Slicer(Strategy):
    """Chooses which of the scored items fit the budget.

    Write `slice`: it gets the items from the highest score to the lowest and the effective budget, and returns a subset
    of them (each at most once), empty when there are no items or the target is not positive. The built-ins write `fit`
    instead, which separates the work that all budgets share and reports reasons together with the choice.

    >>> class FirstTwo(Slicer):
    ...     def slice(self, scored, budget):
    ...         return [entry.item for entry in scored[:2]] if budget.target_tokens > 0 else []
    """

    __slots__ = ()
    _faces: ClassVar[tuple[str, str]] = ("slice", "fit")

    @abstractmethod
    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        """Choose items for one budget."""

    def fit(self, candidates: Candidates) -> Chooser:
        """See the candidates once, to choose among them for any number of budgets; what the pipeline calls."""
        return _SliceChooser(self, candidates)


class FittedSlicer(Slicer):
    """Base of the built-ins: both methods come from `_fit`."""

    __slots__ = ()

    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        """Choose items for one budget."""
        candidates = Candidates.of(scored)
        as_instance("budget", budget, ContextBudget)
        return [candidates.items[position] for position in self._fit(candidates)(budget).chosen]

    def fit(self, candidates: Candidates) -> Chooser:
        """See the candidates once, to choose among them for any number of budgets; what the pipeline calls."""
        return self._fit(candidates)

    @abstractmethod
    def _fit(self, candidates: Candidates) -> Chooser:
        """See the candidates once."""


class _SliceChooser(Chooser):
    """Calls a slicer that only knows `slice`, and checks what it returns."""

    __slots__ = ("_candidates", "_scored", "_slicer")

    def __init__(self, slicer: Slicer, candidates: Candidates) -> None:
        self._slicer = slicer
        self._candidates = candidates
        self._scored = candidates.scored()

    def __call__(self, budget: ContextBudget) -> Selection:
        returned = self._slicer.slice(list(self._scored), budget)
        return Selection(positions_of(returned, self._candidates.items, type(self._slicer).__name__, "slice"))
