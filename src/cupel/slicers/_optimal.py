"""The best selection under relations and limits for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from cupel._internal.checks import as_finite, as_flag, as_instance, as_integer, shown
from cupel._internal.columns import scaled_score
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
from cupel.slicers._highs import load_solver
from cupel.slicers._optimizer import Effort, Problem, ScaledForm, solve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cupel._internal.columns import Candidates
    from cupel._internal.relations import Form, Relations
    from cupel.diagnostics import ExclusionReason, Proof
    from cupel.model import ContextBudget
    from cupel.slicers._optimizer import ScaledEntity, ScaledGroup, Solution


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


class _Minimum(NamedTuple):
    """The least of one kind, by its limit, counted in entities or in tokens."""

    limit: KindLimit
    amount: int
    in_tokens: bool


class OptimalChooser(Chooser):
    """Solves one problem for one target at a time."""

    def __init__(self, slicer: OptimalSlice, candidates: Candidates) -> None:
        self._slicer = slicer
        self._candidates = candidates
        self._effort = Effort(slicer.gap, slicer.max_core, slicer.exact)
        self._limits = {limit.kind.key: limit for limit in slicer.limits}
        maxima = [
            (limit, most, in_tokens)
            for limit in slicer.limits
            for most, in_tokens in ((limit.max_count, False), (limit.max_tokens, True))
            if most is not None
        ]
        self._minima = [minimum for limit in slicer.limits for minimum in _minima(limit)]
        self._bounds = [most for _, most, _ in maxima] + [-minimum.amount for minimum in self._minima]
        self._maxima = 1 + len(maxima)
        # The kind of each limit, its sign, and whether it counts tokens.
        self._rows = [(limit.kind.key, 1, in_tokens) for limit, _, in_tokens in maxima]
        self._rows += [(minimum.limit.kind.key, -1, minimum.in_tokens) for minimum in self._minima]
        self._groups = list(self._plain() if candidates.relations is None else self._related(candidates.relations))
        largest = (max(form.amounts[0] for form in entity) for group in self._groups for entity in group)
        self._everything = max(1, sum(largest))
        """The tokens of all candidates in their largest forms; more room changes nothing."""

    def _plain(self) -> Iterator[ScaledGroup]:
        """Make a group of each candidate that a choice may gain from."""
        wanted = {minimum.limit.kind.key for minimum in self._minima}
        tokens, scores = self._candidates.tokens, self._candidates.scores
        for position, (cost, score, item) in enumerate(zip(tokens, scores, self._candidates.items, strict=True)):
            value = scaled_score(score)
            if cost == 0 or (cost > 0 and (value or item.kind.key in wanted)):
                yield ((self._form(value, cost, position, item.kind.key),),)

    def _related(self, relations: Relations) -> Iterator[ScaledGroup]:
        """Make a group of each that can be in; its entities with a single form count as one form together."""
        items = self._candidates.items
        for group in relations.groups:
            if group.is_open:
                members = [relations.entities[entity] for entity in group.entities]
                entities = [self._entity(entity.forms, items[entity.positions[0]].kind.key) for entity in members]
                single = [entity[0] for entity in entities if len(entity) == 1]
                joined = [(reduce(ScaledForm.joined, single),)] if single else []
                yield (*joined, *(entity for entity in entities if len(entity) > 1))

    def _entity(self, forms: Iterable[Form], kind: str) -> ScaledEntity:
        """Leave out forms that cost no less than another and are worth no more, unless tokens are wanted."""
        scaled = [self._form(scaled_score(form.value), form.tokens, form.position, kind) for form in forms]
        if any(minimum.in_tokens and minimum.limit.kind.key == kind for minimum in self._minima):
            return tuple(scaled)
        kept: list[ScaledForm] = []
        for form in sorted(scaled, key=lambda form: (form.amounts[0], -form.value, form.positions)):
            if not kept or form.value > kept[-1].value:
                kept.append(form)
        return tuple(kept)

    def _form(self, value: int, tokens: int, position: int, kind: str) -> ScaledForm:
        if not self._rows:
            return ScaledForm(value, (tokens,), (position,))
        amounts = [sign * (tokens if in_tokens else 1) if kind == of else 0 for of, sign, in_tokens in self._rows]
        return ScaledForm(value, (tokens, *amounts), (position,))

    def __call__(self, budget: ContextBudget) -> Selection:
        """Solve for one target; an empty pool or target chooses nothing and is short of nothing (ruling 5.26)."""
        target = min(budget.target_tokens, self._everything)
        if target <= 0 or not self._candidates.items:
            return Selection(
                [], explain=lambda position: self._limit_reached(position, [], budget), certificate=_NOTHING
            )
        answer = solve(Problem(self._groups, [target, *self._bounds], self._maxima), self._effort)
        chosen = sorted(answer.chosen)
        counts, tokens = self._shortfalls(answer)
        return Selection(
            chosen,
            counts,
            lambda position: self._limit_reached(position, chosen, budget),
            Certificate(answer.value, answer.bound, self._proof(answer), tokens),
        )

    def _proof(self, answer: Solution) -> Proof:
        if not answer.is_settled:
            return "limit"
        if answer.value == answer.bound:
            return "optimal"
        return "within gap" if answer.bound <= self._effort.reach(answer.value) else "limit"

    def _shortfalls(
        self, answer: Solution
    ) -> tuple[tuple[CountRequirementShortfall, ...], tuple[TokenRequirementShortfall, ...]]:
        """Return the minima that were not reached; raise if that is not allowed."""
        counts: list[CountRequirementShortfall] = []
        tokens: list[TokenRequirementShortfall] = []
        for minimum, got in zip(self._minima, answer.reached, strict=True):
            if got < minimum.amount:
                kind = minimum.limit.kind.value
                if self._slicer.scarcity is ScarcityBehavior.THROW:
                    field = "min_tokens" if minimum.in_tokens else "min_count"
                    raise ScarcityError("OptimalSlice", kind, got, minimum.amount, field)
                if minimum.in_tokens:
                    tokens.append(TokenRequirementShortfall(kind, minimum.amount, got))
                else:
                    counts.append(CountRequirementShortfall(kind, minimum.amount, got))
        return tuple(counts), tuple(tokens)

    def _limit_reached(self, position: int, chosen: list[int], budget: ContextBudget) -> ExclusionReason | None:
        """Return the limit of the kind as the reason if it leaves no room and the item alone would fit."""
        candidates = self._candidates
        kind, cost = candidates.items[position].kind, candidates.tokens[position]
        limit = self._limits.get(kind.key)
        if limit is None or cost > budget.target_tokens:
            return None
        costs = [candidates.tokens[one] for one in chosen if candidates.items[one].kind.key == kind.key]
        if limit.max_count is not None and len(costs) >= limit.max_count:
            return CountCapExceeded(kind.value, limit.max_count, len(costs))
        if limit.max_tokens is not None and sum(costs) + cost > limit.max_tokens:
            return QuotaCapExceeded(kind.value, limit.max_tokens, sum(costs) + cost)
        return None

    def span(self, budget: ContextBudget) -> Span:
        """Return all targets at which everything fits; otherwise the given target alone."""
        if budget.target_tokens >= self._everything:
            return Span(self._everything, None)
        return super().span(budget)


_NOTHING = Certificate(0, 0, "optimal")


def _minima(limit: KindLimit) -> Iterator[_Minimum]:
    if limit.min_count:
        yield _Minimum(limit, limit.min_count, in_tokens=False)
    if limit.min_tokens:
        yield _Minimum(limit, limit.min_tokens, in_tokens=True)
