"""Which selections can be sent.

Units are legal by themselves; what else a provider demands of their sequence is checked after selecting, because
leaving one out moves its neighbours together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel.messages._loops import NO_THINKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from collections.abc import Set as AbstractSet

    from cupel.messages._ends import Ends
    from cupel.messages._loops import Loops
    from cupel.messages._unit import Unit

NO_COMPANION = "what it cannot be sent without is missing"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a request's units must be to each other: `requires` met, ends legal, the running loop with its thinking."""

    units: Sequence[Unit]
    ends: Ends
    loops: Loops | None = None

    def settle(self) -> None:
        """Mark the units that cannot be sent even if nothing is left out."""
        for index, reason in self.trim(set(self._sendable())).items():
            self.units[index].spoil(reason)

    def trim(self, chosen: AbstractSet[int]) -> dict[int, str]:
        """Return the units of `chosen` that have to go, with the reason; what is left can be sent."""
        dropped: dict[int, str] = {}
        while gone := self._illegal(chosen - dropped.keys()):
            dropped |= gone
        return dropped

    def complete(self, chosen: AbstractSet[int], costs: Sequence[int], room: int) -> set[int]:
        """Return the sendable units that `chosen` needs beside it, and those that they need in turn.

        Where one of several would do, it is the nearest whose tokens fit into `room`, or else the cheapest.
        """
        added: set[int] = set()
        while ways := self._ways(chosen | added):
            left = room - sum(costs[index] for index in added)
            prices = [sum(costs[index] for index in way) for way in ways]
            fitting = [way for way, price in zip(ways, prices, strict=True) if price <= left]
            added |= fitting[0] if fitting else ways[prices.index(min(prices))]
        return added

    def _illegal(self, chosen: AbstractSet[int]) -> dict[int, str]:
        holder = self._holder(chosen)
        alone = {i: NO_COMPANION for i in chosen if any(at not in holder for at in self.units[i].requires)}
        return alone or self.ends.trim(self.units, chosen) or self._unthinking(holder)

    def _unthinking(self, holder: dict[int, int]) -> dict[int, str]:
        if self.loops is None:
            return {}
        loop, early = self.loops.out_of_place(sorted(holder))
        gone = {holder[at] for at in early}
        if any(self.units[index].pinned for index in gone):
            # What is pinned was made legal by itself: then it is the rest of the loop that does not belong.
            loose = {holder[at] for at in loop if not self.units[holder[at]].pinned}
            gone = loose or gone
        return dict.fromkeys(gone, NO_THINKING)

    def _ways(self, chosen: AbstractSet[int]) -> list[set[int]]:
        """Return ways to mend one thing that is wrong with `chosen`, the best first: sets of units to add."""
        anywhere = self._holder(self._sendable())
        required = {anywhere[at] for index in chosen for at in self.units[index].requires if at in anywhere} - chosen
        if required:
            return [required]
        ways = [{index} for index in self.ends.companions(self.units, chosen)]
        if not ways and self.loops is not None:
            mends = self.loops.mends(sorted(self._holder(chosen)))
            ways = [{anywhere[at] for at in mend if at in anywhere} - chosen for mend in mends]
        return [way for way in ways if way]

    def _sendable(self) -> list[int]:
        return [index for index, unit in enumerate(self.units) if unit.flaw is None]

    def _holder(self, indexes: Collection[int]) -> dict[int, int]:
        """Return for each message of these units the unit that holds it."""
        return {position: index for index in indexes for position in self.units[index].positions}
