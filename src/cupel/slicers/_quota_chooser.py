"""How the quota slicer chooses: a share for each kind, and a fitted slicer within each share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from cupel._columns import Candidates
from cupel.diagnostics import QuotaCapExceeded
from cupel.model import ContextBudget
from cupel.slicers._base import Chooser, Reach, Selection, Span
from cupel.slicers._partition import offered_tokens, positions_by_kind
from cupel.slicers._shares import Sharing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cupel._targets import Targets, Wanted, Work
    from cupel.diagnostics import ExclusionReason
    from cupel.slicers._base import Slicer
    from cupel.slicers._quota import QuotaEntry

_LOOK_AHEAD = 1_000


class _Part(NamedTuple):
    """The candidates of one kind."""

    positions: list[int]
    chooser: Chooser

    def choose(self, share: int, cap: int) -> list[int]:
        """Choose within a share."""
        positions, chooser = self
        return [positions[index] for index in chooser(ContextBudget(cap, share)).chosen] if share > 0 else []


class QuotaChooser(Chooser):
    """Shares targets among kinds whose parts are already fitted."""

    def __init__(self, candidates: Candidates, quotas: Sequence[QuotaEntry], inner: Slicer) -> None:
        quota_of = {entry.kind.key: entry for entry in quotas}
        entries: list[QuotaEntry | None] = []
        masses: list[int] = []
        self._parts: list[_Part] = []
        for kind, positions in positions_by_kind(candidates).items():
            part = candidates.part(positions)
            self._parts.append(_Part(positions, inner.fit(part)))
            entries.append(quota_of.pop(kind, None))
            masses.append(offered_tokens(part))
        self._sharing = Sharing(entries, masses, list(quota_of.values()))
        self._candidates = candidates
        self._quotas = quotas
        self._inner = inner

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        """The kind of each position, as a place among the parts, and its index there; not of negative counts."""
        return {
            position: (kind, index)
            for kind, part in enumerate(self._parts)
            for index, position in enumerate(part.positions)
        }

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose within each kind's share, kinds in the order they first appear."""
        if budget.target_tokens <= 0:
            return Selection([])
        shares = zip(self._parts, self._sharing.shares(budget.target_tokens), strict=True)
        return Selection([position for part, (share, cap) in shares for position in part.choose(share, cap)])

    def span(self, budget: ContextBudget) -> Span:
        """Step through the targets that follow for as long as every kind's share stays within its own span."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1)
        spans = [
            part.chooser.span(ContextBudget(cap, share)) if share > 0 else Span(0, 1)
            for part, (share, cap) in zip(self._parts, self._sharing.shares(target), strict=True)
        ]
        for probe in range(target + 1, target + _LOOK_AHEAD):
            for (start, stop), (share, _) in zip(spans, self._sharing.shares(probe), strict=True):
                if share < start or (stop is not None and share >= stop):
                    return Span(target, probe)
        return Span(target, target + _LOOK_AHEAD)

    @property
    def order(self) -> list[int] | None:
        """The orders of the kinds, one after the other."""
        order: list[int] = []
        for part in self._parts:
            inner = part.chooser.order
            if inner is None:
                return None
            order += [part.positions[index] for index in inner]
        return order

    def reach(self) -> Reach | None:
        """Go up to where the share of every kind has reached what matters to it."""
        settled, within, sure = 0, 0, True
        for kind, part in enumerate(self._parts):
            inner = part.chooser.reach()
            if inner is None:
                return None
            if inner.within and not self._sharing.gets_nothing(kind):
                enough = self._sharing.surely_gives(kind, inner.within)
                if enough is None:
                    return None  # what must be taken never fits a share that does not grow
                within = max(within, enough)
            settled = max(settled, self._sharing.surely_gives(kind, inner.settled) or 0)
            sure = sure and inner.sure
        return Reach(max(settled, within), within, frozenset(self._places if within else ()), sure)

    def targets(self, wanted: Wanted, highest: int, work: Work) -> Targets | None:
        """Ask the kind's own slicer for shares, and the arithmetic for the targets with these shares."""
        from cupel._targets import NEVER, Wanted
        from cupel.slicers._share_targets import ShareTargets

        kind, index = self._places[wanted.position]
        if self._sharing.gets_nothing(kind):
            return NEVER
        of_kind = Wanted(index, frozenset(self._places[rival][1] for rival in wanted.rivals), wanted.room)
        inner = self._parts[kind].chooser.targets(of_kind, self._sharing.most(kind, highest), work)
        return None if inner is None else ShareTargets(self._sharing, kind, inner, work)

    def refused(self, work: Work) -> Targets | None:
        """Refuse what any kind refuses of its share."""
        from cupel._targets import AnyOf
        from cupel.slicers._share_targets import ShareTargets

        refusals = [(kind, part.chooser.refused(work)) for kind, part in enumerate(self._parts)]
        sets = [ShareTargets(self._sharing, kind, inner, work) for kind, inner in refusals if inner is not None]
        return AnyOf(sets) if sets else None

    def effort(self, target: int) -> int:
        """Each kind fills its share."""
        shares = self._sharing.shares(max(0, target))
        return sum(part.chooser.effort(share) for part, (share, _) in zip(self._parts, shares, strict=True))

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


class LeftoverChooser(QuotaChooser):
    """Offers what the kinds leave of their shares to those that can use it."""

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose within the shares, then let each kind choose again with what is left."""
        target = budget.target_tokens
        if target <= 0:
            return Selection([])
        shares = self._sharing.shares(target)
        chosen = [part.choose(share, cap) for part, (share, cap) in zip(self._parts, shares, strict=True)]
        used = list(map(self._tokens, chosen))
        for kind in self._waiting(chosen):
            share, cap = shares[kind]
            offer = min(used[kind] + target - sum(used), cap)
            if offer > share:  # otherwise the others have taken what it had not used
                chosen[kind] = self._parts[kind].choose(offer, cap)
                used[kind] = self._tokens(chosen[kind])

        def explain(position: int) -> ExclusionReason | None:
            """Name the cap that kept an item out; None where it was not a cap."""
            if position not in self._places:
                return None
            kind, cost = self._places[position][0], self._candidates.tokens[position]
            cap, actual = shares[kind][1], used[kind] + cost
            if cost <= target and cap < min(target, actual):
                return QuotaCapExceeded(self._candidates.items[position].kind.value, cap, actual)
            return None

        return Selection([position for choice in chosen for position in choice], explain=explain)

    def _waiting(self, chosen: list[list[int]]) -> list[int]:
        """Number the kinds that left something out, the one with the best such item first."""
        best: list[tuple[int, int]] = []
        for kind, (part, choice) in enumerate(zip(self._parts, chosen, strict=True)):
            taken = set(choice)
            # Positions go from the highest score down.
            first = next((position for position in part.positions if position not in taken), None)
            if first is not None:
                best.append((first, kind))
        return [kind for _, kind in sorted(best)]

    def _tokens(self, positions: list[int]) -> int:
        tokens = self._candidates.tokens
        return sum([tokens[position] for position in positions])
