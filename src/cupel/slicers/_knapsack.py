"""The best total score for the budget."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from cupel._checks import as_integer
from cupel._ratios import scaled_score
from cupel.errors import SlicerConfigError, TableTooLargeError
from cupel.slicers._base import Chooser, FittingSlicer, Reach, Selection, Span
from cupel.slicers._bucket_choice import BUCKETS, COARSEST, solve_finest
from cupel.slicers._greedy import GreedySlice
from cupel.slicers._knapsack_solver import solve
from cupel.slicers._related_knapsack import RelatedKnapsackChooser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cupel._columns import Candidates
    from cupel._targets import Stretches, Targets, Wanted, Work
    from cupel.model import ContextBudget
    from cupel.slicers._knapsack_table import CapacityTable

DEFAULT_BUCKET_SIZE = 100
DEFAULT_MAX_CELLS = 50_000_000
_REDUCTION = 500  # roughly; ties and few items leave more


@dataclass(frozen=True, slots=True)
class KnapsackSlice(FittingSlicer):
    """Chooses the items with the greatest total score that fit, counting tokens in steps of `bucket_size`.

    Token counts are rounded up and the target down to whole buckets, so a coarse bucket leaves room unused; an item
    that scores under 0.0001 is never chosen. More than `max_cells` cells (candidates times target in buckets) raise
    `TableTooLargeError`; `max_cells=None` lifts the guard.

    `bucket_size="auto"` takes, for each budget, the finest of 1, 2, 5, 10, 20, 50 and 100 tokens that keeps the work
    small, so `max_cells` does not apply; the total score is never below that of `GreedySlice` or of buckets of 100.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> rows = (("a", 300, 0.9), ("b", 200, 0.5), ("c", 100, 0.45))
    >>> pool = [ScoredItem(ContextItem(name, tokens), score) for name, tokens, score in rows]
    >>> [item.content for item in KnapsackSlice(100).slice(pool, ContextBudget(300, 300))]
    ['c', 'b']
    """

    bucket_size: int | Literal["auto"] = DEFAULT_BUCKET_SIZE
    max_cells: int | None = field(default=DEFAULT_MAX_CELLS, kw_only=True)

    def __post_init__(self) -> None:
        if self.bucket_size != "auto":
            self._set("bucket_size", self.bucket_size, "an integer or 'auto'")
        if self.max_cells is not None:
            self._set("max_cells", self.max_cells, "an integer or None")

    def _set(self, name: str, value: object, expected: str) -> None:
        whole = as_integer(name, value, least=1, error=SlicerConfigError, expected=expected)
        object.__setattr__(self, name, whole)

    def _fit(self, candidates: Candidates) -> KnapsackChooser | FinestKnapsackChooser | RelatedKnapsackChooser:
        """Scale scores and discretise token counts once."""
        if candidates.relations is not None:
            return RelatedKnapsackChooser(candidates.relations, self.bucket_size, self.max_cells)
        if self.bucket_size == "auto":
            return FinestKnapsackChooser(candidates)
        return KnapsackChooser(candidates, self.bucket_size, self.max_cells)


class KnapsackChooser(Chooser):
    """Solves the knapsack in buckets of one size, for one target at a time."""

    __slots__ = ("_table", "bucket_size", "free", "max_cells", "positions", "rows", "values", "weights")

    def __init__(self, candidates: Candidates, bucket_size: int, max_cells: int | None) -> None:
        tokens = candidates.tokens
        costly = [position for position, cost in enumerate(tokens) if cost > 0]
        values = [scaled_score(candidates.scores[position]) for position in costly]
        self.bucket_size = bucket_size
        self.max_cells = max_cells
        self.rows = len(costly)
        """How many candidates the guard counts."""
        self.free = [position for position, cost in enumerate(tokens) if cost == 0]
        """Positions without tokens."""
        # Only a strict improvement is kept (ruling 5.7), so worthless items are never chosen.
        self.positions = [position for position, value in zip(costly, values, strict=True) if value > 0]
        """Positions that cost something and are worth something, with `values`, and `weights` in buckets."""
        self.values = [value for value in values if value > 0]
        self.weights = [-(-tokens[position] // bucket_size) for position in self.positions]
        self._table: CapacityTable | None = None

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take the zero-token items, then the best of the others from the last to the first (ruling 5.13)."""
        target = budget.target_tokens
        if target <= 0:
            return Selection([])
        capacity = self.capacity(target)
        if not self.positions or capacity == 0:
            return Selection(list(self.free))
        best = solve(self.values, self.weights, capacity)
        return Selection(self.free + [self.positions[index] for index in reversed(best)])

    def capacity(self, target: int) -> int:
        """Return a target in buckets, if the table for it is allowed."""
        capacity = target // self.bucket_size
        cells = self.rows * (capacity + 1)
        if capacity > 0 and self.max_cells is not None and cells > self.max_cells:
            raise TableTooLargeError(self.rows, capacity, cells, self.max_cells)
        return capacity

    def span(self, budget: ContextBudget) -> Span:
        """Cover the whole bucket the target lies in."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1 if self.rows or self.free else None)
        bucket = self.bucket_size
        capacity = target // bucket
        everything = sum(self.weights)
        if capacity < everything:
            return Span(max(1, capacity * bucket), (capacity + 1) * bucket)
        return Span(max(1, everything * bucket), self._refused_from())

    @property
    def order(self) -> list[int]:
        """Zero-token items, then the others from the last to the first."""
        return self.free + self.positions[::-1]

    def reach(self) -> Reach:
        """Everything fits into the sum of the buckets."""
        return Reach(sum(self.weights) * self.bucket_size)

    def targets(self, wanted: Wanted, highest: int, work: Work) -> Stretches:
        """Read the specification's table back from every capacity at the same time."""
        from cupel._targets import Stretches
        from cupel.slicers._knapsack_table import CapacityTable  # brings NumPy

        refused = self._refused_from()
        needed = highest if refused is None else min(highest, refused - 1)
        if self._table is None or not self._table.answers(needed):
            self._table = CapacityTable.of(self, needed, work)
        edges = self._table.edges(wanted, work)
        if refused is not None and refused <= highest:
            edges = [edge for edge in edges if edge < refused]
            edges += [refused] * (len(edges) % 2)
        return Stretches(edges)

    def refused(self, work: Work) -> Stretches | None:
        """Every table from a certain size on is too large."""
        del work
        from cupel._targets import Stretches

        refused = self._refused_from()
        return None if refused is None else Stretches([refused])

    def _refused_from(self) -> int | None:
        if self.max_cells is None or not self.rows:
            return None
        return max(1, self.max_cells // self.rows) * self.bucket_size

    def effort(self, target: int) -> int:
        """The reductions leave a small part of the table."""
        return len(self.weights) * min(target // self.bucket_size, sum(self.weights)) // _REDUCTION

    def replay(self, kinds: Mapping[str, int]) -> dict[str, Any]:
        """The script fills the table itself."""
        del kinds
        return {"type": "knapsack", "bucket_size": self.bucket_size, "max_cells": self.max_cells}


class FinestKnapsackChooser(Chooser):
    """Solves the knapsack in the finest buckets that keep the work small, which each target decides anew."""

    __slots__ = ("_costly", "_free", "_greedy", "_knapsacks", "_positions", "_scores", "_tokens", "_values")

    def __init__(self, candidates: Candidates) -> None:
        self._free = [position for position, cost in enumerate(candidates.tokens) if cost == 0]
        self._positions = [position for position, cost in enumerate(candidates.tokens) if cost > 0]
        costly = candidates.at(self._positions)
        self._costly = costly
        self._scores, self._tokens = costly.scores, costly.tokens
        self._values = [scaled_score(score) for score in costly.scores]
        self._greedy = GreedySlice().fit(costly)
        self._knapsacks: list[KnapsackChooser] = []

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take the zero-token items, then the best of the others from the last to the first (ruling 5.13)."""
        target = budget.target_tokens
        if target <= 0:
            return Selection([])
        if not self._positions:
            return Selection(list(self._free))
        best = solve_finest(self._scores, self._values, self._tokens, target, self._greedy(budget).chosen)
        return Selection(self._free + [self._positions[index] for index in reversed(best)])

    @property
    def order(self) -> list[int]:
        """Zero-token items, then the others from the last to the first."""
        return self._free + self._positions[::-1]

    def reach(self) -> Reach:
        """Everything fits into the sum of the coarsest buckets; before, it takes a run to tell which size it is."""
        return Reach(sum(-(-cost // COARSEST) * COARSEST for cost in self._tokens), sure=False)

    def targets(self, wanted: Wanted, highest: int, work: Work) -> Targets:
        """Return where any size of bucket, or greedy, takes the item: whatever none of them takes is not taken."""
        from cupel._targets import AnyOf, Stretches, Wanted

        at = bisect_left(self._positions, wanted.position)
        if at == len(self._positions) or self._positions[at] != wanted.position:
            return Stretches([1])  # it costs nothing
        alone = Wanted(at)
        if not self._knapsacks:
            self._knapsacks += [KnapsackChooser(self._costly, size, None) for size in (*BUCKETS, COARSEST)]
        sets = [chooser.targets(alone, highest, work) for chooser in (self._greedy, *self._knapsacks)]
        return AnyOf([found for found in sets if found is not None])
