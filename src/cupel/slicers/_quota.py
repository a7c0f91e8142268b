"""A share of the budget for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING, Literal

from cupel._checks import as_finite, as_instance, as_text, is_number, shown, wrong_type
from cupel.errors import SlicerConfigError
from cupel.model import ContextKind
from cupel.slicers._base import FittingSlicer, Slicer
from cupel.slicers._entries import as_kind, checked_entries
from cupel.slicers._greedy import GreedySlice
from cupel.slicers._quota_chooser import LeftoverChooser, QuotaChooser
from cupel.slicers._shares import portion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._columns import Candidates

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
