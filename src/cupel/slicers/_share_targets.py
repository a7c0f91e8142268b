"""The targets whose share lies in a set: what a quota makes of the targets of its inner slicer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cupel._targets import Targets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cupel._targets import Work
    from cupel.slicers._shares import Sharing

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
