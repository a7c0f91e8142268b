"""A share of the budget for each kind."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from math import floor, fsum
from typing import TYPE_CHECKING, Literal, NamedTuple

from cupel._internal.checks import MOST_TOKENS, as_finite, as_instance, as_text, is_number, shown, warn, wrong_type
from cupel.diagnostics import QuotaCapExceeded
from cupel.errors import ConfigurationWarning, SlicerConfigError
from cupel.model import ContextBudget, ContextKind
from cupel.slicers._base import Chooser, PreparingSlicer, Selection, Slicer, Span
from cupel.slicers._counts import as_kind, checked_entries
from cupel.slicers._greedy import GreedySlice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel._internal.columns import Candidates
    from cupel._internal.relations import Relations
    from cupel.diagnostics import ExclusionReason


def offered_tokens(candidates: Candidates) -> int:
    """Return the tokens of all candidates; of several forms of one entity the largest counts."""
    if candidates.relations is None:
        return sum(candidates.tokens)
    return sum(max(form.tokens for form in entity.forms) for entity in candidates.relations.entities if entity.forms)


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
    """Give all candidates of a group the kind that has most of its tokens, so that it is in one part.

    Of several such kinds the one of the earliest candidate counts.
    """
    for group in relations.groups:
        entities = [positions for entity in group.entities if (positions := relations.entities[entity].positions)]
        offered: dict[str, int] = {}
        for positions in sorted(entities):
            key = keys[positions[0]]
            offered[key] = offered.get(key, 0) + max(tokens[position] for position in positions)
        if len(offered) > 1:
            kind = max(offered, key=offered.__getitem__)
            for positions in entities:
                for position in positions:
                    keys[position] = kind


def portion(percent: float, target: int) -> int:
    """Return a percentage of a target, rounded down, in doubles and in this order of operations (ruling 5.17)."""
    return floor(percent / 100.0 * target)


_CLEAR = 3  # tokens between two portions, which no rounding closes
_LOOK_AHEAD = 32  # targets


class _KindShare(NamedTuple):
    """The candidates of one kind."""

    positions: list[int]
    chooser: Chooser
    entry: QuotaEntry | None
    mass: int
    """The tokens that the kind offers."""

    def choose(self, share: int, cap: int) -> list[int]:
        """Choose within a share."""
        positions, chooser, _, _ = self
        return [positions[index] for index in chooser(ContextBudget(cap, share)).chosen] if share > 0 else []

    def gets_nothing(self) -> bool:
        """Return whether no target leaves anything to the kind."""
        if self.entry is None:
            return self.mass == 0
        return self.entry.cap == 0 or (self.mass == 0 and self.entry.require == 0)


class QuotaChooser(Chooser):
    """Shares targets among kinds, each with its own chooser."""

    def __init__(self, candidates: Candidates, quotas: Sequence[QuotaEntry], inner: Slicer) -> None:
        self._candidates = candidates
        quota_of = {entry.kind.key: entry for entry in quotas}
        self._parts: list[_KindShare] = []
        for kind, positions in positions_by_kind(candidates).items():
            part = candidates.picked(positions)
            entry = quota_of.pop(kind, None)
            self._parts.append(_KindShare(positions, inner.prepare(part), entry, offered_tokens(part)))
        self._absent = list(quota_of.values())
        """The entries of kinds without candidates."""

    def _shares(self, target: int) -> list[tuple[int, int]]:
        """Return the tokens and the cap of each kind."""
        # The requirement of a kind without candidates is lost to the others as well (ruling 5.20).
        unassigned = target - sum([portion(entry.require, target) for entry in self._absent])
        growing = 0
        limits: list[tuple[int, int, int]] = []
        for _, _, entry, offered in self._parts:
            require, cap = (0, target) if entry is None else entry.limits(target)
            mass = offered if cap > require else 0
            unassigned -= require
            growing += mass
            limits.append((require, cap, mass))
        unassigned, growing = max(0, unassigned), max(1, growing)
        return [(min(cap, require + unassigned * mass // growing), cap) for require, cap, mass in limits]

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose within each kind's share, kinds in the order they first appear."""
        if budget.target_tokens <= 0:
            return Selection([])
        shares = zip(self._parts, self._shares(budget.target_tokens), strict=True)
        return Selection([position for part, (share, cap) in shares for position in part.choose(share, cap)])

    def span(self, budget: ContextBudget) -> Span:
        """Try the next targets one by one, then leap while every kind's share stays within its own span."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1)
        spans: list[Span | None] = []
        for part, (share, cap) in zip(self._parts, self._shares(target), strict=True):
            inner = part.chooser.span(ContextBudget(cap, share)) if share > 0 else Span(0, 1)
            spans.append(None if part.gets_nothing() else inner)
        for probe in range(target + 1, target + _LOOK_AHEAD):
            if not self._stays(spans, probe):
                return Span(target, probe)
        # Once the same kinds get a part of the rest, shares only grow, except for rounding.
        reach, slack = _LOOK_AHEAD, 2 * (len(self._parts) + len(self._absent)) + 1
        gaps = [part.entry.cap - part.entry.require for part in self._parts if part.entry is not None]
        is_steady = all(gap == 0 or gap / 100.0 * target >= _CLEAR for gap in gaps)
        if is_steady and self._stays(spans, target + reach, slack):
            if all(span is None or span.stop is None for span in spans):
                return Span(target, None)
            while reach < MOST_TOKENS and self._stays(spans, target + 2 * reach, slack):
                reach *= 2
        return Span(target, target + reach)

    def _stays(self, spans: list[Span | None], target: int, slack: int = 0) -> bool:
        """Return whether the share of each kind is within its span, with some slack on both sides."""
        pairs = zip(spans, self._shares(target), strict=True)
        return all(
            span is None or (span.start + slack <= share and (span.stop is None or share + slack < span.stop))
            for span, (share, _) in pairs
        )


class LeftoverChooser(QuotaChooser):
    """Offers the tokens that kinds leave of their shares to those that can use them."""

    @cached_property
    def _kinds(self) -> dict[int, int]:
        """The kind of each position, as a place among the parts; negative counts have none."""
        return {position: kind for kind, part in enumerate(self._parts) for position in part.positions}

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose within the shares, then let each kind choose again from the unused tokens."""
        target = budget.target_tokens
        if target <= 0:
            return Selection([])
        shares = self._shares(target)
        chosen = [part.choose(share, cap) for part, (share, cap) in zip(self._parts, shares, strict=True)]
        used = list(map(self._tokens, chosen))
        for kind in self._waiting(chosen):
            share, cap = shares[kind]
            offer = min(used[kind] + target - sum(used), cap)
            if offer > share:  # otherwise the others have taken the tokens it left
                chosen[kind] = self._parts[kind].choose(offer, cap)
                used[kind] = self._tokens(chosen[kind])

        def explain(position: int) -> ExclusionReason | None:
            """Name the cap that kept an item out; None where it was not a cap."""
            if position not in self._kinds:
                return None
            kind, cost = self._kinds[position], self._candidates.tokens[position]
            cap, actual = shares[kind][1], used[kind] + cost
            if cost <= target and cap < min(target, actual):
                return QuotaCapExceeded(self._candidates.items[position].kind.value, cap, actual)
            return None

        return Selection([position for choice in chosen for position in choice], explain=explain)

    def span(self, budget: ContextBudget) -> Span:
        """Return the given target alone: one more token may go to any kind."""
        return Chooser.span(self, budget)

    def _waiting(self, chosen: list[list[int]]) -> list[int]:
        """Return the kinds with excluded items, the one with the best excluded item first."""
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

    Both are percentages from 0 to 100: `QuotaEntry("Memory", 10)` requires a tenth of the target,
    `QuotaEntry("Memory", 0.1)` only 0.1 percent.

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
            percent = as_finite(where, value, error=SlicerConfigError, least=0.0, most=_ALL)
            object.__setattr__(self, name, percent)
            if 0.0 < percent < 1.0:
                share = (
                    f"{where} is {percent:g} percent of the target; for a share of {percent:g} write {percent * 100:g}"
                )
                warn(ConfigurationWarning(share))
        if self.require > self.cap:
            msg = f"require must not exceed cap for kind '{self.kind}', got require={self.require}, cap={self.cap}"
            raise SlicerConfigError(msg)

    def limits(self, target: int) -> tuple[int, int]:
        """Return the least and the most tokens of a target, rounded down."""
        return portion(self.require, target), portion(self.cap, target)


@dataclass(frozen=True, slots=True)
class QuotaSlice(PreparingSlicer):
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

    quotas: Sequence[QuotaEntry]
    inner: Slicer = field(default_factory=GreedySlice)
    leftover: Literal["unused", "share"] = field(default="unused", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "quotas", checked_entries("quotas", self.quotas, QuotaEntry))
        as_instance("inner", self.inner, Slicer)
        if as_text("leftover", self.leftover) not in ("unused", "share"):
            raise SlicerConfigError(f"leftover must be 'unused' or 'share', got {shown(self.leftover)}")
        total = fsum(entry.require for entry in self.quotas)
        if total > _ALL:
            raise SlicerConfigError(f"quotas: the required percentages must not add up to more than 100, got {total!r}")

    @property
    def limited_kinds(self) -> tuple[ContextKind, ...]:
        """The kinds of the quotas, and those of the inner slicer."""
        return (*(quota.kind for quota in self.quotas), *self.inner.limited_kinds)

    def _prepare(self, candidates: Candidates) -> QuotaChooser:
        """Split the candidates by kind and prepare the inner slicer for each part."""
        chooser = QuotaChooser if self.leftover == "unused" else LeftoverChooser
        return chooser(candidates, self.quotas, self.inner)
