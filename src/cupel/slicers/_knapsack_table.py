"""The specification's whole table, read back for all capacities: which of them take an item."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from cupel._targets import Wanted, Work
    from cupel.slicers._knapsack import KnapsackChooser

    Array = NDArray[Any]

_CELL = 5  # what filling a cell and reading it back costs
_COLUMN, _BIT = 3_000, 2  # what counting a rival costs, and what each of the capacities adds


class CapacityTable:
    """For each item at which of the capacities it is taken, a bit each.

    Whether a row keeps its item at some capacity depends on the rows before it alone, never on where reading starts.
    """

    __slots__ = ("_counted", "_free", "_highest", "_rows", "_size", "_step")

    def __init__(self, highest: int | None, step: int, size: int, free: Iterable[int], rows: dict[int, Array]) -> None:
        self._highest = highest
        self._step = step
        self._size = size
        self._free = frozenset(free)
        self._rows = rows
        self._counted: dict[int, tuple[frozenset[int], Array]] = {}
        """Of each line of rivals, by its first, those counted last and how many of them each capacity takes."""

    def answers(self, highest: int) -> bool:
        """Tell whether the table reaches up to a target."""
        return self._highest is None or highest <= self._highest

    @classmethod
    def of(cls, chooser: KnapsackChooser, highest: int, work: Work) -> CapacityTable:
        """Fill and read the table for all targets up to the highest, in the largest common unit of the weights."""
        unit = gcd(*chooser.weights) or 1
        step, weights = chooser.bucket_size * unit, [weight // unit for weight in chooser.weights]
        everything = sum(weights)  # beyond, all of them fit
        size = min(highest // step, everything) + 1
        work.spend(_CELL * (len(weights) + 1) * size)
        kept = _kept(chooser.values, weights, size)
        left = np.arange(size)
        rows: dict[int, Array] = {}
        for index in reversed(range(len(weights))):
            taken = np.unpackbits(kept.pop(), count=size).view(np.bool_)[left]
            if weights[index] < size:
                left -= np.multiply(taken, weights[index], dtype=left.dtype)
            rows[chooser.positions[index]] = np.packbits(taken)
        return cls(None if size > everything else highest, step, size, chooser.free, rows)

    def edges(self, wanted: Wanted, work: Work) -> list[int]:
        """Return the edges of the targets that take a position and fewer rivals than there is room for."""
        taken = self._column(wanted.position)
        if len(wanted.rivals) >= wanted.room:
            taken &= self._count(wanted.rivals, work) < wanted.room
        changes = np.flatnonzero(np.diff(taken, prepend=False)).tolist()
        return [max(1, change * self._step) for change in changes]

    def _count(self, rivals: frozenset[int], work: Work) -> Array:
        """Count how many of the rivals each capacity takes; those of the next in a line are the same and a few more."""
        first = min(rivals)
        counted, counts = self._counted.get(first, (frozenset[int](), None))
        if counts is None or not counted <= rivals:
            counted, counts = frozenset[int](), np.zeros(self._size, np.int32)
        more = rivals - counted
        work.spend((_COLUMN + _BIT * self._size) * len(more))
        for rival in more:
            counts += self._column(rival)
        self._counted[first] = rivals, counts
        return counts

    def _column(self, position: int) -> Array:
        row = self._rows.get(position)
        if row is not None:
            return np.unpackbits(row, count=self._size).view(np.bool_)
        return np.full(self._size, position in self._free)  # what is worth nothing is never taken


def _kept(values: list[int], weights: list[int], size: int) -> list[Array]:
    """For each item at which of the capacities the specification's table keeps it, a bit each."""
    total = sum(values)
    best: Array = np.zeros(size, np.int32 if total < 2**31 else np.int64 if total < 2**63 else np.object_)
    row = np.zeros(size, np.bool_)
    rows: list[Array] = []
    for value, weight in zip(values, weights, strict=True):
        row[:] = False
        if weight < size:
            better = best[:-weight] + value
            np.greater(better, best[weight:], out=row[weight:])
            np.maximum(best[weight:], better, out=best[weight:])
        rows.append(np.packbits(row))
    return rows
