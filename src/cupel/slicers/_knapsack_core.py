"""The knapsack table, run on the items that are not decided without it."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

_SMALL_CORE = 48  # rows that cost less than finding out whether they are needed
_INT64_SAFE = 2**61  # sums of two such numbers still fit
_ROUNDING = 1e-9  # far above the relative error of the few float operations it covers


class Relaxation(NamedTuple):
    """The problem seen from its reference subset; the arrays are indexed by position."""

    weights: Array
    loss: Array
    """The cost of differing from the reference."""
    inside: Array
    """Whether the reference takes the item."""
    free: int
    """Capacity the reference leaves unused; negative if it takes too much."""
    price: int
    """Loss for one unit of capacity that stays unused."""
    least: int
    """The smallest loss that belongs to an integer value."""
    gap: int
    """The loss of the best subset known."""


def choose(values: Sequence[int], weights: Sequence[int], capacity: int) -> list[int]:
    """Positions of the best subset; every value is positive, every weight fits, and not all fit together."""
    relaxation, core = find_core(values, weights, capacity)
    taken = relaxation.inside.copy()
    taken[core], _ = _run_table(relaxation, core)
    positions: list[int] = np.flatnonzero(taken).tolist()
    return positions


def count_cells(values: Sequence[int], weights: Sequence[int], capacity: int) -> int:
    """How many cells the table of :func:`choose` has unless it ends early."""
    relaxation, core = find_core(values, weights, capacity)
    begin, end, _ = _windows(relaxation, relaxation.weights[core], relaxation.loss[core], relaxation.inside[core])
    return int((end - begin).sum())


def find_core(values: Sequence[int], weights: Sequence[int], capacity: int) -> tuple[Relaxation, Array]:
    """The relaxation and the positions that it leaves undecided, ascending."""
    relaxation = _relax(values, weights, capacity)
    core = np.flatnonzero(relaxation.loss <= relaxation.gap)
    if len(core) > _SMALL_CORE and relaxation.gap > relaxation.least:
        # The items closest to the break density make a good subset, whose smaller gap decides many others.
        closest = np.sort(core[np.argsort(relaxation.loss[core])[:_SMALL_CORE]])
        _, loss = _run_table(relaxation, closest)
        relaxation = relaxation._replace(gap=min(loss, relaxation.gap))
        core = core[relaxation.loss[core] <= relaxation.gap]
    if len(core) > _SMALL_CORE:
        core = core[_undecided_by_chains(relaxation, core)]
    return relaxation, core


def _relax(values: Sequence[int], weights: Sequence[int], capacity: int) -> Relaxation:
    dtype = np.int64 if sum(values) * sum(weights) < _INT64_SAFE else np.object_
    v: Array = np.array(values, dtype)
    w: Array = np.array(weights, dtype)
    # The order needs no exactness: it only proposes a density and a subset.
    order = np.argsort(w.astype(float) / v.astype(float))
    filled = np.cumsum(w[order])
    at = int(np.searchsorted(filled, capacity, side="right"))
    break_item = int(order[at])
    p, q = values[break_item], weights[break_item]
    p, q = p // gcd(p, q), q // gcd(p, q)

    surplus = v * q - w * p
    inside = surplus > 0
    free = capacity - int(w[inside].sum())
    ties = np.flatnonzero(surplus == 0)  # the break item is one of them
    filled_by_ties = np.cumsum(w[ties])
    fitting = int(np.searchsorted(filled_by_ties, free, side="right"))
    if fitting:
        inside[ties[:fitting]] = True  # in input order, as the chains take them
        free -= int(filled_by_ties[fitting - 1])
    bound = p * capacity + int(surplus[inside].sum())
    known = _greedy_value(v, w, order, at, capacity)
    return Relaxation(w, np.abs(surplus), inside, free, p, bound % q, bound - q * known)


def _greedy_value(v: Array, w: Array, order: Array, at: int, capacity: int) -> int:
    """Value of the densest items up to the break item, filled up with whatever fits after it."""
    value, left = int(v[order[:at]].sum()), capacity - int(w[order[:at]].sum())
    rest = order[at + 1 :]
    while len(rest := rest[w[rest] <= left]):
        value, left = value + int(v[rest[0]]), left - int(w[rest[0]])
        rest = rest[1:]
    return value


def _undecided_by_chains(relaxation: Relaxation, core: Array) -> Array:
    """Which items of the core could differ from the reference together with their chain and its counterweight."""
    w, loss, inside = relaxation.weights[core], relaxation.loss[core], relaxation.inside[core]
    gap, free, ratio = float(relaxation.gap), relaxation.free, loss.astype(float) / w.astype(float)
    taken, left_out = np.flatnonzero(inside)[::-1], np.flatnonzero(~inside)  # chains start at the edge of the prefix
    sides = (
        (taken, left_out, free, float(relaxation.price)),  # other items come in, or capacity stays unused
        (left_out, taken, -free, 2 * gap + 1),  # other items go; nothing else makes room
    )
    undecided = np.zeros(len(core), bool)
    for side, others, balance, most in sides:
        chain = side[np.argsort(loss[side], kind="stable")]
        chain = chain[np.argsort(w[chain], kind="stable")]
        weight, total = w[chain], np.cumsum(loss[chain])
        first = np.searchsorted(weight, weight)  # where the chain of this weight begins
        cost = total - total[first] + loss[chain][first]
        moved = np.maximum((np.arange(len(chain)) - first + 1) * weight + balance, 0)
        per_unit = _lowest_elsewhere(ratio[others], w[others], weight, most)
        undecided[chain] = (cost.astype(float) + moved.astype(float) * per_unit) * (1 - _ROUNDING) <= gap
    return undecided


def _lowest_elsewhere(ratio: Array, weights: Array, own: Array, most: float) -> Array:
    """For each of the own weights, the lowest ratio among items of another weight, but no more than ``most``."""
    lowest = float(ratio.min(initial=most))
    if lowest == most:
        return np.full(len(own), most)
    at = int(weights[ratio.argmin()])
    next_lowest = float(ratio[weights != at].min(initial=most))
    return np.where(own == at, next_lowest, lowest)


def _run_table(relaxation: Relaxation, core: Array) -> tuple[list[bool], int]:
    """Return which items of the core the answer takes, the others being as in the reference, and its loss."""
    weights, loss, inside = relaxation.weights[core], relaxation.loss[core], relaxation.inside[core]
    begin, end, without_later = _windows(relaxation, weights, loss, inside)
    nothing_found = relaxation.gap + 1
    if (begin >= end).any():
        return [], nothing_found
    base, size = int(begin.min()), int(end.max() - begin.min())
    # No cell has to tell losses beyond the gap apart, so the smallest integers that can add two such losses will do.
    cells = np.full(size, nothing_found, np.min_scalar_type(-2 * nothing_found))
    unused = np.arange(max(base, 0), base + size).astype(weights.dtype)
    cells[size - len(unused) :] = np.minimum(unused * relaxation.price, nothing_found)

    shifts: list[int] = np.where(inside, -weights, weights).tolist()
    owed = _after(np.where(inside, loss, 0))  # the loss of leaving out all later items
    done = np.where(without_later < end, relaxation.least - owed, -1)
    first, stop, goal = (begin - base).tolist(), (end - base).tolist(), (without_later - base).tolist()
    rows = zip(shifts, loss.tolist(), first, stop, first[1:], stop[1:], goal[1:], done[1:].tolist(), strict=False)
    flips = _fill(cells, rows)
    last = len(flips)
    return _read_back(flips, shifts, goal[last]), int(cells[goal[last]]) + int(owed[last])


def _windows(relaxation: Relaxation, weights: Array, loss: Array, inside: Array) -> tuple[Array, Array, Array]:
    """For each row the first shift it holds, the one after its last, and the shift that needs no later item."""
    gap, free = relaxation.gap, relaxation.free
    drops, adds = np.where(inside, weights, 0), np.where(inside, 0, weights)
    most_dropped = _reach(weights[inside], loss[inside], gap)
    most_added = _reach(weights[~inside], loss[~inside], gap)
    drops_after, adds_after = _after(drops), _after(adds)
    drops_before, adds_before = drops_after[0] - drops_after, adds_after[0] - adds_after
    begin = np.maximum(-np.minimum(drops_before, most_dropped), free - np.minimum(adds_after, most_added))
    last = np.minimum(
        np.minimum(adds_before, most_added) + gap // relaxation.price,
        free + np.minimum(drops_after, most_dropped),
    )
    return begin, last + 1, free + drops_after


def _after(numbers: Array) -> Array:
    """For each row, the sum over the items from this row on; 0 after the last."""
    return np.append(np.cumsum(numbers[::-1])[::-1], 0)


def _reach(weights: Array, loss: Array, gap: int) -> int:
    """No less than the weight of any of these subsets whose loss is within the gap: a relaxation once more."""
    total, w, cost = int(weights.sum()), weights.astype(float), loss.astype(float)
    order = np.argsort(cost / w)
    at = int(np.searchsorted(np.cumsum(cost[order]), float(gap), side="right"))
    if at == len(order):
        return total
    weight_per_loss = w[order[at]] / cost[order[at]]
    bound = gap * weight_per_loss + np.maximum(w - cost * weight_per_loss, 0).sum()
    return int(min(bound * (1 + _ROUNDING) + 1, total))


def _fill(cells: Array, rows: Iterable[tuple[int, ...]]) -> list[tuple[int, Array]]:
    """Run rows until the goal is met; for each the first cell that could differ, and from there on which does."""
    flips: list[tuple[int, Array]] = []
    scratch = np.empty_like(cells)
    for shift, loss, begin_before, end_before, begin, end, goal, done in rows:
        first = max(begin_before + shift, begin)
        stop = max(min(end_before + shift, end), first)
        same = cells[first:stop]
        differing = np.add(cells[first - shift : stop - shift], loss, out=scratch[: stop - first])
        # On a tie the item is out, be that the reference's choice or not.
        flips.append((first, differing <= same if shift < 0 else differing < same))
        np.minimum(same, differing, out=same)
        if done >= 0 and cells[goal] <= done:
            break
    return flips


def _read_back(flips: list[tuple[int, Array]], shifts: list[int], at: int) -> list[bool]:
    chosen = [False] * len(shifts)
    for row in reversed(range(len(flips))):
        first, differs = flips[row]
        flip = 0 <= at - first < len(differs) and bool(differs[at - first])
        chosen[row] = flip != (shifts[row] < 0)
        if flip:
            at -= shifts[row]
    return chosen
