"""Counts per kind over related candidates."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cupel._relations import closure, lawful
from cupel.diagnostics import CountRequirementShortfall
from cupel.slicers._base import Chooser, Reach, Selection, Span
from cupel.slicers._count_chooser import CountChooser
from cupel.slicers._ladders import Ladders
from cupel.slicers._steps import StepChooser

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._columns import Candidates
    from cupel._relations import Relations
    from cupel.model import ContextBudget
    from cupel.slicers._base import Slicer
    from cupel.slicers._count_chooser import CountSlicer


def count_chooser(slicer: CountSlicer, candidates: Candidates, inner: Slicer, *, resort: bool) -> CountChooser:
    """See the candidates of a count slicer once; with `resort` the caps see the highest scores first."""
    if candidates.relations is None:
        return CountChooser(slicer, candidates, inner, resort=resort)
    return RelatedCountChooser(slicer, candidates, inner, candidates.relations, resort=resort)


class RelatedCountChooser(CountChooser):
    """Counts a thing once, in whichever form, and takes units whole.

    Required things are committed in their smallest useful forms, with whatever they require; what the inner slicer
    leaves of the target goes into larger forms. A unit that would exceed any kind's cap stays out.
    """

    def __init__(
        self, slicer: CountSlicer, candidates: Candidates, inner: Slicer, relations: Relations, *, resort: bool
    ) -> None:
        self._relations = relations
        self._ladders = Ladders(relations)
        self._steps = StepChooser(self._ladders, self._ladders.by_density())
        super().__init__(slicer, candidates, inner, resort=resort)

    def _commit(self) -> None:
        """Take the best units with a kind that is required, whatever the budget."""
        missing = {entry.kind.key: entry.require_count for entry in self._entries}
        self._room = dict(self._caps)
        taken: set[int] = set()
        claimed: set[str] = set()
        for unit in self._ladders.units_by_score():
            new = [place for place in closure(self._relations, unit) if place not in taken]
            counts, labels = self._counts(new), self._labels(new)
            wanted = any(missing.get(kind, 0) > 0 for kind in self._counts([unit]))
            if wanted and new and claimed.isdisjoint(labels) and _has_room(counts, self._room):
                taken.update(new)
                claimed.update(labels)
                _take(counts, self._room)
                _take(counts, missing)
        things = [thing for unit in sorted(taken) for thing in self._relations.units[unit].things]
        self._committed = [self._ladders.forms[thing][0].position for thing in things]
        self._committed_tokens = sum(self._ladders.least[unit] for unit in taken)
        self._shortfalls = tuple(
            CountRequirementShortfall(entry.kind.value, entry.require_count, entry.require_count - left)
            for entry in self._entries
            if (left := missing[entry.kind.key]) > 0
        )
        rivals = [thing for label in claimed for thing in self._relations.exclusive[label]]
        self._gone = {position for thing in (*things, *rivals) for position in self._relations.things[thing].positions}

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose for one budget; what is left over goes into larger forms."""
        if budget.target_tokens <= 0:
            return super().__call__(budget)
        self._check_supply()
        room = dict(self._room)
        units: dict[int, list[int]] = {}
        for position in self._filled(budget):
            unit = self._relations.unit_of[self._relations.thing_of[position]]
            units.setdefault(unit, []).append(position)
        chosen = list(self._committed)
        for unit, positions in units.items():
            counts = self._counts([unit])
            if _has_room(counts, room):
                _take(counts, room)
                chosen += positions
        chosen = lawful(self._relations, chosen)
        left = budget.target_tokens - sum(self._candidates.tokens[position] for position in chosen)
        return Selection(
            self._steps.improved(chosen, left),
            self._shortfalls,
            lambda position: self._cap_reached(position, room, budget),
        )

    def span(self, budget: ContextBudget) -> Span:
        """Promise nothing: every token may go into a larger form."""
        return Chooser.span(self, budget)

    def reach(self) -> Reach | None:
        """Follow the inner slicer; beyond, what it leaves is enough for the largest forms."""
        inner = self._inner.reach()
        return None if inner is None else Reach(inner.settled + self._committed_tokens + self._ladders.everything)

    def _counts(self, units: Iterable[int]) -> Counter[str]:
        """Count the things of some units by kind."""
        things = (thing for unit in units for thing in self._relations.units[unit].things)
        return Counter(self._keys[self._relations.things[thing].positions[0]] for thing in things)

    def _labels(self, units: Iterable[int]) -> set[str]:
        things = (self._relations.things[thing] for unit in units for thing in self._relations.units[unit].things)
        return {thing.exclusive for thing in things if thing.exclusive is not None}


def _has_room(counts: Counter[str], room: dict[str, int]) -> bool:
    return all(kind not in room or number <= room[kind] for kind, number in counts.items())


def _take(counts: Counter[str], room: dict[str, int]) -> None:
    for kind, number in counts.items():
        if kind in room:
            room[kind] -= number
