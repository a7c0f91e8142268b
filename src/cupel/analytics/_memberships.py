"""Under which targets each candidate is chosen, found for many targets at once.

Every built-in slicer gives its items in an order that does not depend on the target: a target only decides which of
them are there. So one pass over that order, with a column of targets in place of a single one, replaces a pass for
each target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cupel._columns import descending
from cupel.slicers import GreedyChooser
from cupel.slicers._count import CountChooser
from cupel.slicers._knapsack import KnapsackChooser
from cupel.slicers._quota import QuotaChooser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cupel._columns import Candidates
    from cupel.slicers import Chooser

    Array = NDArray[Any]
    Membership = tuple[int, Array]
    """A position, and for each target whether it is chosen."""


def memberships(chooser: Chooser, candidates: Candidates, targets: Array, wanted: set[int]) -> Iterator[Membership]:
    """Give at least the wanted positions, in the slicer's output order; the targets must be ones that can be run."""
    match chooser:
        case GreedyChooser():
            return _greedy(chooser, candidates.tokens, targets)
        case KnapsackChooser():
            return _knapsack(chooser, targets, wanted)
        case QuotaChooser():
            return _quota(chooser, candidates, targets, wanted)
        case CountChooser():
            return _count(chooser, candidates, targets, wanted)
        case _:
            raise TypeError(f"chooser must be one of a built-in slicer, got {type(chooser).__name__}")


def check_targets(chooser: Chooser, targets: Array) -> None:
    """Raise what a run with one of the targets would raise."""
    match chooser:
        case KnapsackChooser():
            chooser.capacity(int(targets.max()))
        case QuotaChooser():
            for part, share in zip(chooser.parts, shares(chooser, targets), strict=True):
                check_targets(part.chooser, share)
        case CountChooser():
            chooser.check_supply()
            check_targets(chooser.rest_chooser, np.maximum(targets - chooser.committed_tokens, 0))
        case _:
            pass


def shares(chooser: QuotaChooser, targets: Array) -> list[Array]:
    """Share all targets among the kinds, in the arithmetic of `QuotaChooser.shares`."""
    limits = [
        (np.zeros_like(targets), targets)
        if part.quota is None
        else (_floor(part.quota.require, targets), _floor(part.quota.cap, targets))
        for part in chooser.parts
    ]
    required = [require for require, _ in limits] + [_floor(entry.require, targets) for entry in chooser.absent]
    unassigned = np.maximum(targets - sum(required), 0)
    growing = [
        np.where(cap > require, part.mass, 0) for part, (require, cap) in zip(chooser.parts, limits, strict=True)
    ]
    mass = np.maximum(sum(growing), 1)
    return [
        np.minimum(require + unassigned * own // mass, cap) for own, (require, cap) in zip(growing, limits, strict=True)
    ]


def _floor(percent: float, targets: Array) -> Array:
    return np.floor(percent / 100.0 * targets).astype(np.int64)


def _greedy(chooser: GreedyChooser, tokens: list[int], targets: Array) -> Iterator[Membership]:
    """Fill all targets in step."""
    most, positive = int(targets.max()), targets > 0
    left: Array = np.maximum(targets, 0).astype(np.int32 if most < 2**31 else np.int64)
    for position in chooser.order:
        cost = tokens[position]
        if cost > most:
            continue
        taken = left >= cost if cost else positive
        left -= np.multiply(taken, cost, dtype=left.dtype)
        yield position, taken


def _knapsack(chooser: KnapsackChooser, targets: Array, wanted: set[int]) -> Iterator[Membership]:
    """Fill the specification's table once and read it back from every capacity at the same time.

    Whether a row keeps its item at some capacity depends on the rows before it alone, never on where reading starts.
    """
    for position in chooser.free:
        yield position, targets > 0
    weights = chooser.weights
    capacities = np.clip(targets // chooser.bucket_size, 0, sum(weights))  # beyond, everything fits
    left, where = np.unique(capacities, return_inverse=True)
    size = int(left[-1]) + 1
    rows = _kept(chooser.values, weights, size)
    as_they_are = np.array_equal(left, capacities)
    for index in reversed(range(len(weights))):
        taken = np.unpackbits(rows[index], count=size).view(np.bool_)[left]
        left -= np.multiply(taken, weights[index], dtype=left.dtype)
        position = chooser.positions[index]
        if position in wanted:
            yield position, taken if as_they_are else taken[where]


def _kept(values: list[int], weights: list[int], size: int) -> list[Array]:
    """For each item at which of the capacities the table keeps it, a bit each."""
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


def _quota(chooser: QuotaChooser, candidates: Candidates, targets: Array, wanted: set[int]) -> Iterator[Membership]:
    """Fill the shares of those kinds that are asked for."""
    for part, share in zip(chooser.parts, shares(chooser, targets), strict=True):
        inside = {index for index, position in enumerate(part.positions) if position in wanted}
        if inside and share.max() > 0:
            for index, taken in memberships(part.chooser, candidates.at(part.positions), share, inside):
                yield part.positions[index], taken


def _count(chooser: CountChooser, candidates: Candidates, targets: Array, wanted: set[int]) -> Iterator[Membership]:
    """Commit, fill, and count what the caps let through."""
    for position in chooser.committed:
        yield position, targets > 0
    keys = [item.kind.key for item in candidates.items]
    counted = {keys[position] for position in wanted if keys[position] in chooser.room}
    rest = chooser.rest
    inside = {index for index, position in enumerate(rest) if position in wanted or keys[position] in counted}
    targets = np.maximum(targets - chooser.committed_tokens, 0)
    filled = memberships(chooser.rest_chooser, candidates.at(rest), targets, inside)
    if chooser.resort:
        found = list(filled)
        filled = (found[rank] for rank in descending([candidates.scores[rest[index]] for index, _ in found]))
    room = {key: np.full(len(targets), chooser.room[key]) for key in counted}
    for index, taken in filled:
        position = rest[index]
        left = room.get(keys[position])
        if left is not None:
            taken = taken & (left > 0)  # noqa: PLW2901
            left -= taken
        yield position, taken
