"""The best selection under relations and limits for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._checks import as_finite, as_flag, as_instance, as_integer, shown
from cupel._ratios import scaled_score
from cupel.diagnostics import (
    Certificate,
    CountCapExceeded,
    CountRequirementShortfall,
    QuotaCapExceeded,
    TokenRequirementShortfall,
)
from cupel.errors import ScarcityError, SlicerConfigError
from cupel.model import ContextKind
from cupel.slicers._base import Chooser, FittingSlicer, Reach, Selection, Span
from cupel.slicers._counts import ScarcityBehavior, as_amount, as_kind, checked_entries
from cupel.slicers._optimum import Block, Cap, Effort, Floor, Member, Option, Problem, solve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cupel._columns import Candidates
    from cupel._relations import Form, Relations
    from cupel.diagnostics import ExclusionReason, Proof
    from cupel.model import ContextBudget
    from cupel.slicers._optimum import Answer


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

    It needs the extra `optimal`. `exact=False` does not: it follows the price of a token instead, which is close
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
            from cupel.slicers._optimum import check_solver  # brings the solver, which few need

            check_solver()

    def _fit(self, candidates: Candidates) -> OptimalChooser:
        """Write the candidates as a problem in which only the capacity is open."""
        return OptimalChooser(self, candidates)


_NANOSECONDS = 20_000
"""For each candidate, in a pool with relations."""


class OptimalChooser(Chooser):
    """Solves one problem for one target at a time."""

    def __init__(self, slicer: OptimalSlice, candidates: Candidates) -> None:
        self._slicer = slicer
        self._candidates = candidates
        self._effort = Effort(slicer.gap, slicer.max_core, slicer.exact)
        self._kinds = {limit.kind.key: place for place, limit in enumerate(slicer.limits)}
        self._caps = [Cap(limit.max_count, limit.max_tokens) for limit in slicer.limits]
        self._floors = [floor for place, limit in enumerate(slicer.limits) for floor in _floors(place, limit)]
        self._exclusive: list[tuple[int, ...]] = []
        kinds = [self._kinds.get(item.kind.key, -1) for item in candidates.items]
        if candidates.relations is None:
            self._blocks = list(self._plain(kinds))
        else:
            self._blocks = self._related(kinds, candidates.relations)
        largest = (
            max(option.tokens for option in member.options) for block in self._blocks for member in block.members
        )
        self._everything = max(1, sum(largest))
        """What all candidates need in their largest forms; more room changes nothing."""

    def _plain(self, kinds: list[int]) -> Iterator[Block]:
        """Make a block of each candidate that a choice may gain from."""
        needed = {floor.kind for floor in self._floors}
        tokens, scores = self._candidates.tokens, self._candidates.scores
        for position, (cost, score, kind) in enumerate(zip(tokens, scores, kinds, strict=True)):
            value = scaled_score(score)
            if cost == 0 or (cost > 0 and (value or kind in needed)):
                yield Block((Member((Option(value, cost, position),), kind),))

    def _related(self, kinds: list[int], relations: Relations) -> list[Block]:
        """Make a block of each unit that can be in; what a unit requires comes before it."""
        blocks: list[Block] = []
        place_of: dict[int, int] = {}
        for number, unit in enumerate(relations.units):
            if unit.is_open:
                place_of[number] = len(blocks)
                things = [relations.things[thing] for thing in unit.things]
                members = tuple(self._member(thing.forms, kinds[thing.positions[0]]) for thing in things)
                blocks.append(Block(members, tuple(place_of[other] for other in unit.requires)))
        for rivals in relations.exclusive.values():
            units = (relations.unit_of[thing] for thing in rivals)
            self._exclusive.append(tuple(place_of[unit] for unit in units if unit in place_of))
        return blocks

    def _member(self, forms: Iterable[Form], kind: int) -> Member:
        """Leave out options that cost no less than another and are worth no more, unless tokens are wanted."""
        options = [Option(scaled_score(form.value), form.tokens, form.position) for form in forms]
        if any(floor.in_tokens and floor.kind == kind for floor in self._floors):
            return Member(tuple(options), kind)
        kept: list[Option] = []
        for option in sorted(options, key=lambda one: (one.tokens, -one.value, one.position)):
            if not kept or option.value > kept[-1].value:
                kept.append(option)
        return Member(tuple(kept), kind)

    def __call__(self, budget: ContextBudget) -> Selection:
        """Solve for one target; an empty pool or target chooses nothing and is short of nothing (ruling 5.26)."""
        target = min(budget.target_tokens, self._everything)
        if target <= 0 or not self._candidates.items:
            return Selection(
                [], explain=lambda position: self._limit_reached(position, [], budget), certificate=_NOTHING
            )
        answer = solve(Problem(self._blocks, target, self._exclusive, self._caps, self._floors), self._effort)
        chosen = sorted(option.position for option in answer.taken)
        counts, tokens = self._shortfalls(answer)
        return Selection(
            chosen,
            counts,
            lambda position: self._limit_reached(position, chosen, budget),
            Certificate(answer.value, answer.bound, self._proof(answer), tokens),
        )

    def _proof(self, answer: Answer) -> Proof:
        if not answer.is_settled:
            return "limit"
        if answer.value == answer.bound:
            return "optimal"
        return "within gap" if answer.bound <= self._effort.reach(answer.value) else "limit"

    def _shortfalls(
        self, answer: Answer
    ) -> tuple[tuple[CountRequirementShortfall, ...], tuple[TokenRequirementShortfall, ...]]:
        """Return the minima that were not reached; raise if that is not allowed."""
        counts: list[CountRequirementShortfall] = []
        tokens: list[TokenRequirementShortfall] = []
        for floor, got in zip(self._floors, answer.reached, strict=True):
            if got < floor.amount:
                kind = self._slicer.limits[floor.kind].kind.value
                if self._slicer.scarcity is ScarcityBehavior.THROW:
                    field = "min_tokens" if floor.in_tokens else "min_count"
                    raise ScarcityError("OptimalSlice", kind, got, floor.amount, field)
                if floor.in_tokens:
                    tokens.append(TokenRequirementShortfall(kind, floor.amount, got))
                else:
                    counts.append(CountRequirementShortfall(kind, floor.amount, got))
        return tuple(counts), tuple(tokens)

    def _limit_reached(self, position: int, chosen: list[int], budget: ContextBudget) -> ExclusionReason | None:
        """Blame the limit of the kind when it leaves no room and the item is not too large by itself."""
        candidates = self._candidates
        kind, cost = candidates.items[position].kind, candidates.tokens[position]
        place = self._kinds.get(kind.key)
        if place is None or cost > budget.target_tokens:
            return None
        limit = self._slicer.limits[place]
        costs = [candidates.tokens[one] for one in chosen if candidates.items[one].kind.key == kind.key]
        if limit.max_count is not None and len(costs) >= limit.max_count:
            return CountCapExceeded(kind.value, limit.max_count, len(costs))
        if limit.max_tokens is not None and sum(costs) + cost > limit.max_tokens:
            return QuotaCapExceeded(kind.value, limit.max_tokens, sum(costs) + cost)
        return None

    def span(self, budget: ContextBudget) -> Span:
        """Know only that nothing changes once everything fits."""
        if budget.target_tokens >= self._everything:
            return Span(self._everything, None)
        return super().span(budget)

    def reach(self) -> Reach:
        """Settle where everything fits; a choice never costs more than its target."""
        return Reach(self._everything)

    def effort(self, target: int) -> int:
        """Count on a relaxation, which is most of the time unless there is a core to search."""
        del target
        return _NANOSECONDS * len(self._candidates)


_NOTHING = Certificate(0, 0, "optimal")


def _floors(place: int, limit: KindLimit) -> Iterator[Floor]:
    if limit.min_count:
        yield Floor(place, limit.min_count)
    if limit.min_tokens:
        yield Floor(place, limit.min_tokens, in_tokens=True)
