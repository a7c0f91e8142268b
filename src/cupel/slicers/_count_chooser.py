"""How the count slicers choose: commit what is required, fill up, enforce the caps."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from cupel._columns import descending
from cupel.diagnostics import CountCapExceeded, CountRequirementShortfall
from cupel.errors import ScarcityError
from cupel.model import ContextBudget
from cupel.slicers._base import Chooser, Reach, Selection, Span
from cupel.slicers._count import ScarcityBehavior

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cupel._columns import Candidates
    from cupel._targets import Targets, Wanted, Work
    from cupel.diagnostics import ExclusionReason
    from cupel.slicers._base import Slicer
    from cupel.slicers._count_constrained_knapsack import CountConstrainedKnapsackSlice
    from cupel.slicers._count_quota import CountQuotaSlice

CountSlicer: TypeAlias = "CountQuotaSlice | CountConstrainedKnapsackSlice"


class CountChooser(Chooser):
    """The three phases both count slicers share: commit what is required, fill up with `inner`, enforce the caps.

    The first phase does not depend on the budget (ruling 5.31), so it happens once, at construction. Items are told
    apart by position, so that one object listed twice counts twice (ruling 5.34).
    """

    def __init__(self, slicer: CountSlicer, candidates: Candidates, inner: Slicer, *, resort: bool) -> None:
        self._name = type(slicer).__name__
        self._candidates = candidates
        self._keys = [item.kind.key for item in candidates.items]
        self._entries = slicer.entries
        self._caps = {entry.kind.key: entry.cap_count for entry in slicer.entries}
        self._scarcity = slicer.scarcity
        self._resort = resort
        self._commit()
        # Negative counts take no part (ruling 5.4).
        self._rest = [place for place, cost in enumerate(candidates.tokens) if place not in self._gone and cost >= 0]
        self._inner = inner.fit(candidates.part(self._rest))

    def _commit(self) -> None:
        """Take the best of each kind that is required, whatever the budget."""
        best = self._best({entry.kind.key: entry.require_count for entry in self._entries if entry.require_count > 0})
        self._committed: list[int] = []
        self._room = dict(self._caps)
        shortfalls: list[CountRequirementShortfall] = []
        for entry in self._entries:
            taken = best.get(entry.kind.key, [])
            self._committed.extend(taken)
            self._room[entry.kind.key] -= len(taken)
            if len(taken) < entry.require_count:
                shortfalls.append(CountRequirementShortfall(entry.kind.value, entry.require_count, len(taken)))
        self._shortfalls = tuple(shortfalls)
        self._committed_tokens = sum(self._candidates.tokens[position] for position in self._committed)
        self._gone = set(self._committed)

    def _best(self, missing: dict[str, int]) -> dict[str, list[int]]:
        """Find so many of each kind, from the highest score down; negative counts take no part (ruling 5.4)."""
        keys, tokens = self._keys, self._candidates.tokens
        best: dict[str, list[int]] = {key: [] for key in missing}
        for position in descending(self._candidates.scores) if missing else ():
            key = keys[position]
            if key in missing and tokens[position] >= 0:
                best[key].append(position)
                missing[key] -= 1
                if missing[key] == 0:
                    del missing[key]
                    if not missing:
                        break
        return best

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose for one budget; an empty pool or target chooses nothing and is short of nothing (ruling 5.26)."""
        if not self._candidates.items or budget.target_tokens <= 0:
            return Selection([], explain=lambda position: self._cap_reached(position, self._caps, budget))
        self._check_supply()
        room = dict(self._room)
        keys = self._keys
        chosen = list(self._committed)
        for position in self._filled(budget):
            key = keys[position]
            left = room.get(key)
            if left is not None:
                if left == 0:
                    continue
                room[key] = left - 1
            chosen.append(position)
        return Selection(chosen, self._shortfalls, lambda position: self._cap_reached(position, room, budget))

    def _check_supply(self) -> None:
        """Make sure that there are as many candidates as required, where that is a must."""
        if self._shortfalls and self._scarcity is ScarcityBehavior.THROW:
            short = self._shortfalls[0]
            raise ScarcityError(self._name, short.kind, short.satisfied_count, short.required_count)

    def _filled(self, budget: ContextBudget) -> list[int]:
        """Let the inner slicer fill what the committed items leave of the target."""
        return [self._rest[index] for index in self._ranked(self._inner(self._rest_budget(budget)).chosen)]

    def _ranked(self, chosen: list[int]) -> list[int]:
        """Put what the inner slicer chose into the order in which the caps look at it."""
        if not self._resort:
            return chosen
        ranks = descending([self._candidates.scores[self._rest[index]] for index in chosen])
        return [chosen[rank] for rank in ranks]

    def _rest_budget(self, budget: ContextBudget) -> ContextBudget:
        rest = max(0, budget.target_tokens - self._committed_tokens)
        return ContextBudget(budget.max_tokens, min(rest, budget.max_tokens))

    def _cap_reached(self, position: int, room: dict[str, int], budget: ContextBudget) -> ExclusionReason | None:
        """Blame the cap when the kind has reached it and the item is not too large by itself (ruling 7.21)."""
        kind = self._candidates.items[position].kind
        if room.get(kind.key) != 0 or self._candidates.tokens[position] > budget.target_tokens:
            return None
        cap = self._caps[kind.key]
        return CountCapExceeded(kind.value, cap, count=cap)

    def span(self, budget: ContextBudget) -> Span:
        """Follow the inner slicer's span, shifted by what is committed."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1 if self._candidates.items else None)
        inner = self._inner.span(self._rest_budget(budget))
        start = max(1, inner.start + self._committed_tokens) if target > self._committed_tokens else 1
        return Span(start, None if inner.stop is None else inner.stop + self._committed_tokens)

    @property
    def order(self) -> list[int] | None:
        """What is committed, then the rest as the inner slicer, or the score, has it."""
        inner = self._inner.order
        return None if inner is None else self._committed + [self._rest[index] for index in self._ranked(inner)]

    def reach(self) -> Reach | None:
        """Follow the inner slicer, shifted by what is committed, which smaller targets choose all the same."""
        inner = self._inner.reach()
        if inner is None or inner.within > 0:
            return None
        if not self._committed:
            return inner
        committed = self._committed_tokens
        return Reach(inner.settled + committed, committed + 1, frozenset(self._committed), inner.sure)

    def targets(self, wanted: Wanted, highest: int, work: Work) -> Targets | None:
        """Follow the inner slicer, with those of the kind that come first as rivals for the room under the cap."""
        from cupel._targets import NEVER, Shifted, Stretches, Wanted

        committed = wanted.rivals.intersection(self._committed)
        room = wanted.room - len(committed)
        if room <= 0:
            return NEVER
        if wanted.position in self._committed:
            return Stretches([1])
        place, *rivals = (bisect_left(self._rest, one) for one in (wanted.position, *wanted.rivals - committed))
        of_rest = self._under_cap(Wanted(place, frozenset(rivals), room), self._room.get(self._keys[wanted.position]))
        if of_rest is None:
            return None
        if of_rest.room <= 0:
            return NEVER
        inner = self._inner.targets(of_rest, max(1, highest - self._committed_tokens), work)
        return None if inner is None else Shifted(inner, self._committed_tokens)

    def _under_cap(self, wanted: Wanted, cap: int | None) -> Wanted | None:
        """Count as rivals those whom the cap of the kind meets first; None where that cannot be said."""
        if cap is None:
            return wanted
        if self._lines is None:
            return None
        line, place = self._lines.get(wanted.position, ([], 0))  # what no target chooses stands in no line
        if place < cap:
            return wanted
        room = min(cap, wanted.room) if wanted.rivals else cap  # rivals under another cap are the same line
        return wanted._replace(rivals=frozenset(line[:place]), room=room)

    @cached_property
    def _lines(self) -> dict[int, tuple[list[int], int]] | None:
        """For each of the rest its line and its place there: in which order the cap of a kind meets those of it.

        None if the order depends on the target.
        """
        order = self._inner.order
        if order is None:
            return None
        places: dict[int, tuple[list[int], int]] = {}
        lines: dict[str, list[int]] = {}
        for index in self._ranked(order):
            line = lines.setdefault(self._keys[self._rest[index]], [])
            places[index] = (line, len(line))
            line.append(index)
        return places

    def refused(self, work: Work) -> Targets | None:
        """A shortfall refuses every target there is; otherwise the inner slicer's refusals are shifted."""
        from cupel._targets import Shifted, Stretches

        if self._shortfalls and self._scarcity is ScarcityBehavior.THROW and self._candidates.items:
            return Stretches([1])
        inner = self._inner.refused(work)
        return None if inner is None else Shifted(inner, self._committed_tokens)

    def effort(self, target: int) -> int:
        """Filling the rest is most of it."""
        return self._inner.effort(max(0, target - self._committed_tokens))

    def replay(self, kinds: Mapping[str, int]) -> dict[str, Any] | None:
        """The script commits, fills and counts."""
        inner = self._inner.replay(kinds)
        if inner is None:
            return None
        entries = [
            {
                "kind": kinds.get(entry.kind.key, -1 - number),
                "name": entry.kind.value,
                "require_count": entry.require_count,
                "cap_count": entry.cap_count,
            }
            for number, entry in enumerate(self._entries)
        ]
        return {
            "type": "count_quota",
            "label": self._name,
            "entries": entries,
            "inner": inner,
            "scarcity": self._scarcity.value,
            "resort": self._resort,
        }
