"""The contract of a slicer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec

from cupel._internal.checks import as_instance
from cupel._internal.columns import Candidates, positions_of
from cupel._internal.relations import Relations, drop_violations
from cupel._internal.strategy import Strategy
from cupel.diagnostics import Certificate, CountRequirementShortfall, ExclusionReason
from cupel.model import ContextBudget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel._internal.intervals import IntervalSet, Work
    from cupel.model import ContextItem, ContextKind, ScoredItem


class Selection(msgspec.Struct, frozen=True):
    """The positions that a slicer chose, in its output order, and its reasons for the rest.

    `explain(position)` returns the slicer's reason for excluding an item, or None when the item just did not fit
    the budget; it is called only for a report.
    """

    chosen: list[int]
    shortfalls: tuple[CountRequirementShortfall, ...] = ()
    explain: Callable[[int], ExclusionReason | None] | None = None
    certificate: Certificate | None = None


class Span(NamedTuple):
    """The targets around a given one with the same result: `start <= target < stop`; without a stop, all above."""

    start: int
    stop: int | None


class Chooser(ABC):
    """Selects among prepared candidates for any budget; work that does not depend on the budget is already done.

    Only `__call__` must be implemented. The other two methods answer questions about many budgets: `span` returns the
    targets with the same choice, so that a search can skip budgets, and `intervals` all targets that choose an item.
    The defaults are always correct. A subclass that overrides `__call__` of a built-in chooser must override them too.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose for one effective budget."""

    def span(self, budget: ContextBudget) -> Span:
        """Return targets, `budget.target_tokens` among them, that are sure to give the same selection or error."""
        return Span(budget.target_tokens, budget.target_tokens + 1)

    def intervals(self, position: int, highest: int, work: Work) -> IntervalSet | None:
        """Return the targets up to `highest` that choose a position; None if each target has to be tried.

        A chooser that returns them never exceeds its target and never raises. `work` limits the effort.
        """
        del position, highest, work
        return None


class Slicer(Strategy):
    """Chooses which of the scored items fit the budget.

    Write `slice`: it gets the items from the highest score to the lowest and the effective budget, and returns a subset
    of them (each at most once), empty when there are no items or the target is not positive. The built-ins write
    `prepare` instead, which does the work that all budgets share once and reports reasons together with the choice.

    >>> class FirstTwo(Slicer):
    ...     def slice(self, scored, budget):
    ...         return [entry.item for entry in scored[:2]] if budget.target_tokens > 0 else []
    """

    __slots__ = ()
    _faces: ClassVar[tuple[str, str]] = ("slice", "prepare")

    @abstractmethod
    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        """Choose items for one budget."""

    def prepare(self, candidates: Candidates) -> Chooser:
        """Return a chooser among these candidates for any number of budgets; the pipeline calls this method."""
        return enforce_relations(_SliceChooser(self, candidates), candidates.relations)

    @property
    def limited_kinds(self) -> tuple[ContextKind, ...]:
        """The kinds with limits of their own; a report says which of them no item has."""
        return ()


class PreparingSlicer(Slicer):
    """Base of the built-ins: `slice` follows from `_prepare`."""

    __slots__ = ()

    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        """Choose items for one budget."""
        candidates = Candidates.of(scored)
        as_instance("budget", budget, ContextBudget)
        # Not `self.prepare`: a subclass that writes only `slice` has it from the family, and it would call this method.
        chosen = PreparingSlicer.prepare(self, candidates)(budget).chosen
        return [candidates.items[position] for position in chosen]

    def prepare(self, candidates: Candidates) -> Chooser:
        """Return a chooser among these candidates for any number of budgets; the pipeline calls this method."""
        return enforce_relations(self._prepare(candidates), candidates.relations)

    @abstractmethod
    def _prepare(self, candidates: Candidates) -> Chooser:
        """Return a chooser among these candidates."""


class _SliceChooser(Chooser):
    """Calls a slicer that only has `slice`, and checks the items it returns."""

    def __init__(self, slicer: Slicer, candidates: Candidates) -> None:
        self._slicer = slicer
        self._candidates = candidates
        self._scored = candidates.scored()

    def __call__(self, budget: ContextBudget) -> Selection:
        name = type(self._slicer).__name__
        try:
            returned = self._slicer.slice(list(self._scored), budget)
        except Exception as error:
            error.add_note(f"{name}.slice, for {len(self._scored)} items and a target of {budget.target_tokens} tokens")
            raise
        return Selection(positions_of(returned, self._candidates.items, name, "slice"))


def enforce_relations(chooser: Chooser, relations: Relations | None) -> Chooser:
    """Return a chooser whose choices keep the relations of the candidates."""
    if relations is None or isinstance(chooser, _RelatedChooser):
        return chooser
    return _RelatedChooser(chooser, relations)


class _RelatedChooser(Chooser):
    """Drops from another chooser's choice the candidates that violate relations."""

    def __init__(self, inner: Chooser, relations: Relations) -> None:
        self._inner = inner
        self._relations = relations

    def __call__(self, budget: ContextBudget) -> Selection:
        selection = self._inner(budget)
        return msgspec.structs.replace(selection, chosen=drop_violations(self._relations, selection.chosen))

    def span(self, budget: ContextBudget) -> Span:
        """Return the inner span: of the same choice, the same part stays."""
        return self._inner.span(budget)
