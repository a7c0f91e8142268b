"""The first budget that selects each of several items, found by looking at all budgets in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cupel.analytics._extensions import Extensions
from cupel.analytics._reach import reach_of
from cupel.errors import TableTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cupel.analytics._reach import Reach
    from cupel.model import ContextBudget
    from cupel.pipeline import PreparedSelection

_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 10, 1 << 16
MOST_CELLS = 1 << 32  # candidates times targets: several seconds, and half a gigabyte for an unguarded knapsack


@dataclass(frozen=True, slots=True)
class Scan:
    """The effective targets, from `lowest` to `highest`, at which the choice of a built-in slicer can change.

    All of them are large enough for what is chosen, so that no overflow strategy has a say.
    """

    prepared: PreparedSelection
    extensions: Extensions
    reach: Reach
    lowest: int
    highest: int

    @classmethod
    def of(cls, prepared: PreparedSelection, base: ContextBudget, most: int | None) -> Scan | None:
        """Cover the budgets from `base` up, to `most` extra tokens if given; None if they have to be asked singly."""
        reach = reach_of(prepared.chooser, prepared.candidates)
        extensions = Extensions(base, prepared.pinned_tokens)
        start = None if reach is None else extensions.reaching(max(1, reach.within))
        if reach is None or start is None:
            return None
        lowest = extensions.effective(start).target_tokens
        highest = max(lowest, reach.settled)
        if most is not None:
            highest = min(highest, extensions.effective(most).target_tokens)
        if len(prepared.candidates) * highest > MOST_CELLS * reach.step:
            return None
        return cls(prepared, extensions, reach, lowest, highest)

    @property
    def from_the_start(self) -> bool:
        """Whether no smaller budget comes before the scan."""
        return self.extensions.reaching(self.lowest) == 0

    def first_extras(self, wanted: set[int]) -> Iterator[tuple[int, int]]:
        """Give the wanted positions with the least extra tokens that select them, from the least on.

        Raises what a run raises at the first budget that cannot be run.
        """
        missing = set(wanted)
        for block in blocks(self.lowest, self.highest, self.reach.step, self.reach.phase):
            for target, position in self._first_targets(block, missing):
                extra = self.extensions.reaching(target)
                if extra is not None:  # as any target of a scan has
                    yield position, extra
            if not missing:
                return

    def _first_targets(self, targets: NDArray[Any], missing: set[int]) -> Iterator[tuple[int, int]]:
        """Give the targets of one block that are the first for some position, and remove it from the missing."""
        from cupel.analytics._memberships import check_targets, memberships

        chooser, candidates = self.prepared.chooser, self.prepared.candidates
        try:
            check_targets(chooser, targets)
        except TableTooLargeError:
            if len(targets) == 1:
                raise
            middle = len(targets) // 2
            yield from self._first_targets(targets[:middle], missing)
            yield from self._first_targets(targets[middle:], missing)
            return
        found: list[tuple[int, int]] = []
        unseen = set(missing)
        for position, taken in memberships(chooser, candidates, targets, missing):
            if position in unseen:
                unseen.remove(position)
                at = int(taken.argmax())
                if taken[at]:
                    found.append((int(targets[at]), position))
            if not unseen:
                break
        missing.difference_update(position for _, position in found)
        yield from sorted(found)


def blocks(lowest: int, highest: int, step: int = 1, phase: int = 0) -> Iterator[NDArray[Any]]:
    """The lowest target and those that are `phase` modulo `step`: small blocks first, because most answers are near."""
    import numpy as np

    if lowest <= highest:
        yield np.array([lowest])
    begin, count = lowest + 1 + (phase - lowest - 1) % step, _FIRST_BLOCK
    while begin <= highest:
        stop = begin + count * step
        yield np.arange(begin, min(stop, highest + 1), step)
        begin, count = stop, min(2 * count, _LARGEST_BLOCK)
