"""Slicers with a number of items for each kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar

from cupel._internal.checks import as_instance, as_integer, as_text, as_tuple, shown, wrong_type
from cupel._internal.columns import descending
from cupel._internal.relations import drop_violations
from cupel.diagnostics import CountCapExceeded, CountRequirementShortfall
from cupel.errors import InvalidItemError, ScarcityError, SlicerConfigError
from cupel.model import ContextBudget, ContextKind
from cupel.slicers._base import Chooser, PreparingSlicer, Selection, Slicer, Span
from cupel.slicers._greedy import GreedySlice, UpgradeChooser, Upgrades
from cupel.slicers._knapsack import KnapsackSlice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel._internal.columns import Candidates
    from cupel._internal.relations import Relations
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
    """How a slicer handles a kind with fewer candidates than it requires."""

    DEGRADE = "degrade"
    """Take all candidates of the kind and record a shortfall."""
    THROW = "throw"
    """Raise `ScarcityError`."""


@dataclass(frozen=True, slots=True)
class CountQuotaEntry:
    """One kind's number of items: at least `require_count`, whatever they cost, and at most `cap_count`.

    Without a `cap_count` the kind has no cap.

    >>> CountQuotaEntry("ToolOutput", cap_count=3)
    CountQuotaEntry(kind=ContextKind('ToolOutput'), require_count=0, cap_count=3)
    """

    kind: ContextKind
    require_count: int = 0
    cap_count: int | None = None

    if TYPE_CHECKING:

        def __init__(self, kind: ContextKind | str, require_count: int = ..., cap_count: int | None = ...) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", as_kind(self.kind))
        object.__setattr__(self, "require_count", as_amount("require_count", self.require_count, self.kind))
        if self.cap_count is None:
            return
        object.__setattr__(self, "cap_count", as_amount("cap_count", self.cap_count, self.kind))
        if self.require_count > self.cap_count:
            raise SlicerConfigError(
                f"require_count must not exceed cap_count for kind '{self.kind}', "
                f"got require_count={shown(self.require_count)}, cap_count={shown(self.cap_count)}"
            )


@dataclass(frozen=True, slots=True)
class CountQuotaSlice(PreparingSlicer):
    """Commits the required number of items of each kind, lets `inner` fill the rest, then enforces the caps.

    Required items are taken even when they exceed the budget; the pipeline's overflow strategy deals with that. The
    caps keep the items that `inner` returns first: with `GreedySlice` the densest items, not the highest-scored ones.
    The tokens of items that a cap cuts off stay unused, or, with `leftover="share"`, `inner` chooses among the others
    for them.

    >>> from cupel import BestFirstSlice, ContextBudget, ContextItem, ScoredItem
    >>> pool = [ScoredItem(ContextItem(name, 40, kind="ToolOutput"), 0.9) for name in ("tool 1", "tool 2")]
    >>> pool.append(ScoredItem(ContextItem("question", 30), 0.5))
    >>> one_tool = [CountQuotaEntry("ToolOutput", cap_count=1)]
    >>> for leftover in ("unused", "share"):
    ...     slicer = CountQuotaSlice(one_tool, BestFirstSlice(), leftover=leftover)
    ...     print([item.content for item in slicer.slice(pool, ContextBudget(80, 80))])
    ['tool 1']
    ['tool 1', 'question']
    """

    entries: Sequence[CountQuotaEntry]
    inner: Slicer = field(default_factory=GreedySlice)
    scarcity: ScarcityBehavior = field(default=ScarcityBehavior.DEGRADE, kw_only=True)
    leftover: Literal["unused", "share"] = field(default="unused", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", checked_entries("entries", self.entries, CountQuotaEntry))
        as_instance("inner", self.inner, Slicer)
        as_instance("scarcity", self.scarcity, ScarcityBehavior)
        if as_text("leftover", self.leftover) not in ("unused", "share"):
            raise SlicerConfigError(f"leftover must be 'unused' or 'share', got {shown(self.leftover)}")
        if isinstance(self.inner, KnapsackSlice):
            raise SlicerConfigError(
                "inner: CountQuotaSlice does not work with KnapsackSlice; use GreedySlice as the inner slicer, "
                "or CountConstrainedKnapsackSlice for counts with a knapsack"
            )

    @property
    def limited_kinds(self) -> tuple[ContextKind, ...]:
        """The kinds of the entries, and those of the inner slicer."""
        return (*(entry.kind for entry in self.entries), *self.inner.limited_kinds)

    def _prepare(self, candidates: Candidates) -> CountChooser:
        """Commit the required items once."""
        return count_chooser(self, candidates, self.inner, share=self.leftover == "share")


@dataclass(frozen=True, slots=True)
class CountConstrainedKnapsackSlice(PreparingSlicer):
    """Commits the required number of items of each kind, fills the rest with a knapsack, then enforces the caps.

    The caps keep the highest scores. The knapsack ignores them, so the room of items that a cap then removes stays
    empty.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> pool = (("a", 0.8), ("b", 0.9))
    >>> tools = [ScoredItem(ContextItem(name, 10, kind="ToolOutput"), score) for name, score in pool]
    >>> slicer = CountConstrainedKnapsackSlice([CountQuotaEntry("ToolOutput", 0, 1)], KnapsackSlice(1))
    >>> [item.content for item in slicer.slice(tools, ContextBudget(100, 100))]
    ['b']
    """

    entries: Sequence[CountQuotaEntry]
    knapsack: KnapsackSlice = field(default_factory=KnapsackSlice)
    scarcity: ScarcityBehavior = field(default=ScarcityBehavior.DEGRADE, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", checked_entries("entries", self.entries, CountQuotaEntry))
        if not isinstance(self.knapsack, KnapsackSlice):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("knapsack", "a KnapsackSlice", self.knapsack)
        as_instance("scarcity", self.scarcity, ScarcityBehavior)

    @property
    def limited_kinds(self) -> tuple[ContextKind, ...]:
        """The kinds of the entries."""
        return tuple(entry.kind for entry in self.entries)

    def _prepare(self, candidates: Candidates) -> CountChooser:
        """Commit the required items once."""
        # The knapsack returns items from last to first; the caps must see the highest scores first (ruling 5.27).
        return count_chooser(self, candidates, self.knapsack, resort=True)


CountSlicer: TypeAlias = "CountQuotaSlice | CountConstrainedKnapsackSlice"


class CountChooser(Chooser):
    """The three phases both count slicers share: commit required items, fill up with `inner`, enforce the caps.

    The first phase does not depend on the budget (ruling 5.31), so it happens once, at construction. Items are told
    apart by position, so that one object listed twice counts twice (ruling 5.34).

    Args:
        slicer: The slicer whose entries count.
        candidates: The candidates.
        inner: The slicer that fills the rest.
        resort: Whether the caps see the highest scores first, whatever `inner` returns first.
        share: Whether `inner` chooses again for the tokens of what a cap cuts off.
    """

    def __init__(
        self, slicer: CountSlicer, candidates: Candidates, inner: Slicer, *, resort: bool = False, share: bool = False
    ) -> None:
        self._name = type(slicer).__name__
        self._candidates = candidates
        self._keys = [item.kind.key for item in candidates.items]
        self._entries = slicer.entries
        self._caps = {entry.kind.key: entry.cap_count for entry in slicer.entries if entry.cap_count is not None}
        self._scarcity = slicer.scarcity
        self._resort, self._share = resort, share
        self._committed: list[int] = []
        self._gone: set[int] = set()
        """The positions that the committed items leave no choice about."""
        self._room: dict[str, int] = {}
        """How many more of each kind its cap allows."""
        missing = self._commit()
        self._shortfalls = tuple(
            CountRequirementShortfall(entry.kind.value, entry.require_count, entry.require_count - left)
            for entry in slicer.entries
            if (left := missing[entry.kind.key]) > 0
        )
        self._committed_tokens = sum(candidates.tokens[position] for position in self._committed)
        # Negative counts take no part (ruling 5.4).
        self._rest = [place for place, cost in enumerate(candidates.tokens) if place not in self._gone and cost >= 0]
        self._slicer = inner
        self._inner = inner.prepare(candidates.picked(self._rest))

    def _commit(self) -> dict[str, int]:
        """Take the best of each kind that is required, whatever the budget; return how many are missing."""
        keys, tokens = self._keys, self._candidates.tokens
        missing = {entry.kind.key: entry.require_count for entry in self._entries}
        taken: dict[str, list[int]] = {key: [] for key in missing}
        wanted = sum(missing.values())
        for position in descending(self._candidates.scores) if wanted else ():
            key = keys[position]
            if missing.get(key, 0) > 0 and tokens[position] >= 0:  # without negative counts (ruling 5.4)
                taken[key].append(position)
                missing[key] -= 1
                wanted -= 1
                if not wanted:
                    break
        self._committed = [position for own in taken.values() for position in own]
        self._room = {key: cap - len(taken[key]) for key, cap in self._caps.items()}
        self._gone = set(self._committed)
        return missing

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose for one budget; an empty pool or target chooses nothing and is short of nothing (ruling 5.26)."""
        if not self._candidates.items or budget.target_tokens <= 0:
            return Selection([], explain=lambda position: self._cap_reached(position, self._caps, budget))
        kept, room = self._fill(budget)
        chosen = self._committed + kept
        return Selection(chosen, self._shortfalls, lambda position: self._cap_reached(position, room, budget))

    def _fill(self, budget: ContextBudget) -> tuple[list[int], dict[str, int]]:
        """Fill the tokens that the committed items leave; return the positions, and the room under each cap.

        What the caps keep out is found in the order of the inner slicer. To share its tokens, the inner slicer chooses
        again without it, up to where every item that it chooses has room.
        """
        rest, inner = self._rest, self._inner
        while True:
            kept, room, out = self._within_caps(self._filled(rest, inner, budget), rest)
            if not out:
                return kept, room
            rest = [position for position in rest if position not in out]
            inner = self._slicer.prepare(self._candidates.picked(rest))

    def _within_caps(self, filled: list[int], rest: list[int]) -> tuple[list[int], dict[str, int], set[int]]:
        """Return the positions that the caps allow and the room they leave.

        To share, stop at the first that a cap keeps out, and return all of the rest that it keeps out from there on.
        """
        room, keys = dict(self._room), self._keys
        kept: list[int] = []
        for position in filled:
            key = keys[position]
            left = room.get(key)
            if left is not None:
                if left == 0:
                    if self._share:
                        inside = set(kept)
                        full = (at for at in rest if room.get(keys[at]) == 0 and at not in inside)
                        return kept, room, set(full)
                    continue
                room[key] = left - 1
            kept.append(position)
        return kept, room, set()

    @property
    def _is_refused(self) -> bool:
        """Whether a shortfall raises, for every positive target."""
        return bool(self._shortfalls) and self._scarcity is ScarcityBehavior.THROW and len(self._candidates) > 0

    def _filled(self, rest: list[int], inner: Chooser, budget: ContextBudget) -> list[int]:
        """Let the inner slicer choose among the rest for the tokens that the committed items leave, in caps' order.

        Raise if there are fewer candidates than required and scarcity is not tolerated.
        """
        if self._is_refused:
            short = self._shortfalls[0]
            raise ScarcityError(self._name, short.kind, short.satisfied_count, short.required_count)
        filled = [rest[index] for index in inner(self._rest_budget(budget)).chosen]
        if not self._resort:
            return filled
        ranks = descending([self._candidates.scores[position] for position in filled])
        return [filled[rank] for rank in ranks]

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
        """Return the inner slicer's span, shifted by the committed tokens; of shared ones the given target alone."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1 if self._candidates.items else None)
        if self._is_refused:
            return Span(1, None)
        if self._share:
            return super().span(budget)
        inner = self._inner.span(self._rest_budget(budget))
        start = max(1, inner.start + self._committed_tokens) if target > self._committed_tokens else 1
        return Span(start, None if inner.stop is None else inner.stop + self._committed_tokens)


def count_chooser(slicer: CountSlicer, candidates: Candidates, inner: Slicer, **how: bool) -> CountChooser:
    """Return the chooser of a count slicer for plain or related candidates."""
    if candidates.relations is None:
        return CountChooser(slicer, candidates, inner, **how)
    return RelatedCountChooser(slicer, candidates, inner, candidates.relations, **how)


class RelatedCountChooser(CountChooser):
    """Counts an entity once, in whichever form, and takes groups whole.

    Required entities are committed in their smallest useful forms, with their groups; the tokens that the inner slicer
    leaves go into larger forms. A group that would exceed any kind's cap stays out.
    """

    def __init__(
        self, slicer: CountSlicer, candidates: Candidates, inner: Slicer, relations: Relations, **how: bool
    ) -> None:
        self._relations = relations
        self._upgrades = Upgrades(relations)
        self._chooser = UpgradeChooser(self._upgrades, self._upgrades.by_density())
        super().__init__(slicer, candidates, inner, **how)

    def _commit(self) -> dict[str, int]:
        """Take the best groups with a kind that is required, whatever the budget; return how many are missing."""
        missing = {entry.kind.key: entry.require_count for entry in self._entries}
        self._room = dict(self._caps)
        taken: list[int] = []
        for group in self._upgrades.groups_by_score():
            counts = self._counts(group)
            if any(missing.get(kind, 0) > 0 for kind in counts) and _has_room(counts, self._room):
                taken.append(group)
                _take(counts, self._room)
                _take(counts, missing)
        entities = [entity for group in sorted(taken) for entity in self._relations.groups[group].entities]
        self._committed = [self._upgrades.forms[entity][0].position for entity in entities]
        self._gone = {position for entity in entities for position in self._relations.entities[entity].positions}
        return missing

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose for one budget; tokens that are left go into larger forms."""
        if not self._candidates.items or budget.target_tokens <= 0:
            return super().__call__(budget)
        kept, room = self._fill(budget)
        chosen = drop_violations(self._relations, self._committed + kept)
        left = budget.target_tokens - sum(self._candidates.tokens[position] for position in chosen)
        return Selection(
            self._chooser.improved(chosen, left),
            self._shortfalls,
            lambda position: self._cap_reached(position, room, budget),
        )

    def span(self, budget: ContextBudget) -> Span:
        """Know only the targets that hold all forms or are refused: before, a token more may go into a larger form."""
        target = budget.target_tokens
        if target > 0 and self._is_refused:
            return Span(1, None)
        if target >= max(1, self._committed_tokens + self._upgrades.everything):
            stop = self._inner.span(self._rest_budget(budget)).stop
            return Span(target, None if stop is None else stop + self._committed_tokens)
        return Chooser.span(self, budget)

    def _within_caps(self, filled: list[int], rest: list[int]) -> tuple[list[int], dict[str, int], set[int]]:
        """As for plain candidates, by groups."""
        room = dict(self._room)
        kept: dict[int, list[int]] = {}
        for group, positions in self._by_group(filled).items():
            counts = self._counts(group)
            if _has_room(counts, room):
                _take(counts, room)
                kept[group] = positions
            elif self._share:
                groups = self._relations.groups
                others = {at: own for at, own in self._by_group(rest).items() if at not in kept and groups[at].is_open}
                full = (own for at, own in others.items() if not _has_room(self._counts(at), room))
                return [*chain.from_iterable(kept.values())], room, {*chain.from_iterable(full)}
        return [*chain.from_iterable(kept.values())], room, set()

    def _by_group(self, positions: list[int]) -> dict[int, list[int]]:
        groups: dict[int, list[int]] = {}
        for position in positions:
            groups.setdefault(self._relations.group_of[self._relations.entity_of[position]], []).append(position)
        return groups

    def _counts(self, group: int) -> Counter[str]:
        """Count the entities of a group by kind."""
        entities = self._relations.groups[group].entities
        return Counter(self._keys[self._relations.entities[entity].positions[0]] for entity in entities)


def _has_room(counts: Counter[str], room: dict[str, int]) -> bool:
    return all(kind not in room or number <= room[kind] for kind, number in counts.items())


def _take(counts: Counter[str], room: dict[str, int]) -> None:
    for kind, number in counts.items():
        if kind in room:
            room[kind] -= number
