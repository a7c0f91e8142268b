"""Targets under which a slicer takes an item."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cupel._targets import Stretches, Targets, integers

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from cupel._targets import Work
    from cupel.slicers._quota import Sharing


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


_FIRST_BLOCK, _LARGEST_BLOCK = 64, 1 << 14
_SHARE, _LARGE_SHARE = 30, 2_000  # what sharing one target with one kind costs, in 64 bits and beyond


class ShareTargets(Targets):
    """The targets under which one kind's share is in the inner set.

    A share follows the target along a line, up to a few tokens of rounding. So all targets are looked at only close to
    where the line meets an edge of the inner set, and those between are passed over.
    """

    __slots__ = ("_inner", "_kind", "_sharing", "_work")

    def __init__(self, sharing: Sharing, kind: int, inner: Targets, work: Work) -> None:
        self._sharing = sharing
        self._kind = kind
        self._inner = inner
        self._work = work

    def holds(self, column: NDArray[Any]) -> NDArray[Any]:
        """Share the targets and ask the inner set."""
        targets = self._sharing.column(np.maximum(column, 0))
        cost = _LARGE_SHARE if targets.dtype == np.object_ else _SHARE
        self._work.spend(cost * (len(targets) + _FIRST_BLOCK) * len(self._sharing.entries))
        share, _ = self._sharing.shares(targets)[self._kind]
        return self._inner.holds(share)

    def next(self, target: int, *, inside: bool = True) -> int | None:
        """Look at every target until no rounding can lead back, then pass over those that cannot get there."""
        if target < 1 and not inside:
            return target
        target = max(target, 1)
        sharing, kind = self._sharing, self._kind
        while True:
            share = sharing.shares(target)[kind][0]
            goal = self._inner.next(share, inside=inside)
            if goal == share:
                return target
            lasting = sharing.surely_gives(kind, share)  # from there on, shares are no smaller than this one
            if lasting is None:
                return self._without_growth(target, inside=inside)
            found = self._look(target + 1, lasting, inside=inside)
            if found is not None or goal is None:
                return found
            first = max(target, lasting, sharing.may_give(kind, goal) - 1) + 1
            target = max(first, sharing.surely_gives(kind, goal) or 0)
            found = self._look(first, target, inside=inside)
            if found is not None:
                return found

    def _without_growth(self, target: int, *, inside: bool) -> int | None:
        """Look for a share that rounding alone gives, for as long as there is work to spend."""
        sharing, kind = self._sharing, self._kind
        if sharing.gets_nothing(kind):
            return None if inside else target
        found = self._look(target, sharing.steady_from, inside=inside)
        if found is not None:
            return found
        target = max(target, sharing.steady_from)
        least = self._inner.next(0, inside=inside)
        if least is None or least > min(line.slope * target + line.slack for line in sharing.lines[kind]):
            return None
        return self._look(target, None, inside=inside)

    def _look(self, first: int, last: int | None, *, inside: bool) -> int | None:
        """Try every target up to the last; for ever if there is none."""
        count = _FIRST_BLOCK
        while last is None or first <= last:
            stop = first + count if last is None else min(first + count, last + 1)
            found = np.flatnonzero(self.holds(np.array(range(first, stop))) == inside)
            if len(found):
                return first + int(found[0])
            first, count = stop, min(2 * count, _LARGEST_BLOCK)
        return None
