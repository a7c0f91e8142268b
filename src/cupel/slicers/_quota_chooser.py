"""How the quota slicer chooses: a share for each kind, and a fitted slicer within each share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from cupel._columns import Candidates
from cupel.model import ContextBudget
from cupel.slicers._base import Chooser, Reach, Selection, Span
from cupel.slicers._partition import offered_tokens, positions_by_kind
from cupel.slicers._shares import Sharing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cupel._targets import Targets, Wanted, Work
    from cupel.slicers._base import Slicer
    from cupel.slicers._quota import QuotaEntry

_LOOK_AHEAD = 1_000


class Part(msgspec.Struct, frozen=True):
    """The candidates of one kind."""

    positions: list[int]
    chooser: Chooser


class QuotaChooser(Chooser):
    """Shares targets among kinds whose parts are already fitted."""

    __slots__ = ("_inner", "_places", "_quotas", "parts", "sharing")

    def __init__(self, candidates: Candidates, quotas: Sequence[QuotaEntry], inner: Slicer) -> None:
        quota_of = {entry.kind.key: entry for entry in quotas}
        entries: list[QuotaEntry | None] = []
        masses: list[int] = []
        self.parts: list[Part] = []
        for kind, positions in positions_by_kind(candidates).items():
            part = candidates.part(positions)
            self.parts.append(Part(positions, inner.fit(part)))
            entries.append(quota_of.pop(kind, None))
            masses.append(offered_tokens(part))
        self.sharing = Sharing(entries, masses, list(quota_of.values()))
        self._quotas = quotas
        self._inner = inner
        self._places: dict[int, tuple[int, int]] | None = None

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose within each kind's share, kinds in the order they first appear."""
        chosen: list[int] = []
        target = budget.target_tokens
        if target <= 0:
            return Selection(chosen)
        for part, (share, cap) in zip(self.parts, self.sharing.shares(target), strict=True):
            if share > 0:
                positions = part.positions
                chosen += [positions[index] for index in part.chooser(ContextBudget(cap, share)).chosen]
        return Selection(chosen)

    def span(self, budget: ContextBudget) -> Span:
        """Step through the targets that follow for as long as every kind's share stays within its own span."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1)
        spans = [
            part.chooser.span(ContextBudget(cap, share)) if share > 0 else Span(0, 1)
            for part, (share, cap) in zip(self.parts, self.sharing.shares(target), strict=True)
        ]
        for probe in range(target + 1, target + _LOOK_AHEAD):
            for (start, stop), (share, _) in zip(spans, self.sharing.shares(probe), strict=True):
                if share < start or (stop is not None and share >= stop):
                    return Span(target, probe)
        return Span(target, target + _LOOK_AHEAD)

    @property
    def order(self) -> list[int] | None:
        """The orders of the kinds, one after the other."""
        order: list[int] = []
        for part in self.parts:
            inner = part.chooser.order
            if inner is None:
                return None
            order += [part.positions[index] for index in inner]
        return order

    def reach(self) -> Reach | None:
        """Go up to where the share of every kind has reached what matters to it."""
        settled, within, sure = 0, 0, True
        for kind, part in enumerate(self.parts):
            inner = part.chooser.reach()
            if inner is None:
                return None
            enough = self.sharing.surely_gives(kind, inner.within)
            if inner.within and not self.sharing.gets_nothing(kind):
                if enough is None:
                    return None  # what must be taken never fits a share that does not grow
                within = max(within, enough)
            settled = max(settled, self.sharing.surely_gives(kind, inner.settled) or 0)
            sure = sure and inner.sure
        anything = frozenset(position for part in self.parts for position in part.positions)
        return Reach(max(settled, within), within, anything if within else frozenset(), sure)

    def targets(self, wanted: Wanted, highest: int, work: Work) -> Targets | None:
        """Ask the kind's own slicer for shares, and the arithmetic for the targets with these shares."""
        from cupel._targets import NEVER, Wanted
        from cupel.slicers._share_targets import ShareTargets

        places = self._place_of()
        if wanted.position not in places:
            return NEVER  # a negative count
        kind, index = places[wanted.position]
        if self.sharing.gets_nothing(kind):
            return NEVER
        if any(places[rival][0] != kind for rival in wanted.rivals):
            return None
        rivals = frozenset(places[rival][1] for rival in wanted.rivals)
        inner = self.parts[kind].chooser.targets(
            Wanted(index, rivals, wanted.room), self.sharing.most(kind, highest), work
        )
        return None if inner is None else ShareTargets(self.sharing, kind, inner, work)

    def _place_of(self) -> dict[int, tuple[int, int]]:
        if self._places is None:
            self._places = {
                position: (kind, index)
                for kind, part in enumerate(self.parts)
                for index, position in enumerate(part.positions)
            }
        return self._places

    def refused(self, work: Work) -> Targets | None:
        """Refuse what any kind refuses of its share."""
        from cupel._targets import AnyOf
        from cupel.slicers._share_targets import ShareTargets

        refusals = [(kind, part.chooser.refused(work)) for kind, part in enumerate(self.parts)]
        sets = [ShareTargets(self.sharing, kind, inner, work) for kind, inner in refusals if inner is not None]
        return AnyOf(sets) if sets else None

    def effort(self, target: int) -> int:
        """Each kind fills its share."""
        shares = self.sharing.shares(max(0, target))
        return sum(part.chooser.effort(share) for part, (share, _) in zip(self.parts, shares, strict=True))

    def replay(self, kinds: Mapping[str, int]) -> dict[str, Any] | None:
        """The script shares targets by the same arithmetic."""
        inner = self._inner.fit(Candidates([], [], [])).replay(kinds)
        if inner is None:
            return None
        quotas = [
            {"kind": kinds.get(entry.kind.key, -1 - number), "require": entry.require, "cap": entry.cap}
            for number, entry in enumerate(self._quotas)
        ]
        return {"type": "quota", "quotas": quotas, "inner": inner}
