"""The best selection under relations and limits for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from cupel._internal.checks import as_finite, as_flag, as_instance, as_integer, shown
from cupel._internal.columns import scaled_score
from cupel._internal.relations import Form, rising_forms
from cupel.diagnostics import (
    Certificate,
    CountCapExceeded,
    CountRequirementShortfall,
    QuotaCapExceeded,
    TokenRequirementShortfall,
)
from cupel.errors import ScarcityError, SlicerConfigError
from cupel.model import ContextKind
from cupel.slicers._base import Chooser, PreparingSlicer, Selection, Span
from cupel.slicers._counts import ScarcityBehavior, as_amount, as_kind, checked_entries
from cupel.slicers._optimizer import Effort, Problem, load_solver, solve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cupel._internal.columns import Candidates
    from cupel._internal.relations import Relations
    from cupel.diagnostics import ExclusionReason
    from cupel.model import ContextBudget
    from cupel.slicers._optimizer import ColumnGroup


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
class OptimalSlice(PreparingSlicer):
    """Chooses the greatest total score under forms, groups and limits for each kind.

    The report's `certificate` bounds the distance to the best selection. It is at most `gap`, a share of the total,
    unless branch and bound would have to decide on more than `max_core` candidates. Scores count in steps of 0.0001.
    `limits` do not count pinned items. Minima are met in the order of the list, each if the ones before it allow;
    `scarcity` sets what happens when one is not reached.

    It needs the extra `optimal`, unless `exact=False`: then items are chosen by a price per token, which is close to
    the best for plain items and forms; groups and limits are respected but may cost a few percent.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> rows = (("a", 300, 0.9), ("b", 200, 0.5), ("c", 100, 0.45))
    >>> pool = [ScoredItem(ContextItem(name, tokens), score) for name, tokens, score in rows]
    >>> [item.content for item in OptimalSlice(exact=False).slice(pool, ContextBudget(300, 300))]
    ['b', 'c']
    """

    limits: Sequence[KindLimit] = ()
    gap: float = field(default=0.005, kw_only=True)
    max_core: int = field(default=400, kw_only=True)
    exact: bool = field(default=True, kw_only=True)
    scarcity: ScarcityBehavior = field(default=ScarcityBehavior.DEGRADE, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", checked_entries("limits", self.limits, KindLimit))
        gap = as_finite("gap", self.gap, error=SlicerConfigError, least=0, most=1)
        if gap == 1:
            raise SlicerConfigError("gap must be less than 1, got 1: everything would be good enough")
        object.__setattr__(self, "gap", gap)
        object.__setattr__(self, "max_core", as_integer("max_core", self.max_core, least=0, error=SlicerConfigError))
        object.__setattr__(self, "exact", as_flag("exact", self.exact))
        as_instance("scarcity", self.scarcity, ScarcityBehavior)
        if self.exact:
            load_solver()

    def _prepare(self, candidates: Candidates) -> OptimalChooser:
        """Write the candidates as a problem in which only the capacity is open."""
        return OptimalChooser(self, candidates)


class _Row(NamedTuple):
    """A limit of one kind, counted in entities or in tokens; the amounts of a minimum are negative."""

    kind: ContextKind
    amount: int
    in_tokens: bool
    sign: int


def _rows(limits: Sequence[KindLimit]) -> Iterator[_Row]:
    """Yield the maxima and after them the minima, each in the order of the limits."""
    for limit in limits:
        for most, in_tokens in ((limit.max_count, False), (limit.max_tokens, True)):
            if most is not None:
                yield _Row(limit.kind, most, in_tokens, 1)
    for limit in limits:
        for least, in_tokens in ((limit.min_count, False), (limit.min_tokens, True)):
            if least:
                yield _Row(limit.kind, least, in_tokens, -1)


class OptimalChooser(Chooser):
    """Solves one problem for one target at a time."""

    def __init__(self, slicer: OptimalSlice, candidates: Candidates) -> None:
        self._effort = Effort(slicer.gap, slicer.max_core, slicer.exact)
        self._scarcity = slicer.scarcity
        self._candidates = candidates
        self._rows = [*_rows(slicer.limits)]
        self._minima = [row for row in self._rows if row.sign < 0]
        self._positions: list[tuple[int, ...]] = []
        """Of the forms in each column."""
        bounds = [0, *(row.sign * row.amount for row in self._rows)]
        self._problem = Problem([], [], [], bounds, len(bounds) - len(self._minima))
        self._problem.groups.extend(
            self._plain() if candidates.relations is None else self._related(candidates.relations)
        )
        self._everything = max(1, self._problem.most([tokens for tokens, *_ in self._problem.amounts]))
        """The tokens of all candidates in their largest forms; more room changes nothing."""

    def _plain(self) -> Iterator[ColumnGroup]:
        """Make a group of each candidate that a choice may gain from."""
        wanted = {row.kind.key for row in self._minima}
        tokens, scores = self._candidates.tokens, self._candidates.scores
        for position, (cost, score, item) in enumerate(zip(tokens, scores, self._candidates.items, strict=True)):
            value = scaled_score(score)
            if cost == 0 or (cost > 0 and (value or item.kind.key in wanted)):
                yield ((self._column(Form(position, cost, value)),),)

    def _related(self, relations: Relations) -> Iterator[ColumnGroup]:
        """Make a group of each that can be in; its entities with a single form share a column."""
        for group in relations.groups:
            if group.is_open:
                entities = [self._useful(relations.entities[entity].forms) for entity in group.entities]
                single = [entity[0] for entity in entities if len(entity) == 1]
                joined = [(self._column(*single),)] if single else []
                several = (tuple(map(self._column, entity)) for entity in entities if len(entity) > 1)
                yield (*joined, *several)

    def _useful(self, forms: Sequence[Form]) -> list[Form]:
        """Leave out forms that cost no less than another and are worth no more, unless tokens are wanted."""
        kind = self._candidates.items[forms[0].position].kind
        scaled = [Form(form.position, form.tokens, scaled_score(form.value)) for form in forms]
        is_wanted = any(row.in_tokens and row.kind == kind for row in self._minima)
        return scaled if is_wanted else rising_forms(scaled)

    def _column(self, *forms: Form) -> int:
        """Add a column for forms that are taken together."""
        kinds = [self._candidates.items[form.position].kind.key for form in forms] if self._rows else ()
        amounts = [sum(form.tokens for form in forms)]
        for kind, _, in_tokens, sign in self._rows:
            own = (form.tokens if in_tokens else 1 for form, of in zip(forms, kinds, strict=True) if of == kind.key)
            amounts.append(sign * sum(own))
        self._problem.values.append(sum(int(form.value) for form in forms))
        self._problem.amounts.append(tuple(amounts))
        self._positions.append(tuple(form.position for form in forms))
        return len(self._positions) - 1

    def __call__(self, budget: ContextBudget) -> Selection:
        """Solve for one target; an empty pool or target chooses nothing and is short of nothing (ruling 5.26)."""
        target = min(budget.target_tokens, self._everything)
        chosen: list[int] = []
        counts: tuple[CountRequirementShortfall, ...] = ()
        certificate = Certificate(0, 0, "optimal")
        if target > 0 and self._candidates.items:
            found = solve(self._problem.within(target), self._effort)
            chosen = sorted(position for column in chain(*found.choice) for position in self._positions[column])
            counts, tokens = self._shortfalls(found.reached)
            certificate = Certificate(found.value, found.bound, found.proof(self._effort), tokens)
        return Selection(chosen, counts, lambda position: self._limit_reached(position, chosen, budget), certificate)

    def _shortfalls(
        self, reached: Sequence[int]
    ) -> tuple[tuple[CountRequirementShortfall, ...], tuple[TokenRequirementShortfall, ...]]:
        """Return the minima that were not reached; raise if that is not allowed."""
        short = [(row, got) for row, got in zip(self._minima, reached, strict=True) if got < row.amount]
        if short and self._scarcity is ScarcityBehavior.THROW:
            (kind, amount, in_tokens, _), got = short[0]
            limit = "min_tokens" if in_tokens else "min_count"
            raise ScarcityError("OptimalSlice", kind.value, got, amount, limit)
        counts = [CountRequirementShortfall(row.kind.value, row.amount, got) for row, got in short if not row.in_tokens]
        tokens = [TokenRequirementShortfall(row.kind.value, row.amount, got) for row, got in short if row.in_tokens]
        return tuple(counts), tuple(tokens)

    def _limit_reached(self, position: int, chosen: list[int], budget: ContextBudget) -> ExclusionReason | None:
        """Return the limit of the kind as the reason if it leaves no room and the item alone would fit."""
        candidates = self._candidates
        kind, cost = candidates.items[position].kind, candidates.tokens[position]
        if cost <= budget.target_tokens:
            costs = [candidates.tokens[one] for one in chosen if candidates.items[one].kind == kind]
            for row in self._rows:  # a kind's number of items comes before its tokens
                if row.kind == kind and row.sign > 0:
                    if row.in_tokens and sum(costs) + cost > row.amount:
                        return QuotaCapExceeded(kind.value, row.amount, sum(costs) + cost)
                    if not row.in_tokens and len(costs) >= row.amount:
                        return CountCapExceeded(kind.value, row.amount, len(costs))
        return None

    def span(self, budget: ContextBudget) -> Span:
        """Return all targets at which everything fits; otherwise the given target alone."""
        if budget.target_tokens >= self._everything:
            return Span(self._everything, None)
        return super().span(budget)
