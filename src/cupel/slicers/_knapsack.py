"""The best total score for the budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum, gcd, inf, isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from cupel._internal.checks import as_integer
from cupel._internal.columns import scaled_score
from cupel.errors import SlicerConfigError, TableTooLargeError
from cupel.slicers._base import Chooser, PreparingSlicer, Selection, Span
from cupel.slicers._greedy import GreedySlice, UpgradeChooser, Upgrades, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

    from cupel._internal.columns import Candidates
    from cupel._internal.relations import Form, Relations
    from cupel.model import ContextBudget


def solve(values: Sequence[int], weights: Sequence[int], capacity: int) -> list[int]:
    """Return the positions that the specification's dynamic program chooses, ties included, in ascending order.

    Values are integers from 0 to 2**63 - 1, whose sum may be larger; weights and the capacity are positive integers.

    >>> solve([60, 100, 120], [10, 20, 30], 50)
    [1, 2]
    >>> solve([5, 5, 5], [2, 2, 2], 4)
    [0, 1]
    """
    positions, values, weights, capacity = _simplify(values, weights, capacity)
    if sum(weights) <= capacity:
        return list(positions)
    from cupel.slicers._knapsack_core import choose

    return [positions[i] for i in choose(values, weights, capacity)]


def table_cells(values: Sequence[int], weights: Sequence[int], capacity: int) -> int:
    """Return the most cells that `solve` computes after its reductions: the cost of an answer without a clock.

    >>> table_cells([60, 100, 120], [10, 20, 30], 60)
    0
    """
    _, values, weights, capacity = _simplify(values, weights, capacity)
    if sum(weights) <= capacity:
        return 0
    from cupel.slicers._knapsack_core import count_cells

    return count_cells(values, weights, capacity)


def _simplify(
    values: Sequence[int], weights: Sequence[int], capacity: int
) -> tuple[Sequence[int], Sequence[int], Sequence[int], int]:
    """Return the positions that can be chosen at all, with their values and weights in the largest common units."""
    positions: Sequence[int] = range(len(values))
    if len(values) != len(weights) or min(values, default=1) <= 0 or max(weights, default=0) > capacity:
        # Only a strict improvement is kept (ruling 5.7), so worthless items are never chosen.
        positions = [i for i, (v, w) in enumerate(zip(values, weights, strict=True)) if v > 0 and w <= capacity]
        values, weights = [values[i] for i in positions], [weights[i] for i in positions]
    # Common factors change no comparison; without them the integer bound is tighter and the table narrower.
    if (unit := gcd(*weights)) > 1:
        weights, capacity = [w // unit for w in weights], capacity // unit
    if (unit := gcd(*values)) > 1:
        values = [v // unit for v in values]
    return positions, values, weights, capacity


COARSEST = 100
"""The specification's default; every other choice divides it."""

BUCKETS = (1, 2, 5, 10, 20, 50)
MOST_CELLS = 4_000_000  # a few milliseconds
_MOST_CAPACITY = 2_000_000  # keeps single rows small, however large the budget


def finest_bucket(values: Sequence[int], tokens: Sequence[int], target: int) -> int:
    """Return the finest of 1, 2, 5, 10, 20, 50 and 100 that leaves a small table after the solver's reductions.

    The choice depends on the pool alone, never on a clock. Because each size divides 100, whatever fits in buckets of
    100 fits in the finer ones too: in the integer values the finer optimum is never worse.

    >>> finest_bucket([5_000, 4_000], [70, 80], 100)
    1
    """
    for bucket in BUCKETS:
        if target // bucket <= _MOST_CAPACITY:
            weights = [-(-count // bucket) for count in tokens]
            if table_cells(values, weights, target // bucket) <= MOST_CELLS:
                return bucket
    return COARSEST


def solve_finest(
    scores: Sequence[float], values: Sequence[int], tokens: Sequence[int], target: int, greedy: Sequence[int]
) -> list[int]:
    """Return the positions with the greatest sum of scores: the finest knapsack, the coarsest, or the greedy choice.

    The knapsack sees scores rounded down to integer values, so its optimum may miss by that rounding. Comparing the
    sums themselves makes it certain that the result is worth no less than either of the other two. On equal sums the
    earlier in this list wins. All token counts are positive; `greedy` lists the positions that greedy would take.

    >>> solve_finest([0.9, 0.8], [9_000, 8_000], [30, 70], 100, greedy=[0, 1])
    [0, 1]
    """
    bucket = finest_bucket(values, tokens, target)
    sizes = dict.fromkeys((bucket, COARSEST))
    choices = [_solve_in_buckets(values, tokens, target // size, size) for size in sizes]
    choices.append(sorted(greedy))
    return max(choices, key=lambda chosen: _worth([scores[i] for i in chosen]))


def _solve_in_buckets(values: Sequence[int], tokens: Sequence[int], capacity: int, bucket: int) -> list[int]:
    return solve(values, [-(-count // bucket) for count in tokens], capacity)


def _worth(scores: Sequence[float]) -> tuple[int, float]:
    """Add scores up: infinities count first, NaN counts nothing."""
    finite = fsum(score * 2.0**-64 for score in scores if isfinite(score))  # scaled, lest the sum overflow
    return scores.count(inf) - scores.count(-inf), finite


DEFAULT_MAX_CELLS = 50_000_000


@dataclass(frozen=True, slots=True)
class KnapsackSlice(PreparingSlicer):
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

    bucket_size: int | Literal["auto"] = COARSEST
    max_cells: int | None = field(default=DEFAULT_MAX_CELLS, kw_only=True)

    def __post_init__(self) -> None:
        if self.bucket_size != "auto":
            self._set("bucket_size", self.bucket_size, "an integer or 'auto'")
        if self.max_cells is not None:
            self._set("max_cells", self.max_cells, "an integer or None")

    def _set(self, name: str, value: object, expected: str) -> None:
        whole = as_integer(name, value, least=1, error=SlicerConfigError, expected=expected)
        object.__setattr__(self, name, whole)

    def _prepare(self, candidates: Candidates) -> KnapsackChooser | RelatedKnapsackChooser:
        """Scale the scores once."""
        if candidates.relations is not None:
            return RelatedKnapsackChooser(self, candidates.relations)
        return KnapsackChooser(self, candidates)


class _TableChooser(Chooser):
    """Fills tables in buckets of one size, or of a size chosen for each target."""

    def __init__(self, slicer: KnapsackSlice, rows: int, tokens: Iterable[int]) -> None:
        bucket_size = slicer.bucket_size
        self._bucket_size: int | None = None if bucket_size == "auto" else bucket_size
        self._max_cells = None if bucket_size == "auto" else slicer.max_cells
        self._rows = rows
        """How many candidates the guard counts."""
        bucket = self._bucket_size or COARSEST
        self._everything = max(1, sum(-(-cost // bucket) * bucket for cost in tokens))
        """The least target that has room for all candidates that can be chosen."""

    def _capacity(self, target: int, bucket: int) -> int:
        """Return a target in buckets, if the table for it is allowed."""
        capacity = target // bucket
        cells = self._rows * (capacity + 1)
        if capacity > 0 and self._max_cells is not None and cells > self._max_cells:
            raise TableTooLargeError(self._rows, capacity, cells, self._max_cells)
        return capacity

    def span(self, budget: ContextBudget) -> Span:
        """Cover the whole bucket the target lies in, all targets that hold everything, or all that are refused."""
        target, bucket = budget.target_tokens, self._bucket_size
        refused = None
        if bucket is not None and self._max_cells is not None and self._rows:
            refused = max(1, self._max_cells // self._rows) * bucket
        if target <= 0:
            return Span(target, 1)
        if refused is not None and target >= refused:
            return Span(refused, None)
        if target >= self._everything:
            return Span(self._everything, refused)
        if bucket is None:
            return super().span(budget)
        return Span(max(1, target // bucket * bucket), (target // bucket + 1) * bucket)


class KnapsackChooser(_TableChooser):
    """Solves the knapsack for one target at a time."""

    def __init__(self, slicer: KnapsackSlice, candidates: Candidates) -> None:
        self._free = [position for position, cost in enumerate(candidates.tokens) if cost == 0]
        self._positions = [position for position, cost in enumerate(candidates.tokens) if cost > 0]
        costly = candidates.at(self._positions)
        self._scores, self._tokens = costly.scores, costly.tokens
        self._values = [scaled_score(score) for score in costly.scores]
        is_automatic = slicer.bucket_size == "auto"
        self._greedy = GreedySlice().prepare(costly) if is_automatic else None
        useful = (cost for cost, value in zip(self._tokens, self._values, strict=True) if value or is_automatic)
        super().__init__(slicer, len(self._positions), useful)

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take the zero-token items, then the best of the others from the last to the first (ruling 5.13)."""
        target, bucket = budget.target_tokens, self._bucket_size
        if target <= 0:
            return Selection([])
        if bucket is not None:
            best = _solve_in_buckets(self._values, self._tokens, self._capacity(target, bucket), bucket)
        else:
            greedy = [] if self._greedy is None else self._greedy(budget).chosen
            best = solve_finest(self._scores, self._values, self._tokens, target, greedy)
        return Selection(self._free + [self._positions[index] for index in reversed(best)])


_LARGEST_SUM = 2**62
_MOST_AUTOMATIC = 50_000_000
"""Cells of the largest table that is filled without being asked for by its bucket size."""

ValueTable: TypeAlias = "np.ndarray[Any, Any]"
"""A number for each capacity."""


class RelatedKnapsackChooser(_TableChooser):
    """Finds the forms and groups of the greatest total value.

    With automatic buckets the greedy choice is taken where it is worth more, or where even the coarsest table would be
    too large.
    """

    def __init__(self, slicer: KnapsackSlice, relations: Relations) -> None:
        upgrades = Upgrades(relations)
        self._forms = {form.position: form for entity in relations.entities for form in entity.forms}
        self._greedy = UpgradeChooser(upgrades, upgrades.by_density())
        self._groups = [
            [relations.entities[entity].forms for entity in group.entities]
            for group in relations.groups
            if group.is_open
        ]
        rows = sum(form.tokens > 0 for form in self._forms.values())
        super().__init__(slicer, rows, (max(form.tokens for form in forms) for one in self._groups for forms in one))

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take the best choice; of equal ones the table's."""
        target = budget.target_tokens
        if target <= 0:
            return Selection([])
        buckets = self._buckets(target)
        choices = [solve_related(self._groups, bucket, self._capacity(target, bucket)) for bucket in buckets]
        if self._bucket_size is None:
            choices.append(self._greedy(budget).chosen)
        return Selection(max(choices, key=lambda chosen: total(self._forms[position] for position in chosen)))

    def _buckets(self, target: int) -> list[int]:
        if self._bucket_size is not None:
            return [self._bucket_size]
        cells = {bucket: self._rows * (target // bucket + 1) for bucket in (*BUCKETS, COARSEST)}
        if cells[COARSEST] > _MOST_AUTOMATIC:
            return []
        fine = next((bucket for bucket in BUCKETS if cells[bucket] <= MOST_CELLS), COARSEST)
        return list(dict.fromkeys((fine, COARSEST)))


def solve_related(groups: list[list[tuple[Form, ...]]], bucket: int, capacity: int) -> list[int]:
    """Return the positions of the best choice: of each group nothing, or one form of each of its entities.

    Tokens are rounded up to buckets. A group that costs nothing is always in; among equal choices the one that leaves
    later groups out, or has smaller forms, wins.

    >>> from cupel._internal.relations import Form
    >>> solve_related([[(Form(1, 2, 0.3), Form(0, 9, 0.9))], [(Form(2, 5, 0.5),)]], 1, 8)
    [1, 2]
    """
    import numpy as np  # only where there is a table

    every = [forms for entities in groups for forms in entities]
    capacity = min(capacity, sum(max(_weight(form, bucket) for form in forms) for forms in every))
    most = sum(max(scaled_score(form.value) for form in forms) for forms in every)
    kind: Any = np.int64 if most < _LARGEST_SUM else object  # beyond, Python's own integers
    best: ValueTable = np.zeros(capacity + 1, kind)
    rows: list[tuple[ValueTable, list[ValueTable]]] = []
    for entities in groups:
        reached = best
        picks: list[ValueTable] = []
        for forms in entities:
            reached, pick = _with_one_of(reached, forms, bucket, most)
            picks.append(pick)
        taken: ValueTable = reached >= best if all(forms[0].tokens == 0 for forms in entities) else reached > best
        best = np.where(taken, reached, best)
        rows.append((taken, picks))
    return _traced(groups, rows, bucket, capacity)


def _with_one_of(before: ValueTable, forms: tuple[Form, ...], bucket: int, most: int) -> tuple[ValueTable, ValueTable]:
    """Add exactly one form of an entity; values that cannot be reached are below zero."""
    import numpy as np

    after: ValueTable = np.full_like(before, -most - 1)
    pick: ValueTable = np.zeros(len(before), np.int32)
    for place, form in enumerate(forms):
        weight, value = _weight(form, bucket), scaled_score(form.value)
        if weight < len(before):
            source = before[: len(before) - weight]
            better: ValueTable = (source >= 0) & (source + value > after[weight:])
            after[weight:][better] = source[better] + value
            pick[weight:][better] = place
    return after, pick


def _traced(
    groups: list[list[tuple[Form, ...]]], rows: list[tuple[ValueTable, list[ValueTable]]], bucket: int, left: int
) -> list[int]:
    """Read the choice for a capacity back from the last group to the first."""
    chosen: list[int] = []
    for entities, (taken, picks) in zip(reversed(groups), reversed(rows), strict=True):
        if taken[left]:
            for forms, pick in zip(reversed(entities), reversed(picks), strict=True):
                form = forms[int(pick[left])]
                chosen.append(form.position)
                left -= _weight(form, bucket)
    return chosen[::-1]


def _weight(form: Form, bucket: int) -> int:
    return -(-form.tokens // bucket)
