"""A share of the budget for each kind."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, fsum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from cupel._checks import as_finite, as_instance, as_text, is_number, shown, wrong_type
from cupel._columns import Candidates
from cupel.diagnostics import QuotaCapExceeded
from cupel.errors import SlicerConfigError
from cupel.model import ContextBudget, ContextKind
from cupel.slicers._base import Chooser, FittingSlicer, Reach, Selection, Slicer, Span
from cupel.slicers._counts import as_kind, checked_entries
from cupel.slicers._greedy import GreedySlice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from cupel._relations import Relations
    from cupel._targets import Targets, Wanted, Work
    from cupel.diagnostics import ExclusionReason


def offered_tokens(candidates: Candidates) -> int:
    """Return the tokens of all candidates; of several forms of one thing the largest counts."""
    if candidates.relations is None:
        return sum(candidates.tokens)
    return sum(max(form.tokens for form in thing.forms) for thing in candidates.relations.things if thing.forms)


def positions_by_kind(candidates: Candidates) -> dict[str, list[int]]:
    """Group positions by folded kind, kinds in the order they first appear (ruling 5.18).

    A slicer called outside the pipeline may meet negative counts; none of the built-ins takes them (ruling 5.4).
    """
    keys, tokens = [item.kind.key for item in candidates.items], candidates.tokens
    if candidates.relations is not None:
        _unite(keys, tokens, candidates.relations)
    parts: defaultdict[str, list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        if tokens[position] >= 0:
            parts[key].append(position)
    return parts


def _unite(keys: list[str], tokens: list[int], relations: Relations) -> None:
    """Give all candidates of a unit the kind that has most of its tokens, so that a group is in one part.

    Of several such kinds the one of the earliest candidate counts.
    """
    for unit in relations.units:
        things = [positions for thing in unit.things if (positions := relations.things[thing].positions)]
        offered: dict[str, int] = {}
        for positions in sorted(things):
            key = keys[positions[0]]
            offered[key] = offered.get(key, 0) + max(tokens[position] for position in positions)
        if len(offered) > 1:
            kind = max(offered, key=offered.__getitem__)
            for positions in things:
                for position in positions:
                    keys[position] = kind


_EXACT = 2**53  # up to here a double holds every integer
_SAFE = 2**62
Number = TypeVar("Number", int, "NDArray[Any]")


def portion(percent: float, target: Number) -> Number:
    """Return a percentage of a target, rounded down, in doubles and in this order of operations (ruling 5.17).

    Where doubles cannot tell targets apart, the product is exact instead: no share exceeds what it is a share of.
    """
    if not isinstance(target, int):
        return _portions(percent, target)
    if target <= _EXACT:
        return floor(percent / 100.0 * target)
    numerator, denominator = (percent / 100.0).as_integer_ratio()
    return numerator * target // denominator


def _portions(percent: float, targets: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    if targets.dtype == np.object_:
        return np.array([portion(percent, int(target)) for target in targets], np.object_)
    return np.floor(percent / 100.0 * targets).astype(np.int64)


class Slope(NamedTuple):
    """A line that a share keeps to, up to some tokens of rounding."""

    slope: Fraction
    slack: Fraction


@dataclass(frozen=True)
class Sharing:
    """How targets are shared among kinds."""

    entries: list[QuotaEntry | None]
    """Each kind's entry, if it has one."""
    masses: list[int]
    """The tokens that each kind offers."""
    absent: list[QuotaEntry]
    """The entries of kinds without candidates."""

    def shares(self, target: Number) -> list[tuple[Number, Number]]:
        """Return the tokens and the cap of each kind; written so that a column of targets takes the same way."""
        # What kinds without candidates require is lost to the others as well (ruling 5.20).
        unassigned = target - sum([portion(entry.require, target) for entry in self.absent])
        growing = target * 0
        limits: list[tuple[Number, Number, Number]] = []
        for entry, offered in zip(self.entries, self.masses, strict=True):
            require = target * 0 if entry is None else portion(entry.require, target)
            cap = target if entry is None else portion(entry.cap, target)
            mass = (target * 0 + offered) * (cap > require)
            unassigned = unassigned - require
            growing = growing + mass
            limits.append((require, cap, mass))
        unassigned, growing = unassigned * (unassigned > 0), growing + (growing < 1)
        filled = [(require + unassigned * mass // growing, cap) for require, cap, mass in limits]
        return [(share - (share - cap) * (share > cap), cap) for share, cap in filled]

    def column(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Return the targets in a type in which sharing them cannot wrap."""
        import numpy as np

        largest = int(targets.max(initial=1))
        if largest <= _EXACT and largest * (sum(self.masses) + 1) < _SAFE:
            return targets.astype(np.int64)
        return np.array([int(target) for target in targets], np.object_)

    # ---- what can be said about all targets at once ------------------------------------------------------------------

    @cached_property
    def steady_from(self) -> int:
        """From this target on it is settled which kinds have a part in what nobody requires."""
        gaps = [_fraction(entry.cap) - _fraction(entry.require) for entry in self.entries if entry is not None]
        return max((ceil(3 / gap) for gap in gaps if gap > 0), default=1)

    @cached_property
    def lines(self) -> list[list[Slope]]:
        """For each kind the lines whose lowest its share follows: what it is given, and its cap."""
        present = [entry for entry in self.entries if entry is not None]
        free = max(Fraction(0), 1 - sum(_fraction(entry.require) for entry in (*present, *self.absent)))
        masses = [
            mass if entry is None or _fraction(entry.cap) > _fraction(entry.require) else 0
            for entry, mass in zip(self.entries, self.masses, strict=True)
        ]
        growing = sum(masses) or 1
        roundings = 2 * (len(present) + len(self.absent))  # of tokens that nobody requires, each worth two at most
        lines: list[list[Slope]] = []
        for entry, mass in zip(self.entries, masses, strict=True):
            require = Fraction(0) if entry is None else _fraction(entry.require)
            part = Fraction(mass, growing)
            given = Slope(require + free * part, roundings * part + (2 if require else 0))
            lines.append([given, Slope(Fraction(1) if entry is None else _fraction(entry.cap), Fraction(1))])
        return lines

    def gets_nothing(self, kind: int) -> bool:
        """Tell whether no target leaves anything to a kind."""
        entry = self.entries[kind]
        return (entry is not None and entry.cap == 0) or (
            self.masses[kind] == 0 and (entry is None or entry.require == 0)
        )

    def most(self, kind: int, target: int) -> int:
        """Return no less than the share of a kind under any target up to this one."""
        if target < self.steady_from:
            return target
        return min(target, *(floor(line.slope * target + line.slack) for line in self.lines[kind]))

    def surely_gives(self, kind: int, tokens: int) -> int | None:
        """Return a target from which on a kind has at least so many tokens; None if its share does not grow."""
        if any(line.slope == 0 for line in self.lines[kind]):
            return None
        return max(self.steady_from, *(ceil((tokens + line.slack) / line.slope) for line in self.lines[kind]))

    def may_give(self, kind: int, tokens: int) -> int:
        """Return a target below which a kind, if the sharing is steady and its share grows, has fewer tokens."""
        return max(floor((tokens - line.slack) / line.slope) for line in self.lines[kind])


def _fraction(percent: float) -> Fraction:
    return Fraction(percent / 100.0)


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
        from cupel.slicers._targets import ShareTargets

        kind, index = self._places[wanted.position]
        if self._sharing.gets_nothing(kind):
            return NEVER
        of_kind = Wanted(index, frozenset(self._places[rival][1] for rival in wanted.rivals), wanted.room)
        inner = self._parts[kind].chooser.targets(of_kind, self._sharing.most(kind, highest), work)
        return None if inner is None else ShareTargets(self._sharing, kind, inner, work)

    def refused(self, work: Work) -> Targets | None:
        """Refuse what any kind refuses of its share."""
        from cupel._targets import AnyOf
        from cupel.slicers._targets import ShareTargets

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


_ALL = 100.0


@dataclass(frozen=True, slots=True)
class QuotaEntry:
    """One kind's share of the target, in percent: at least `require`, at most `cap`.

    >>> QuotaEntry("Document", cap=40).require
    0.0
    """

    kind: ContextKind
    require: float = 0.0
    cap: float = _ALL

    if TYPE_CHECKING:

        def __init__(self, kind: ContextKind | str, require: float = ..., cap: float = ...) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", as_kind(self.kind))
        for name in ("require", "cap"):
            value = getattr(self, name)
            if not is_number(value):
                raise wrong_type(name, "a number", value)
            where = f"{name} for kind '{self.kind}'"
            object.__setattr__(self, name, as_finite(where, value, error=SlicerConfigError, least=0.0, most=_ALL))
        if self.require > self.cap:
            msg = f"require must not exceed cap for kind '{self.kind}', got require={self.require}, cap={self.cap}"
            raise SlicerConfigError(msg)

    def limits(self, target: int) -> tuple[int, int]:
        """Return the least and the most tokens of a target, rounded down."""
        return portion(self.require, target), portion(self.cap, target)


@dataclass(frozen=True, slots=True)
class QuotaSlice(FittingSlicer):
    """Shares the target among the kinds, then lets `inner` choose within each share.

    Every kind gets its required percentage; the rest is shared by how many tokens each kind offers, up to its cap.
    Kinds without an entry have no requirement and no cap. What a kind leaves unused stays unused, or, with
    `leftover="share"`, is offered to the kinds in the order of their best items left out, to each up to its cap.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> pool = [ScoredItem(ContextItem("doc", 80, kind="Document"), 0.9), ScoredItem(ContextItem("chat", 30), 0.1)]
    >>> slicer = QuotaSlice([QuotaEntry("Message", require=30)])
    >>> [item.content for item in slicer.slice(pool, ContextBudget(100, 100))]
    ['chat']
    """

    quotas: tuple[QuotaEntry, ...]
    inner: Slicer = field(default_factory=GreedySlice)
    leftover: Literal["leave", "share"] = field(default="leave", kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self, quotas: Iterable[QuotaEntry], inner: Slicer = ..., *, leftover: Literal["leave", "share"] = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "quotas", checked_entries("quotas", self.quotas, QuotaEntry))
        as_instance("inner", self.inner, Slicer)
        if as_text("leftover", self.leftover) not in ("leave", "share"):
            msg = f"leftover must be 'leave' or 'share', got {shown(self.leftover)}"
            raise SlicerConfigError(msg)
        total = fsum(entry.require for entry in self.quotas)
        if total > _ALL:
            msg = f"quotas: the required percentages must not add up to more than 100, got {total!r}"
            raise SlicerConfigError(msg)

    def _fit(self, candidates: Candidates) -> QuotaChooser:
        """Split the candidates by kind and let the inner slicer see each part once."""
        chooser = QuotaChooser if self.leftover == "leave" else LeftoverChooser
        return chooser(candidates, self.quotas, self.inner)
