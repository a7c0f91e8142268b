"""The budgets at which a page shows a selection, and the selections there, written as differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from cupel.diagnostics import (
    BudgetExceeded,
    Deduplicated,
    ExclusionReason,
    InclusionReason,
    NegativeTokens,
    QuotaCapExceeded,
    SelectionReport,
)
from cupel.errors import SelectionError
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import Pipeline
from cupel.slicers import Slicer

_MOST, _FEWEST, _WORK = 101, 21, 200_000
"""The most and the fewest stops, and the number of items over all of them: every stop is a run of each policy."""
_LINEAR: Final = 4_000
"""Tokens that a linear scale still tells apart; a longer one goes by ratios."""
_TEXT: Final = 96
"""Characters of a text in a reason: the page shows fewer."""


_NO_ROOM: Final[dict[str, Any]] = {"reason": BudgetExceeded.__name__}


class Slider(NamedTuple):
    """The stops of the slider, under a fixed window or with the window moving along."""

    budget: ContextBudget
    fixed_window: bool
    stops: tuple[int, ...]

    @classmethod
    def covering(
        cls, items: Sequence[ContextItem], budget: ContextBudget, policies: Iterable[Pipeline], *, fixed_window: bool
    ) -> Slider:
        """Reach up to the window, or without a fixed one to the budget at which everything fits."""
        lowest, highest = 0, budget.max_tokens
        if not fixed_window:
            lowest, highest = budget.output_reserve, _room_for_all(items, budget, policies)
        count = max(_FEWEST, min(_MOST, _WORK // max(1, len(items))))
        return cls(budget, fixed_window, tuple(sorted({*_spread(lowest, highest, count), budget.target_tokens})))

    def at(self, target: int) -> ContextBudget:
        """Return the budget with this target."""
        window = self.budget.max_tokens if self.fixed_window else target
        return msgspec.structs.replace(self.budget, max_tokens=window, target_tokens=target)

    def settings(self) -> dict[str, Any]:
        """Return the fields of the budget as the page's script reads them."""
        return {
            "target": self.budget.target_tokens,
            "max": self.budget.max_tokens,
            "max_follows": not self.fixed_window,
            "reserve": self.budget.output_reserve,
            "margin": self.budget.estimation_safety_margin_percent,
        }


def _room_for_all(items: Sequence[ContextItem], budget: ContextBudget, policies: Iterable[Pipeline]) -> int:
    """Return a round budget at which every policy has room for all items, counted in its knapsack's buckets."""
    sizes = [item.tokens for item in items if item.tokens > 0]
    buckets = {1, *(_bucket_size(policy.slicer) for policy in policies)}
    everything = max(sum(-(-size // bucket) * bucket for size in sizes) for bucket in buckets)
    share = 1.0 - budget.estimation_safety_margin_percent / 100.0
    needed = math.ceil(everything / share) if share > 0 else everything
    needed = max(needed + budget.total_reserved, budget.target_tokens, 100)
    step: int = 10 ** max(0, len(str(needed)) - 2)
    return -(-needed // step) * step


def _bucket_size(slicer: Slicer) -> int:
    """Return the bucket of the knapsack inside a slicer, 1 if there is none."""
    size = getattr(slicer, "bucket_size", None)
    inner: Slicer | None = getattr(slicer, "inner", None) or getattr(slicer, "knapsack", None)
    return size if isinstance(size, int) else 1 if inner is None else _bucket_size(inner)


def _spread(lowest: int, highest: int, count: int) -> list[int]:
    """Return about `count` budgets, rounded to as few digits as tell them apart; small ones are closer together."""
    span = highest - lowest
    if span < count:
        return list(range(lowest, highest + 1))
    bend = span / 1000 if span > _LINEAR else 1e-9
    places = [math.expm1(number / (count - 1) * math.log1p(bend)) / bend for number in range(count)]
    rounded = [lowest]
    for before, place in pairwise(places):
        unit = 10 ** int(math.log10(max(1.0, (place - before) * span)))
        rounded.append(min(round((lowest + place * span) / unit) * unit, highest))
    return [*rounded, highest]


class Positions:
    """The input position of each item."""

    __slots__ = ("_by_id", "items")

    def __init__(self, items: Sequence[ContextItem]) -> None:
        self.items = items
        self._by_id = {id(item): position for position, item in enumerate(items)}

    def of(self, item: ContextItem) -> int:
        """Return the position of one of the items."""
        return self._by_id[id(item)]

    def all(self, items: Iterable[ContextItem]) -> list[int]:
        """Return the positions of several of the items, in their order."""
        return [self._by_id[id(item)] for item in items]


def difference(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Write one list of distinct numbers as parts of another.

    Each pair is a place in `before` and a length, negative for a part that is read backwards; a number that `before`
    lacks has the length 0.

    >>> difference([5, 6, 7, 8], [5, 6, 9, 8, 7])
    [0, 2, 9, 0, 3, -2]
    """
    places = {number: place for place, number in enumerate(before)}
    found: list[int] = []
    for number in after:
        place = places.get(number)
        start, length = found[-2:] if found else (0, 0)
        if place is None:
            found += [number, 0]
        elif length > 0 and place == start + length:
            found[-1] += 1
        elif length == 1 and place == start - 1:
            found[-1] = -2
        elif length < 0 and place == start + length:
            found[-1] -= 1
        else:
            found += [place, 1]
    return found


class StopWriter:
    """Writes the selections of one policy, each as its difference from the one before.

    A reason is an entry of `reasons`, which all selections share, and numbers of its own; `why` has the items whose
    entry has changed, at first from entry 0. Fields that the item has too are left out.
    """

    def __init__(self, positions: Positions) -> None:
        self.reasons: list[dict[str, Any]] = []
        self._positions = positions
        self._numbers: dict[str, int] = {}
        self._placed: list[int] = []
        self._excluded: list[int] = []
        self._given: dict[int, int] = {}
        self._survivors: dict[str, int] | None = None

    def write(self, report: SelectionReport) -> dict[str, Any]:
        """Return the items in placed order, and the excluded ones with their reasons."""
        placed = self._positions.all(entry.item for entry in report.included)
        excluded = self._positions.all(entry.item for entry in report.excluded)
        if self._survivors is None:  # the same for every budget
            self._survivors = _survivors(report, self._positions)
        changes: list[int] = []
        values: dict[int, dict[str, float]] = {}
        for position, entry in zip(excluded, report.excluded, strict=True):
            fields, numbers = _fields(entry.reason, entry.item, self._survivors)
            number = self._number(fields)
            if values.setdefault(number, numbers) != numbers:
                number = self._number(fields | numbers)
            if self._given.get(position, 0) != number:
                self._given[position] = number
                changes += [position, number]
        row = {"placed": difference(self._placed, placed), "out": difference(self._excluded, excluded), "why": changes}
        self._placed, self._excluded = placed, excluded
        return row | {"numbers": {str(number): fields for number, fields in values.items() if fields}}

    def _number(self, fields: dict[str, Any]) -> int:
        """Return the place of a reason in `reasons`, where a new one is appended."""
        key = BudgetExceeded.__name__ if fields is _NO_ROOM else str(fields)
        if key not in self._numbers:
            self._numbers[key] = len(self.reasons)
            self.reasons.append(fields)
        return self._numbers[key]


def refused(error: SelectionError) -> dict[str, Any]:
    """Return a run that was refused."""
    return {"error": {"name": type(error).__name__, "message": str(error)}}


def _survivors(report: SelectionReport, positions: Positions) -> dict[str, int]:
    """Return the positions of the items that copies were dropped for, by their text."""
    return {
        entry.item.content: positions.of(entry.item)
        for entry in report
        if entry.reason is not InclusionReason.PINNED and not isinstance(entry.reason, (Deduplicated, NegativeTokens))
    }


def _fields(
    reason: ExclusionReason, item: ContextItem, survivors: dict[str, int]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the fields of a reason that the item lacks: first the texts, then the numbers."""
    if isinstance(reason, BudgetExceeded) and reason.item_tokens == item.tokens:  # by far the most common
        return _NO_ROOM, {"available_tokens": reason.available_tokens}
    if isinstance(reason, Deduplicated):
        return {"reason": reason.name, "by": survivors.get(item.content)}, {}
    fields = reason.to_dict()
    if isinstance(reason, QuotaCapExceeded):
        fields["actual"] -= item.tokens
    known = {"item_tokens": item.tokens, "tokens": item.tokens, "kind": item.kind.value}
    kept = {name: value for name, value in fields.items() if name not in known or known[name] != value}
    numbers: dict[str, float] = {name: value for name, value in kept.items() if isinstance(value, (int, float))}
    texts = {name: value for name, value in kept.items() if name not in numbers}
    return {name: value[:_TEXT] if isinstance(value, str) else value for name, value in texts.items()}, numbers
