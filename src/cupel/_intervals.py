"""All targets under which a greedy order takes an item, for questions about many budgets at once."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Edges = NDArray[np.int64]


class TooMuchWork(Exception):  # noqa: N818  (not an error: a search that ends early and says so)
    """A search would exceed its limit of work."""


class Work:
    """The effort that a question may still cost, in steps of about a nanosecond; counted, so that answers repeat."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take steps off the rest."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork


class IntervalSet:
    """A set of targets as edges: inside from the first, outside from the second, and so on.

    >>> IntervalSet([5, 8, 20]).next(8)
    20
    """

    __slots__ = ("_edges",)

    def __init__(self, edges: Sequence[int] | Edges) -> None:
        self._edges: Any = edges

    def next(self, target: int) -> int | None:
        """Return the least target from this one on that is in the set, or None."""
        at = bisect_right(self._edges, target)
        if at % 2 == 1:
            return target
        return int(self._edges[at]) if at < len(self._edges) else None


class _Amounts(NamedTuple):
    """Amounts left before an item, as edges to be moved up by `shift`; never empty."""

    edges: Edges
    shift: int
    least: int


_STEP, _JOIN = 4_000, 3_000  # the cost of a step, and of joining two sets of any size


class BackwardFill:
    """The costs of a greedy order, followed from an item back to the first."""

    __slots__ = ("_costs", "_largest", "_sums")

    def __init__(self, costs: list[int]) -> None:
        self._costs = costs
        self._sums = list(accumulate(costs, initial=0))
        self._largest = list(accumulate(costs, max, initial=0))

    def targets(self, rank: int, highest: int, work: Work) -> IntervalSet:
        """Return the targets up to `highest` that take the item of this rank; those above mean nothing.

        An amount leads to the item if the item before leaves it, or takes its cost and leaves it. Mostly every item
        before is taken, and the set just moves up by its cost.
        """
        costs, largest = self._costs, self._largest
        amounts: _Amounts | None = _Amounts(np.array([costs[rank]]), 0, costs[rank])
        while amounts is not None and amounts.least < largest[rank]:
            least, shift = amounts.least, amounts.shift
            while rank and costs[rank - 1] <= least < largest[rank]:
                rank -= 1
                least, shift = least + costs[rank], shift + costs[rank]
            amounts = _Amounts(amounts.edges, shift, least) if least <= highest else None
            if amounts is not None and least < largest[rank]:
                rank -= 1
                work.spend(_STEP)
                amounts = _before(amounts, costs[rank], highest, work)
        if amounts is None or amounts.least + self._sums[rank] > highest:
            return IntervalSet([])
        # Only positive targets choose anything.
        return IntervalSet(np.maximum(amounts.edges + (amounts.shift + self._sums[rank]), 1))


def _before(after: _Amounts, cost: int, highest: int, work: Work) -> _Amounts | None:
    """Return the amounts before an item: those below its cost, and all of them moved up by it."""
    is_taken = after.least + cost <= highest
    if after.least >= cost:
        return _Amounts(after.edges, after.shift + cost, after.least + cost) if is_taken else None
    edge = cost - after.shift
    low = after.edges[: after.edges.searchsorted(edge)]
    parts: list[Any] = [low]
    if len(low) % 2:
        parts.append(np.array([edge]))
    if is_taken:
        high = after.edges + cost
        parts.append(high[: high.searchsorted(highest - after.shift, side="right")])
    edges = np.concatenate(parts)
    work.spend(_JOIN + 3 * len(edges))
    return _Amounts(edges, after.shift, after.least)
