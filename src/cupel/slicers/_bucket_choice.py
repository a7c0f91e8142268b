"""The search for a bucket size that is as fine as the work allows (``KnapsackSlice(bucket_size="auto")``)."""

from __future__ import annotations

from math import fsum, inf, isfinite
from typing import TYPE_CHECKING

from cupel.slicers._knapsack_solver import solve, table_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

COARSEST = 100
"""The specification's default; every other choice divides it."""

BUCKETS = (1, 2, 5, 10, 20, 50)
MOST_CELLS = 4_000_000  # a few milliseconds
_MOST_CAPACITY = 2_000_000  # keeps single rows small, however large the budget


def finest_bucket(values: Sequence[int], tokens: Sequence[int], target: int) -> int:
    """The finest of 1, 2, 5, 10, 20, 50 and 100 that leaves a small table after the solver's reductions.

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
    """Positions with the greatest sum of scores among the finest knapsack, the coarsest and the greedy choice.

    The knapsack sees scores rounded down to integer values, so its optimum may miss by that rounding. Comparing the
    sums themselves makes it certain that the result is worth no less than either of the other two. On equal sums the
    earlier in this list wins. All token counts are positive; ``greedy`` lists the positions that greedy would take.

    >>> solve_finest([0.9, 0.8], [9_000, 8_000], [30, 70], 100, greedy=[0, 1])
    [0, 1]
    """
    bucket = finest_bucket(values, tokens, target)
    choices = [_solve_in_buckets(values, tokens, target, bucket), sorted(greedy)]
    if bucket != COARSEST:
        choices.insert(1, _solve_in_buckets(values, tokens, target, COARSEST))
    return max(choices, key=lambda chosen: _worth([scores[i] for i in chosen]))


def _solve_in_buckets(values: Sequence[int], tokens: Sequence[int], target: int, bucket: int) -> list[int]:
    return solve(values, [-(-count // bucket) for count in tokens], target // bucket)


def _worth(scores: Sequence[float]) -> tuple[int, float]:
    """A sum of scores that any float may be part of: infinities count first, what is not a number counts nothing."""
    finite = fsum(score * 2.0**-64 for score in scores if isfinite(score))  # scaled, lest the sum overflow
    return scores.count(inf) - scores.count(-inf), finite
