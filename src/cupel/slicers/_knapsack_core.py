"""The knapsack table, run on the items that are not decided without it."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

_SMALL_CORE = 48  # rows that cost less than finding out whether they are needed
_INT64_SAFE = 2**61  # sums of two such numbers still fit


class Relaxation(NamedTuple):
    """The problem with capacity for sale at the density of the break item; the arrays are indexed by position."""

    values: Array
    weights: Array
    capacity: int
    inside: Array
    """Whether an item is worth more than its weight costs; all of these fit."""
    loss: Array
    """By how much the bound falls, at least, if the item is decided the other way."""
    scale: int
    """The bound and the losses are values times this number, so that they are integers."""
    bound: int
    """No subset is worth more."""
    known: int
    """The value of the best subset known."""

    def undecided(self) -> Array:
        """Return the positions, ascending, that may differ from `inside` in a subset as good as the known one."""
        return np.flatnonzero(self.loss <= self.bound - self.scale * self.known)

    def room(self, core: Array) -> int:
        """Return the capacity that the core shares, all other items being as in `inside`."""
        return self.capacity - int(self.weights[self.inside].sum()) + int(self.weights[core][self.inside[core]].sum())


def choose(values: Sequence[int], weights: Sequence[int], capacity: int) -> list[int]:
    """Return the positions of the best subset; every value is positive, every weight fits, and not all fit together."""
    positions: list[int] = np.flatnonzero(_run_table(*find_core(values, weights, capacity))).tolist()
    return positions


def count_cells(values: Sequence[int], weights: Sequence[int], capacity: int) -> int:
    """Return how many cells the table of `choose` has unless it ends early."""
    relaxation, core = find_core(values, weights, capacity)
    return len(core) * (relaxation.room(core) + 1)


def find_core(values: Sequence[int], weights: Sequence[int], capacity: int) -> tuple[Relaxation, Array]:
    """Return the relaxation and the positions that it leaves undecided, ascending."""
    relaxation = _relax(values, weights, capacity)
    core = relaxation.undecided()
    if len(core) > _SMALL_CORE and relaxation.known < relaxation.bound // relaxation.scale:
        # The items closest to the break density make a good subset, which decides many others.
        closest = np.sort(core[np.argsort(relaxation.loss[core])[:_SMALL_CORE]])
        value = int(relaxation.values[_run_table(relaxation, closest)].sum())
        relaxation = relaxation._replace(known=max(value, relaxation.known))
        core = relaxation.undecided()
    return relaxation, core


def _relax(values: Sequence[int], weights: Sequence[int], capacity: int) -> Relaxation:
    dtype = np.int64 if sum(values) * sum(weights) < _INT64_SAFE else np.object_
    v: Array = np.array(values, dtype)
    w: Array = np.array(weights, dtype)
    # The order needs no exactness: it only proposes a density and a subset.
    order = np.argsort(w.astype(float) / v.astype(float))
    at = int(np.searchsorted(np.cumsum(w[order]), capacity, side="right"))
    break_item = int(order[at])
    p, q = values[break_item], weights[break_item]
    p, q = p // gcd(p, q), q // gcd(p, q)
    surplus = v * q - w * p
    inside = surplus > 0
    bound = p * capacity + int(surplus[inside].sum())
    return Relaxation(v, w, capacity, inside, np.abs(surplus), q, bound, _greedy_value(v, w, order, at, capacity))


def _greedy_value(v: Array, w: Array, order: Array, at: int, capacity: int) -> int:
    """Return the value of the densest items up to the break item, and of those after it that still fit."""
    value, left = int(v[order[:at]].sum()), capacity - int(w[order[:at]].sum())
    rest = order[at + 1 :]
    while len(rest := rest[w[rest] <= left]):
        value, left = value + int(v[rest[0]]), left - int(w[rest[0]])
        rest = rest[1:]
    return value


def _run_table(relaxation: Relaxation, core: Array) -> Array:
    """Return which items the best subset takes, all but the core being as in the relaxation."""
    taken = relaxation.inside.copy()
    taken[core] = False
    room = relaxation.room(core)
    goal = relaxation.bound // relaxation.scale - int(relaxation.values[taken].sum())
    values: list[int] = relaxation.values[core].tolist()
    weights: list[int] = relaxation.weights[core].tolist()
    best = np.zeros(room + 1, relaxation.values.dtype)
    rows: list[tuple[int, Array]] = []
    later = sum(weights)
    for value, weight in zip(values, weights, strict=True):
        later -= weight
        first = max(weight, room - later)  # no later row reads the cells before
        without = best[first:]
        with_item = best[first - weight : max(0, room + 1 - weight)] + value
        rows.append((first, with_item > without))  # on a tie the item is out (ruling 5.7)
        np.maximum(without, with_item, out=without)
        if best[room] >= goal:  # no later item can improve on it
            break
    for row in reversed(range(len(rows))):
        first, is_better = rows[row]
        if room >= first and is_better[room - first]:
            taken[core[row]] = True
            room -= weights[row]
    return taken
