"""The contract of a slicer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from cupel._checks import as_instance
from cupel._columns import Candidates, positions_of
from cupel._relations import Relations, lawful
from cupel._strategy import Strategy
from cupel.diagnostics import Certificate, CountRequirementShortfall, ExclusionReason
from cupel.model import ContextBudget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cupel._targets import Targets, Wanted, Work
    from cupel.model import ContextItem, ScoredItem


class Selection(msgspec.Struct, frozen=True):
    """What a slicer chose, as positions in its output order, and what it knows about the rest.

    `explain(position)` gives the slicer's own reason for leaving an item out, or None when the item just did not fit
    the budget; it is called only when somebody wants a report.
    """

    chosen: list[int]
    shortfalls: tuple[CountRequirementShortfall, ...] = ()
    explain: Callable[[int], ExclusionReason | None] | None = None
    certificate: Certificate | None = None


class Span(NamedTuple):
    """The targets around a given one that give the same selection: `start <= target < stop`; no stop means for ever."""

    start: int
    stop: int | None


class Reach(NamedTuple):
    """How far the targets matter to a fitted slicer."""

    settled: int
    """From this target on, the choice stays the same or is refused."""
    within: int = 0
    """From this target on, the choice costs no more than the target."""
    early: frozenset[int] = frozenset()
    """The only positions that smaller targets choose."""
    sure: bool = True
    """Whether `targets` is what is chosen; otherwise it holds more, and only a run can tell."""


class Chooser(ABC):
    """A slicer that has seen its candidates: everything that does not depend on the budget is done.

    Only `__call__` must be written. The rest is what a slicer knows about itself, for those who ask about many budgets
    at once or show it elsewhere. The defaults promise nothing, and then every budget is asked for by itself:

    - `span`: around one target, how far its choice holds;
    - `reach`, `order`, `targets`, `refused`: for all targets, which of them choose a position and which are refused;
    - `effort`: what a choice costs, for those who must not wait too long;
    - `replay`: what a page's script needs to repeat the choice.

    A subclass that writes `__call__` anew starts from these defaults: what its base knows is no longer true of it.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__call__" in cls.__dict__:
            for name in ("span", "reach", "order", "targets", "refused", "effort", "replay"):
                if name not in cls.__dict__:
                    setattr(cls, name, Chooser.__dict__[name])

    @abstractmethod
    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose for one effective budget."""

    def within(self, relations: Relations | None) -> Chooser:
        """Return a chooser that leaves out what the relations of the candidates do not allow; itself without any."""
        return self if relations is None else LawfulChooser(self, relations)

    def span(self, budget: ContextBudget) -> Span:
        """Return targets, `budget.target_tokens` among them, that are sure to give the same selection."""
        return Span(budget.target_tokens, budget.target_tokens + 1)

    def reach(self) -> Reach | None:
        """Return how far the targets matter; None if nothing is known."""
        return None

    @property
    def order(self) -> list[int] | None:
        """The order in which positions are chosen, if no target changes it; what is never chosen may be missing."""
        return None

    def targets(self, wanted: Wanted, highest: int, work: Work) -> Targets | None:
        """Return the targets up to `highest` under which a position is chosen; None if they have to be asked for.

        What the set says about targets above `highest` means nothing, unless that is where the choice has settled.
        """
        del wanted, highest, work
        return None

    def refused(self, work: Work) -> Targets | None:
        """Return the targets under which the choice raises an error; None if there are none."""
        del work
        return None

    def effort(self, target: int) -> int:
        """Return about how many nanoseconds a choice takes beyond a look at each candidate."""
        del target
        return 0

    def replay(self, kinds: Mapping[str, int]) -> dict[str, Any] | None:
        """Describe the slicer to the page's script; None if only Python can run it.

        `kinds` numbers the folded kinds of the candidates.
        """
        del kinds
        return None


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
        return _SliceChooser(self, candidates).within(candidates.relations)


class FittingSlicer(Slicer):
    """Base of the built-ins: both methods come from `_fit`."""

    __slots__ = ()

    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        """Choose items for one budget."""
        candidates = Candidates.of(scored)
        as_instance("budget", budget, ContextBudget)
        # Not `self.fit`, which a subclass that writes `slice` alone has from the family: it would call this method.
        chosen = FittingSlicer.fit(self, candidates)(budget).chosen
        return [candidates.items[position] for position in chosen]

    def fit(self, candidates: Candidates) -> Chooser:
        """See the candidates once, to choose among them for any number of budgets; what the pipeline calls."""
        return self._fit(candidates).within(candidates.relations)

    @abstractmethod
    def _fit(self, candidates: Candidates) -> Chooser:
        """See the candidates once."""


class _SliceChooser(Chooser):
    """Calls a slicer that only knows `slice`, and checks what it returns."""

    def __init__(self, slicer: Slicer, candidates: Candidates) -> None:
        self._slicer = slicer
        self._candidates = candidates
        self._scored = candidates.scored()

    def __call__(self, budget: ContextBudget) -> Selection:
        returned = self._slicer.slice(list(self._scored), budget)
        return Selection(positions_of(returned, self._candidates.items, type(self._slicer).__name__, "slice"))


_RELATED = 4_000
"""Nanoseconds for each candidate."""


class LawfulChooser(Chooser):
    """Leaves out of another chooser's choice what the relations of its candidates do not allow.

    What the other knows about many targets at once is true of its own choice only, so most of it is not passed on.
    """

    def __init__(self, inner: Chooser, relations: Relations) -> None:
        self._inner = inner
        self._relations = relations

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose, and leave out."""
        selection = self._inner(budget)
        return msgspec.structs.replace(selection, chosen=lawful(self._relations, selection.chosen))

    def within(self, relations: Relations | None) -> Chooser:
        """Return itself: no more can be left out."""
        del relations
        return self

    def span(self, budget: ContextBudget) -> Span:
        """Pass on: what stays of one choice is always the same, and where the choice settles, so does this."""
        reach = self.reach()
        if reach is not None and budget.target_tokens >= max(1, reach.settled):
            return Span(budget.target_tokens, None)
        return self._inner.span(budget)

    def reach(self) -> Reach | None:
        """Settle where the other does."""
        inner = self._inner.reach()
        return None if inner is None else Reach(inner.settled)

    def refused(self, work: Work) -> Targets | None:
        """Pass on."""
        return self._inner.refused(work)

    def effort(self, target: int) -> int:
        """Choosing among related candidates takes a multiple of what it takes among others."""
        return self._inner.effort(target) + _RELATED * len(self._relations.thing_of)
