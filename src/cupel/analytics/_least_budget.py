"""The smallest budget that selects an item, without assuming that a larger budget keeps what a smaller one took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.analytics._finest import possible_extras
from cupel.analytics._probe import GreedyProbe, StretchProbe, probe_for
from cupel.analytics._scan import Scan
from cupel.errors import ScarcityError, TableTooLargeError
from cupel.slicers._quota import QuotaChooser

if TYPE_CHECKING:
    from cupel.model import ContextBudget, ContextItem
    from cupel.pipeline import PreparedSelection
    from cupel.slicers import Chooser

_MOST_BITS = 1 << 28  # a set of amounts beyond this would take hundreds of megabytes
_DOUBLINGS = 40
_STRETCHES_WITHOUT_HOPE = 2000
_BUCKET = 1000  # no item is expected to be rounded up to more


def least_extension(
    prepared: PreparedSelection, base: ContextBudget, target: ContextItem, most: int | None = None
) -> int | None:
    """The least `extra` from 0, up to `most` if given, such that `base` with so many more tokens selects `target`."""
    probe = probe_for(prepared, base, target)
    if isinstance(probe, GreedyProbe):
        lowest = max(1, probe.extensions.effective(0).target_tokens)
        highest = max(lowest, sum(probe.denser) + probe.cost)  # everything up to the item fits
        if most is not None:
            highest = min(highest, probe.extensions.effective(most).target_tokens)
        if highest < _MOST_BITS:
            least = _least_greedy_target(probe, lowest, highest)
            return None if least is None else probe.extensions.reaching(least)
    return _least_by_scan(prepared, base, target, most)


def _least_by_scan(
    prepared: PreparedSelection, base: ContextBudget, target: ContextItem, most: int | None
) -> int | None:
    """Look at budgets in blocks where the slicer allows it, otherwise at one of each stretch."""
    probe = StretchProbe(prepared, base, target)
    if probe.hopeless:
        return None
    scan = None if probe.pinned else Scan.of(prepared, base, most)
    if scan is None:
        possible = possible_extras(prepared, probe.extensions, probe.positions, most)
        if possible is not None and not probe.pinned:
            return next(filter(probe, possible), None)
        return _first_without_end(probe, prepared) if most is None else _first_by_stretches(probe, most)
    if not probe.positions.isdisjoint(scan.reach.early):
        before = (scan.extensions.reaching(scan.lowest) or 0) - 1
        early = _first_by_stretches(probe, before if most is None else min(before, most))
        if early is not None:
            return early
    for _, extra in scan.first_extras(probe.positions):
        return extra
    if most is not None:
        probe(most)  # raises if the search has come to a budget that cannot be run
    return None


def _least_greedy_target(probe: GreedyProbe, lowest: int, highest: int) -> int | None:
    """Work back from the item: which amounts left before each denser item lead to the item being taken.

    An amount is a bit of one integer. Before an item of cost c, an amount below c stays as it is and any other is c
    more than what it becomes, so a mask and a shift carry the whole set over. Small amounts never depend on larger
    ones, so a narrow set is tried first.
    """
    limit = min(highest, lowest + 4 * probe.cost + 64)
    while lowest <= limit:
        everything = (1 << (limit + 1)) - 1
        amounts = (everything >> probe.cost) << probe.cost
        for cost in reversed(probe.denser):
            if cost <= limit:
                amounts = (amounts & ((1 << cost) - 1)) | ((amounts << cost) & everything)
        amounts >>= lowest
        if amounts:
            return lowest + (amounts & -amounts).bit_length() - 1
        if limit == highest:
            break
        limit = min(highest, 8 * limit)
    return None


def _first_without_end(probe: StretchProbe, prepared: PreparedSelection) -> int | None:
    """Find some budget that works by doubling, then the first; where none is found, try for a while."""
    for doubling in range(_DOUBLINGS):
        try:
            if probe(1 << doubling):
                return _first_by_stretches(probe, 1 << doubling)
        except (TableTooLargeError, ScarcityError):
            break
    else:
        if _has_no_share(prepared.chooser, probe.positions):
            return None
    everything = 2 * sum(prepared.candidates.tokens) + _BUCKET * len(prepared.candidates)
    return _first_by_stretches(probe, probe.extensions.reaching(everything), _STRETCHES_WITHOUT_HOPE)


def _has_no_share(chooser: Chooser, positions: set[int]) -> bool:
    """Tell whether a quota leaves nothing of a very large target to the kind of these positions."""
    if not isinstance(chooser, QuotaChooser):
        return False
    shares = zip(chooser.parts, chooser.shares(1 << _DOUBLINGS), strict=True)
    return all(share <= 0 for part, (share, _) in shares if not positions.isdisjoint(part.positions))


def _first_by_stretches(probe: StretchProbe, most: int | None, stretches: int | None = None) -> int | None:
    """Try one budget of each stretch over which the selection stays the same."""
    extra: int | None = 0
    tried = 0
    while extra is not None and (most is None or extra <= most) and (stretches is None or tried < stretches):
        found = probe.stretch(extra)
        if found.selects:
            return extra
        extra = found.stop
        tried += 1
    return None
