"""The best total score for the budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor, gcd, isfinite
from typing import TYPE_CHECKING, Literal

from cupel._checks import as_integer
from cupel.errors import SlicerConfigError, TableTooLargeError
from cupel.slicers._base import Chooser, FittedSlicer, Selection, Span
from cupel.slicers._bucket_choice import solve_finest
from cupel.slicers._greedy import GreedySlice
from cupel.slicers._knapsack_solver import solve, takes

if TYPE_CHECKING:
    from cupel._columns import Candidates
    from cupel.model import ContextBudget

DEFAULT_BUCKET_SIZE = 100
DEFAULT_MAX_CELLS = 50_000_000
SCORE_SCALE = 10_000
LARGEST_VALUE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KnapsackSlice(FittedSlicer):
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

    def _fit(self, candidates: Candidates) -> KnapsackChooser | FinestKnapsackChooser:
        """Scale scores and discretise token counts once."""
        if self.bucket_size == "auto":
            return FinestKnapsackChooser(candidates)
        return KnapsackChooser(candidates, self.bucket_size, self.max_cells)


class KnapsackChooser(Chooser):
    """Solves the knapsack in buckets of one size, for one target at a time."""

    __slots__ = ("bucket_size", "free", "max_cells", "positions", "rows", "values", "weights")

    def __init__(self, candidates: Candidates, bucket_size: int, max_cells: int | None) -> None:
        tokens = candidates.tokens
        costly = [position for position, cost in enumerate(tokens) if cost > 0]
        values = [_scaled(candidates.scores[position]) for position in costly]
        self.bucket_size = bucket_size
        self.max_cells = max_cells
        self.rows = len(costly)
        """How many candidates the guard counts."""
        self.free = [position for position, cost in enumerate(tokens) if cost == 0]
        """Positions without tokens."""
        # Only a strict improvement is kept (ruling 5.7), so worthless items are never chosen.
        self.positions = [position for position, value in zip(costly, values, strict=True) if value > 0]
        """Positions that cost something and are worth something, with `values`, and `weights` in buckets."""
        unit = gcd(*values)  # a common factor changes no comparison
        self.values = [value // unit for value in values if value > 0]
        self.weights = [-(-tokens[position] // bucket_size) for position in self.positions]

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

    def takes(self, position: int, target: int) -> bool:
        """Tell whether the choice for a target has one position, in less time than the whole choice takes."""
        if target <= 0:
            return False
        capacity = self.capacity(target)
        if position in self.free:
            return True
        if position not in self.positions or capacity == 0:
            return False
        return takes(self.values, self.weights, capacity, self.positions.index(position))

    def capacity(self, target: int) -> int:
        """Give a target in buckets, if the table for it is allowed."""
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
        if self.max_cells is None or not self.rows:
            return Span(max(1, everything * bucket), None)
        return Span(max(1, everything * bucket), max(1, self.max_cells // self.rows) * bucket)


class FinestKnapsackChooser(Chooser):
    """Solves the knapsack in the finest buckets that keep the work small, which each target decides anew."""

    __slots__ = ("_free", "_greedy", "_positions", "_scores", "_tokens", "_values")

    def __init__(self, candidates: Candidates) -> None:
        self._free = [position for position, cost in enumerate(candidates.tokens) if cost == 0]
        self._positions = [position for position, cost in enumerate(candidates.tokens) if cost > 0]
        costly = candidates.at(self._positions)
        self._scores, self._tokens = costly.scores, costly.tokens
        self._values = [_scaled(score) for score in costly.scores]
        self._greedy = GreedySlice().fit(costly)

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take the zero-token items, then the best of the others from the last to the first (ruling 5.13)."""
        target = budget.target_tokens
        if target <= 0:
            return Selection([])
        if not self._positions:
            return Selection(list(self._free))
        best = solve_finest(self._scores, self._values, self._tokens, target, self._greedy(budget).chosen)
        return Selection(self._free + [self._positions[index] for index in reversed(best)])


def _scaled(score: float) -> int:
    """Turn a score into the solver's whole number; beyond the finite it saturates (rulings 5.6, 5.9)."""
    scaled = score * SCORE_SCALE
    if not isfinite(scaled):
        return LARGEST_VALUE if scaled > 0 else 0
    return min(max(0, floor(scaled)), LARGEST_VALUE)
