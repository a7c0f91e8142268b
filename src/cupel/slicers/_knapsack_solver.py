"""The exact 0/1 knapsack behind ``KnapsackSlice``: what needs no table is answered here, the rest by its core."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def solve(values: Sequence[int], weights: Sequence[int], capacity: int) -> list[int]:
    """Positions chosen by the specification's dynamic program, its choice among ties included, in ascending order.

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
    """The most cells that :func:`solve` computes after its reductions: what an answer costs, without a clock.

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
    """The positions that can be chosen at all, with their values and weights in the largest common units."""
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
