"""Sets of targets: which of them choose an item, for every integer at once.

A slicer says with one of these under which targets it chooses an item (`Chooser.targets`), so that a question about all
budgets needs no run for each of them. Arrays hold 64-bit integers where those suffice and Python's own where not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

_SAFE = 2**62


class TooMuchWork(Exception):  # noqa: N818  (not an error: a search that ends early and says so)
    """A question would take longer than anybody waits."""


class Work:
    """What a question may still cost, in steps of about a nanosecond; counted, never timed, so that answers repeat."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take steps off what is left."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork


class Wanted(NamedTuple):
    """A position that is to be chosen together with fewer than `room` of its rivals.

    These are all those of its kind that come before it, because the cap of a count meets them first; or none.
    """

    position: int
    rivals: frozenset[int] = frozenset()
    room: int = 1


class Targets(ABC):
    """A set of targets."""

    __slots__ = ()

    @abstractmethod
    def holds(self, column: Array) -> Array:
        """Tell for each target of a column whether it is in the set."""

    @abstractmethod
    def next(self, target: int, *, inside: bool = True) -> int | None:
        """Return the least target from this one on that is in the set, or not in it; None if there is none."""


class Stretches(Targets):
    """Targets as edges: in from the first, out from the second, and so on; an odd number of edges never ends."""

    __slots__ = ("edges",)

    def __init__(self, edges: Array | Sequence[int]) -> None:
        self.edges: Array = edges if isinstance(edges, np.ndarray) else integers(edges)

    def holds(self, column: Array) -> Array:
        """Count the edges up to each target."""
        inside: Array = np.searchsorted(self.edges, column, side="right") % 2 == 1
        return inside

    def next(self, target: int, *, inside: bool = True) -> int | None:
        """Look for the edge after the target."""
        at = bisect_right(self.edges, target)
        if inside == (at % 2 == 1):
            return target
        return int(self.edges[at]) if at < len(self.edges) else None


class Shifted(Targets):
    """Another set, moved up."""

    __slots__ = ("_by", "_inner")

    def __init__(self, inner: Targets, by: int) -> None:
        self._inner = inner
        self._by = by

    def holds(self, column: Array) -> Array:
        """Ask for smaller targets."""
        moved = column - self._by if abs(self._by) < _SAFE else column.astype(np.object_) - self._by
        return self._inner.holds(moved)

    def next(self, target: int, *, inside: bool = True) -> int | None:
        """Ask for a smaller target."""
        found = self._inner.next(target - self._by, inside=inside)
        return None if found is None else found + self._by


class AnyOf(Targets):
    """What is in any of several sets."""

    __slots__ = ("_sets",)

    def __init__(self, sets: Sequence[Targets]) -> None:
        self._sets = sets

    def holds(self, column: Array) -> Array:
        """Ask all of them."""
        found = np.zeros(len(column), np.bool_)
        for one in self._sets:
            found |= one.holds(column)
        return found

    def next(self, target: int, *, inside: bool = True) -> int | None:
        """Take the nearest of them, or go on until none of them holds the target."""
        if inside:
            nearest = (one.next(target) for one in self._sets)
            return min((found for found in nearest if found is not None), default=None)
        at = target
        while True:
            before = at
            for one in self._sets:
                found = one.next(at, inside=False)
                if found is None:
                    return None
                at = found
            if at == before:
                return at


def integers(values: Sequence[int], *, most: int = 0) -> Array:
    """Return a column of integers that can be added to, up to `most`, without wrapping."""
    largest = max(most, max(values, default=0), -min(values, default=0))
    return np.array(values, np.int64 if largest < _SAFE else np.object_)


NEVER = Stretches([])
"""No target at all chooses the item, however high; other empty sets say so only of the targets asked about."""
