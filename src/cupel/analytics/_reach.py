"""Which targets can make a difference to a built-in slicer."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from cupel.slicers import GreedyChooser
from cupel.slicers._count import CountChooser
from cupel.slicers._knapsack import KnapsackChooser
from cupel.slicers._quota import Part, QuotaChooser

if TYPE_CHECKING:
    from cupel._columns import Candidates
    from cupel.slicers import Chooser

_BUILT_IN = (GreedyChooser, KnapsackChooser, CountChooser, QuotaChooser)
_DOUBLINGS = 40


class Reach(NamedTuple):
    """Where the choice can change: at targets that are `phase` modulo `step`, up to `settled`."""

    settled: int
    """From this target on, the choice stays the same or is refused."""
    step: int = 1
    phase: int = 0
    within: int = 0
    """From this target on, the choice costs no more than the target; it can change here, too."""
    early: frozenset[int] = frozenset()
    """The only positions that smaller targets choose."""


def reach_of(chooser: Chooser, candidates: Candidates) -> Reach | None:
    """The reach of a built-in slicer; None for others, and where a count slicer within another may always overspend."""
    if type(chooser) not in _BUILT_IN:
        return None
    match chooser:
        case KnapsackChooser():
            return Reach(sum(chooser.weights) * chooser.bucket_size, chooser.bucket_size)
        case CountChooser():
            return _around(chooser, reach_of(chooser.rest_chooser, candidates.at(chooser.rest)))
        case QuotaChooser():
            return _across(chooser, [reach_of(part.chooser, candidates.at(part.positions)) for part in chooser.parts])
        case _:
            return Reach(sum(candidates.tokens))


def _around(chooser: CountChooser, inner: Reach | None) -> Reach | None:
    if inner is None or inner.within > 0:
        return None
    if not chooser.committed:
        return inner
    committed = chooser.committed_tokens
    phase = (inner.phase + committed) % inner.step
    return Reach(inner.settled + committed, inner.step, phase, committed + 1, frozenset(chooser.committed))


def _across(chooser: QuotaChooser, inners: list[Reach | None]) -> Reach | None:
    known = [inner for inner in inners if inner is not None]
    if len(known) < len(inners):
        return None
    settled = _settled(chooser, [inner.settled for inner in known])
    if not any(inner.within for inner in known):
        return Reach(settled)
    if any(inner.within and not _grows(chooser, part) for part, inner in zip(chooser.parts, known, strict=True)):
        return None  # what is committed never fits a share of nothing
    within = _settled(chooser, [inner.within for inner in known])
    anything = frozenset(position for part in chooser.parts for position in part.positions)
    return Reach(max(settled, within), within=within, early=anything)


def _settled(chooser: QuotaChooser, needed: list[int]) -> int:
    """Double the target until no share that grows can fall below what its kind needs."""
    rounding = len(chooser.parts) + len(chooser.absent) + 2  # shares of a larger target may be smaller by no more
    for doubling in range(_DOUBLINGS):
        target = 1 << doubling
        for part, need, (share, _) in zip(chooser.parts, needed, chooser.shares(target), strict=True):
            entry = part.quota
            if entry is not None and entry.require < entry.cap:
                require, cap = entry.limits(target)
                if cap < require + 2:  # too close to tell whether the kind has a part in the rest
                    break
            if share < need + rounding and _grows(chooser, part):
                break
        else:
            return target
    return 1 << _DOUBLINGS


def _grows(chooser: QuotaChooser, part: Part) -> bool:
    """Tell whether a kind's share grows with the target: by what it requires, or by a part in the rest."""
    entry = part.quota
    if entry is not None and entry.require > 0:
        return True
    entries = [*(other.quota for other in chooser.parts), *chooser.absent]
    unassigned = 100.0 - fsum(other.require for other in entries if other is not None)
    return unassigned > 0 and part.mass > 0 and (entry is None or entry.cap > entry.require)
