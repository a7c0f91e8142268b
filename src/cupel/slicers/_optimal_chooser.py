"""Candidates as a problem for the optimiser, and its answer as a selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel._optimum import Block, Cap, Effort, Floor, Member, Option, Problem, solve
from cupel._ratios import scaled_score
from cupel.diagnostics import (
    Certificate,
    CountCapExceeded,
    CountRequirementShortfall,
    QuotaCapExceeded,
    TokenRequirementShortfall,
)
from cupel.errors import ScarcityError
from cupel.slicers._base import Chooser, Reach, Selection, Span
from cupel.slicers._count import ScarcityBehavior

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cupel._columns import Candidates
    from cupel._optimum import Answer
    from cupel._relations import Form, Relations
    from cupel.diagnostics import ExclusionReason, Proof
    from cupel.model import ContextBudget
    from cupel.slicers._optimal import KindLimit, OptimalSlice

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
