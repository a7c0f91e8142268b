"""A share of the budget for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING

import msgspec

from cupel._checks import as_finite, is_number, wrong_type
from cupel._ratios import floor_share
from cupel.errors import SlicerConfigError
from cupel.model import ContextBudget, ContextKind
from cupel.slicers._base import Chooser, FittedSlicer, Selection, Slicer, Span
from cupel.slicers._entries import as_kind, check_inner, checked_entries
from cupel.slicers._greedy import GreedySlice
from cupel.slicers._partition import positions_by_kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._columns import Candidates

_ALL = 100.0
_LOOK_AHEAD = 1_000


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
        """Give the least and the most tokens of a target, rounded down in this order of operations (ruling 5.17)."""
        return floor_share(target, self.require / 100.0), floor_share(target, self.cap / 100.0)


@dataclass(frozen=True, slots=True)
class QuotaSlice(FittedSlicer):
    """Shares the target among the kinds, then lets `inner` choose within each share.

    Every kind gets its required percentage; the rest is shared by how many tokens each kind offers, up to its cap.
    Kinds without an entry have no requirement and no cap. What a kind leaves unused is not given to others.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> pool = [ScoredItem(ContextItem("doc", 80, kind="Document"), 0.9), ScoredItem(ContextItem("chat", 30), 0.1)]
    >>> slicer = QuotaSlice([QuotaEntry("Message", require=30)])
    >>> [item.content for item in slicer.slice(pool, ContextBudget(100, 100))]
    ['chat']
    """

    quotas: tuple[QuotaEntry, ...]
    inner: Slicer = field(default_factory=GreedySlice)

    if TYPE_CHECKING:

        def __init__(self, quotas: Iterable[QuotaEntry], inner: Slicer = ...) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "quotas", checked_entries("quotas", self.quotas, QuotaEntry))
        check_inner(self.inner)
        total = fsum(entry.require for entry in self.quotas)
        if total > _ALL:
            msg = f"quotas: the required percentages must not add up to more than 100, got {total!r}"
            raise SlicerConfigError(msg)

    def _fit(self, candidates: Candidates) -> QuotaChooser:
        """Split the candidates by kind and let the inner slicer see each part once."""
        return QuotaChooser(self, candidates)


class Part(msgspec.Struct, frozen=True):
    """The candidates of one kind."""

    positions: list[int]
    chooser: Chooser
    mass: int
    """The tokens of all of them."""
    quota: QuotaEntry | None


class QuotaChooser(Chooser):
    """Shares targets among kinds whose parts are already fitted."""

    __slots__ = ("absent", "parts")

    def __init__(self, slicer: QuotaSlice, candidates: Candidates) -> None:
        quota_of = {entry.kind.key: entry for entry in slicer.quotas}
        self.parts: list[Part] = []
        for kind, positions in positions_by_kind(candidates).items():
            part = candidates.part(positions)
            self.parts.append(Part(positions, slicer.inner.fit(part), sum(part.tokens), quota_of.pop(kind, None)))
        self.absent = list(quota_of.values())

    def __call__(self, budget: ContextBudget) -> Selection:
        """Choose within each kind's share, kinds in the order they first appear."""
        chosen: list[int] = []
        target = budget.target_tokens
        if target <= 0:
            return Selection(chosen)
        for part, (share, cap) in zip(self.parts, self.shares(target), strict=True):
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
            for part, (share, cap) in zip(self.parts, self.shares(target), strict=True)
        ]
        for probe in range(target + 1, target + _LOOK_AHEAD):
            for (start, stop), (share, _) in zip(spans, self.shares(probe), strict=True):
                if share < start or (stop is not None and share >= stop):
                    return Span(target, probe)
        return Span(target, target + _LOOK_AHEAD)

    def shares(self, target: int) -> list[tuple[int, int]]:
        """Share a target: tokens and cap for each part."""
        # What kinds without candidates require is lost to the others as well (ruling 5.20).
        unassigned = target - sum([entry.limits(target)[0] for entry in self.absent])
        growing = 0
        limits: list[tuple[int, int, int]] = []
        for part in self.parts:
            require, cap = (0, target) if part.quota is None else part.quota.limits(target)
            mass = part.mass if cap > require else 0
            unassigned -= require
            growing += mass
            limits.append((require, cap, mass))
        unassigned, growing = max(0, unassigned), max(1, growing)
        return [(min(require + unassigned * mass // growing, cap), cap) for require, cap, mass in limits]
