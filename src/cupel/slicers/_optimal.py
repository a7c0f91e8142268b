"""The best selection there is, under relations and limits for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._checks import as_finite, as_flag, as_instance, as_integer, shown
from cupel.errors import SlicerConfigError
from cupel.model import ContextKind
from cupel.slicers._base import FittingSlicer
from cupel.slicers._count import ScarcityBehavior
from cupel.slicers._entries import as_amount, as_kind, checked_entries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._columns import Candidates
    from cupel.slicers._optimal_chooser import OptimalChooser


@dataclass(frozen=True, slots=True)
class KindLimit:
    """How much of one kind `OptimalSlice` takes: numbers of items and of tokens; None for no upper limit.

    >>> KindLimit("ToolOutput", max_count=4).min_count
    0
    """

    kind: ContextKind
    min_count: int = 0
    max_count: int | None = None
    min_tokens: int = 0
    max_tokens: int | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            kind: ContextKind | str,
            min_count: int = ...,
            max_count: int | None = ...,
            min_tokens: int = ...,
            max_tokens: int | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", as_kind(self.kind))
        for least, most in (("min_count", "max_count"), ("min_tokens", "max_tokens")):
            low = self._set(least)
            if getattr(self, most) is not None and (high := self._set(most)) < low:
                msg = f"{least} must not exceed {most} for kind '{self.kind}', got {shown(low)} and {shown(high)}"
                raise SlicerConfigError(msg)

    def _set(self, name: str) -> int:
        value = as_amount(name, getattr(self, name), self.kind)
        object.__setattr__(self, name, value)
        return value


@dataclass(frozen=True, slots=True)
class OptimalSlice(FittingSlicer):
    """Chooses the greatest total score under forms, groups, requirements, exclusive sets and limits for each kind.

    The report's `certificate` says how good the selection is at least: within `gap` of the best, a share of the total,
    unless branch and bound would have to decide on more than `max_core` candidates. Scores count in steps of 0.0001.
    `limits` apply to what is chosen, not to pinned items; minima are kept in the order of the list, each as far as the
    ones before it allow, and `scarcity` decides what happens when one is not reached.

    It needs the extra `cupel[optimal]`. `exact=False` does not: it follows the price of a token instead, which is close
    to the best for plain items and forms, while groups, requirements and limits are kept but may cost a few percent.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> rows = (("a", 300, 0.9), ("b", 200, 0.5), ("c", 100, 0.45))
    >>> pool = [ScoredItem(ContextItem(name, tokens), score) for name, tokens, score in rows]
    >>> [item.content for item in OptimalSlice(exact=False).slice(pool, ContextBudget(300, 300))]
    ['b', 'c']
    """

    limits: tuple[KindLimit, ...] = ()
    gap: float = field(default=0.005, kw_only=True)
    max_core: int = field(default=400, kw_only=True)
    exact: bool = field(default=True, kw_only=True)
    scarcity: ScarcityBehavior = field(default=ScarcityBehavior.DEGRADE, kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self,
            limits: Iterable[KindLimit] = ...,
            *,
            gap: float = ...,
            max_core: int = ...,
            exact: bool = ...,
            scarcity: ScarcityBehavior = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", checked_entries("limits", self.limits, KindLimit))
        gap = as_finite("gap", self.gap, error=SlicerConfigError, least=0, most=1)
        if gap == 1:
            msg = "gap must be less than 1, got 1: everything would be good enough"
            raise SlicerConfigError(msg)
        object.__setattr__(self, "gap", gap)
        object.__setattr__(self, "max_core", as_integer("max_core", self.max_core, least=0, error=SlicerConfigError))
        object.__setattr__(self, "exact", as_flag("exact", self.exact))
        as_instance("scarcity", self.scarcity, ScarcityBehavior)
        if self.exact:
            from cupel._optimum import check_solver  # brings the solver, which few need

            check_solver()

    def _fit(self, candidates: Candidates) -> OptimalChooser:
        """Write the candidates as a problem in which only the capacity is open."""
        from cupel.slicers._optimal_chooser import OptimalChooser  # as above

        return OptimalChooser(self, candidates)
