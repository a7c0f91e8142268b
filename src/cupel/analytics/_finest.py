"""Where a knapsack that chooses its own buckets may select an item."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.analytics._scan import MOST_CELLS, blocks
from cupel.slicers import GreedySlice
from cupel.slicers._bucket_choice import BUCKETS, COARSEST
from cupel.slicers._knapsack import FinestKnapsackChooser, KnapsackChooser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cupel.analytics._extensions import Extensions
    from cupel.pipeline import PreparedSelection


def possible_extras(
    prepared: PreparedSelection, extensions: Extensions, positions: set[int], most: int | None
) -> Iterator[int] | None:
    """Extra tokens, ascending, without which none of the positions is selected; None if there are too many to look at.

    The choice is that of one bucket size or of greedy, so whatever none of these takes is not taken.
    """
    start, candidates = extensions.reaching(1), prepared.candidates
    if type(prepared.chooser) is not FinestKnapsackChooser or start is None:
        return None
    lowest = extensions.effective(start).target_tokens
    highest = max(lowest, sum(-(-cost // COARSEST) * COARSEST for cost in candidates.tokens))  # everything fits
    if most is not None:
        highest = min(highest, extensions.effective(most).target_tokens)
    if len(candidates) * highest > MOST_CELLS:
        return None
    return _possible_extras(prepared, extensions, positions, lowest, highest)


def _possible_extras(
    prepared: PreparedSelection, extensions: Extensions, positions: set[int], lowest: int, highest: int
) -> Iterator[int]:
    import numpy as np

    from cupel.analytics._memberships import memberships

    candidates = prepared.candidates
    choosers = [KnapsackChooser(candidates, size, None) for size in (*BUCKETS, COARSEST)]
    for targets in blocks(lowest, highest):
        possible = np.zeros(len(targets), np.bool_)
        for chooser in (GreedySlice().fit(candidates), *choosers):
            unseen = set(positions)
            for position, taken in memberships(chooser, candidates, targets, positions):
                if position in unseen:
                    possible |= taken
                    unseen.remove(position)
                    if not unseen:
                        break
        for target in targets[possible].tolist():
            extra = extensions.reaching(target)
            if extra is not None:  # as any of these targets has
                yield extra
