"""Under which targets a fill in a fixed order takes an item, worked out from the item backwards.

Let the set hold the amounts that may be left before some item of the order so that the wanted one is taken in the end;
just before the wanted item that is its cost and everything above. Before an item of cost ``c``, an amount below ``c``
stays as it is, and any other is ``c`` more than what it becomes. So the set before the item is the part of the old one
below ``c``, and the old one moved up by ``c``. What lies above all earlier costs only moves, which takes no work.

Where a cap counts rivals, there is one such set for each number of rivals that may still be taken.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cupel._targets import Stretches, integers

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from cupel._targets import Work

_STEP, _JOIN = 4_000, 3_000  # what a step costs, and what joining two sets costs however small they are


class _Amounts(NamedTuple):
    """Edges, as in `Stretches`, each to be moved up by `shift`; never empty."""

    edges: NDArray[Any]
    shift: int
    least: int


class BackwardFill:
    """The costs of an order, ready for questions about any of its items."""

    __slots__ = ("_costs", "_largest", "_sums")

    def __init__(self, costs: list[int]) -> None:
        self._costs = costs
        self._sums = list(accumulate(costs, initial=0))
        self._largest = list(accumulate(costs, max, initial=0))

    def targets(self, rank: int, rivals: AbstractSet[int], room: int, highest: int, work: Work) -> Stretches:
        """Return the targets up to `highest` under which the item of this rank is taken, and fewer rivals than `room`.

        The rivals are ranks before the item's; what is said of targets above `highest` means nothing.
        """
        cost = self._costs[rank]
        layers: list[_Amounts | None] = [_Amounts(integers([cost], most=highest + self._sums[rank]), 0, cost)]
        if len(rivals) < room:
            rivals = frozenset()  # the cap is out of reach
        ahead = len(rivals)
        while rank:
            if not ahead:
                return self._alone(layers[min(room, len(layers)) - 1], rank, highest, work)
            live = len(layers) - layers.count(None)
            if not live:
                return Stretches([])
            rank -= 1
            work.spend(_STEP * live)
            if rank in rivals:
                ahead -= 1
                taken = [None, *layers]
                kept = [*layers, layers[-1]]
                # Of the sets for few rivals, only those matter that can still be the one for all of the room.
                first, stop = max(0, room - 1 - ahead), min(len(kept), room)
                layers = [
                    _before(kept[at], taken[at], self._costs[rank], highest, work) if at >= first else None
                    for at in range(stop)
                ]
            else:
                cost = self._costs[rank]
                layers = [layer and _before(layer, layer, cost, highest, work) for layer in layers]
        return _stretches(layers[min(room, len(layers)) - 1])

    def _alone(self, amounts: _Amounts | None, rank: int, highest: int, work: Work) -> Stretches:
        """Go on without rivals: mostly the set just moves."""
        costs, largest = self._costs, self._largest
        while amounts is not None and amounts.least < largest[rank]:
            least, shift = amounts.least, amounts.shift
            while rank and costs[rank - 1] <= least < largest[rank]:
                rank -= 1
                least, shift = least + costs[rank], shift + costs[rank]
            amounts = _Amounts(amounts.edges, shift, least)
            if least < largest[rank]:
                rank -= 1
                work.spend(_STEP)
                amounts = _before(amounts, amounts, costs[rank], highest, work)
        if amounts is None:
            return Stretches([])
        return _stretches(amounts._replace(shift=amounts.shift + self._sums[rank]))


def _before(kept: _Amounts | None, taken: _Amounts | None, cost: int, highest: int, work: Work) -> _Amounts | None:
    """Return the amounts before an item: those of `kept` below its cost, and those of `taken` moved up by it."""
    if taken is not None and taken.least + cost > highest:
        taken = None
    if kept is None or kept.least >= cost:
        return None if taken is None else _Amounts(taken.edges, taken.shift + cost, taken.least + cost)
    edge = cost - kept.shift
    low = kept.edges[: kept.edges.searchsorted(edge)]
    parts = [low]
    if len(low) % 2:
        parts.append(np.array([edge], low.dtype))
    if taken is not None:
        high = taken.edges + (taken.shift + cost - kept.shift)
        parts.append(high[: high.searchsorted(highest - kept.shift, side="right")])
    edges = np.concatenate(parts)
    work.spend(_JOIN + 3 * len(edges))
    return _Amounts(edges, kept.shift, kept.least)


def _stretches(amounts: _Amounts | None) -> Stretches:
    """Return what is left before the first item: targets, of which only positive ones choose anything."""
    if amounts is None:
        return Stretches([])
    return Stretches(np.maximum(amounts.edges + amounts.shift, 1))
