"""All targets under which a greedy order takes an item, for questions about many budgets at once."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

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


_JOIN = 7_000  # the cost of joining two sets of any size


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
        least, shift = self._costs[rank], 0
        edges: Edges = np.array([least])  # the amounts before an item, to be moved up by `shift`
        while least < self._largest[rank] and least <= highest:
            rank -= 1
            cost = self._costs[rank]
            if cost <= least:
                least, shift = least + cost, shift + cost
                continue
            low = edges[: edges.searchsorted(cost - shift)]
            parts: list[Any] = [low, np.array([cost - shift])] if len(low) % 2 else [low]
            if least + cost <= highest:
                high: Edges = edges + cost
                parts.append(high[: high.searchsorted(highest - shift, side="right")])
            edges = np.concatenate(parts)
            work.spend(_JOIN + 3 * len(edges))
        if least + self._sums[rank] > highest:
            return IntervalSet([])
        # Only positive targets choose anything.
        return IntervalSet(np.maximum(edges + (shift + self._sums[rank]), 1))
