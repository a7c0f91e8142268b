"""Slicers with a number of items for each kind."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from cupel._checks import as_instance, as_integer, as_tuple, shown, wrong_type
from cupel._columns import descending
from cupel._relations import closure, lawful
from cupel.diagnostics import CountCapExceeded, CountRequirementShortfall
from cupel.errors import InvalidItemError, ScarcityError, SlicerConfigError
from cupel.model import ContextBudget, ContextKind
from cupel.slicers._base import Chooser, FittingSlicer, Reach, Selection, Slicer, Span
from cupel.slicers._greedy import GreedySlice
from cupel.slicers._knapsack import KnapsackSlice
from cupel.slicers._related import Ladders, StepChooser

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cupel._columns import Candidates
    from cupel._relations import Relations
    from cupel._targets import Targets, Wanted, Work
    from cupel.diagnostics import ExclusionReason


class _HasKind(Protocol):
    @property
    def kind(self) -> ContextKind: ...


E = TypeVar("E", bound=_HasKind)


def as_kind(kind: ContextKind | str) -> ContextKind:
    """Coerce an entry's kind; a blank one is a fault of the slicer's configuration."""
    try:
        return ContextKind.of(kind)
    except InvalidItemError as blank:
        raise SlicerConfigError(str(blank)) from None


def as_amount(name: str, value: object, kind: ContextKind) -> int:
    """Coerce an entry's number of items or tokens."""
    return as_integer(f"{name} for kind '{kind}'", as_integer(name, value), least=0, error=SlicerConfigError)


def checked_entries(field: str, entries: Iterable[E], entry_type: type[E]) -> tuple[E, ...]:
    """Freeze a list of entries: the right type, and no kind twice (rulings 5.22, 5.33)."""
    frozen = as_tuple(field, entries, entry_type, expected=f"a list of {entry_type.__name__}")
    seen: dict[ContextKind, str] = {}
    for position, entry in enumerate(frozen):
        if entry.kind in seen:
            msg = f"{field}[{position}]: kind '{entry.kind}' has an entry already ('{seen[entry.kind]}'); keep one"
            raise SlicerConfigError(msg)
        seen[entry.kind] = entry.kind.value
    return frozen


class ScarcityBehavior(Enum):
    """What a count slicer does when a kind has fewer candidates than it requires."""

    DEGRADE = "degrade"
    """Take what there is and record a shortfall."""
    THROW = "throw"
    """Raise `ScarcityError`."""


@dataclass(frozen=True, slots=True)
class CountQuotaEntry:
    """One kind's number of items: at least `require_count`, whatever they cost, and at most `cap_count`.

    >>> CountQuotaEntry("ToolOutput", 1, 4).cap_count
    4
    """

    kind: ContextKind
    require_count: int
    cap_count: int

    if TYPE_CHECKING:

        def __init__(self, kind: ContextKind | str, require_count: int, cap_count: int) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", as_kind(self.kind))
        for name in ("require_count", "cap_count"):
            object.__setattr__(self, name, as_amount(name, getattr(self, name), self.kind))
        if self.require_count > self.cap_count:
            msg = (
                f"require_count must not exceed cap_count for kind '{self.kind}', "
                f"got require_count={shown(self.require_count)}, cap_count={shown(self.cap_count)}"
            )
            raise SlicerConfigError(msg)


@dataclass(frozen=True, slots=True)
class CountQuotaSlice(FittingSlicer):
    """Commits the required number of items of each kind, lets `inner` fill the rest, then enforces the caps.

    Required items are taken even when they exceed the budget; the pipeline's overflow strategy deals with that. The
    caps keep what `inner` returns first: with `GreedySlice` the densest items, not the highest-scored ones.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> pool = (("a", 0.9), ("b", 0.8))
    >>> tools = [ScoredItem(ContextItem(name, 10, kind="ToolOutput"), score) for name, score in pool]
    >>> slicer = CountQuotaSlice([CountQuotaEntry("ToolOutput", require_count=1, cap_count=1)])
    >>> [item.content for item in slicer.slice(tools, ContextBudget(100, 100))]
    ['a']
    """

    entries: tuple[CountQuotaEntry, ...]
    inner: Slicer = field(default_factory=GreedySlice)
    scarcity: ScarcityBehavior = field(default=ScarcityBehavior.DEGRADE, kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self, entries: Iterable[CountQuotaEntry], inner: Slicer = ..., *, scarcity: ScarcityBehavior = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", checked_entries("entries", self.entries, CountQuotaEntry))
        as_instance("inner", self.inner, Slicer)
        as_instance("scarcity", self.scarcity, ScarcityBehavior)
        if isinstance(self.inner, KnapsackSlice):
            msg = (
                "inner: CountQuotaSlice does not work with KnapsackSlice; use GreedySlice as the inner slicer, "
                "or CountConstrainedKnapsackSlice for counts with a knapsack"
            )
            raise SlicerConfigError(msg)

    def _fit(self, candidates: Candidates) -> CountChooser:
        """Commit the required items once."""
        return count_chooser(self, candidates, self.inner, resort=False)


@dataclass(frozen=True, slots=True)
class CountConstrainedKnapsackSlice(FittingSlicer):
    """Commits the required number of items of each kind, fills the rest with a knapsack, then enforces the caps.

    The caps keep the highest scores. The knapsack does not know about them, so room it spent on items that a cap then
    removes stays empty.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> pool = (("a", 0.8), ("b", 0.9))
    >>> tools = [ScoredItem(ContextItem(name, 10, kind="ToolOutput"), score) for name, score in pool]
    >>> slicer = CountConstrainedKnapsackSlice([CountQuotaEntry("ToolOutput", 0, 1)], KnapsackSlice(1))
    >>> [item.content for item in slicer.slice(tools, ContextBudget(100, 100))]
    ['b']
    """

    entries: tuple[CountQuotaEntry, ...]
    knapsack: KnapsackSlice = field(default_factory=KnapsackSlice)
    scarcity: ScarcityBehavior = field(default=ScarcityBehavior.DEGRADE, kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self, entries: Iterable[CountQuotaEntry], knapsack: KnapsackSlice = ..., *, scarcity: ScarcityBehavior = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", checked_entries("entries", self.entries, CountQuotaEntry))
        if not isinstance(self.knapsack, KnapsackSlice):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("knapsack", "a KnapsackSlice", self.knapsack)
        as_instance("scarcity", self.scarcity, ScarcityBehavior)

    def _fit(self, candidates: Candidates) -> CountChooser:
        """Commit the required items once."""
        # The knapsack returns items from last to first; the caps must see the highest scores first (ruling 5.27).
        return count_chooser(self, candidates, self.knapsack, resort=True)


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
