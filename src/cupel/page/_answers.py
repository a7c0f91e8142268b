"""The library's selections at single budgets, for the page to show or to check itself against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from cupel.diagnostics import Deduplicated, InclusionReason, NegativeTokens, PinnedOverride, SelectionReport
from cupel.errors import SelectionError
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import PreparedSelection

_MODULUS: Final = 2_147_483_647


class Positions:
    """The input position of each item."""

    __slots__ = ("_by_id",)

    def __init__(self, items: Sequence[ContextItem]) -> None:
        self._by_id = {id(item): position for position, item in enumerate(items)}

    def of(self, item: ContextItem) -> int:
        """Return the position of one of the items."""
        return self._by_id[id(item)]

    def all(self, items: Iterable[ContextItem]) -> list[int]:
        """Return the positions of several of the items, in their order."""
        return [self._by_id[id(item)] for item in items]


def digest(positions: Iterable[int]) -> int:
    """Fold an order of positions into one number; `replay.js` has the same function."""
    total = 0
    for position in positions:
        total = (total * 31 + position + 1) % _MODULUS
    return total


def excluded_rows(report: SelectionReport, positions: Positions) -> list[dict[str, Any]]:
    """Return the excluded items with their reasons; a reason that quotes another item names its position instead."""
    pinned = [entry.item for entry in report.included if entry.reason is InclusionReason.PINNED]
    displacer = next((item for item in sorted(pinned, key=positions.of) if item.tokens > 0), None)
    survivors = {
        entry.item.content: positions.of(entry.item)
        for entry in report
        if entry.reason is not InclusionReason.PINNED and not isinstance(entry.reason, (Deduplicated, NegativeTokens))
    }
    rows: list[dict[str, Any]] = []
    for entry in report.excluded:
        match entry.reason:
            case Deduplicated():
                reason = {"reason": entry.reason.name, "by": survivors.get(entry.item.content)}
            case PinnedOverride():
                reason = {"reason": entry.reason.name, "by": None if displacer is None else positions.of(displacer)}
            case other:
                reason = other.to_dict()
        rows.append({"position": positions.of(entry.item), **reason})
    return rows


def answer(prepared: PreparedSelection, budget: ContextBudget, positions: Positions) -> dict[str, Any]:
    """Return the whole answer at one budget, in the shape the page draws."""
    target = budget.target_tokens
    try:
        report = prepared.dry_run(budget)
    except SelectionError as error:
        refused = {"name": type(error).__name__, "message": str(error)}
        return {"budget": target, "error": refused, "placed": [], "excluded": [], "tokens": 0}
    return {
        "budget": target,
        "placed": positions.all(entry.item for entry in report.included),
        "excluded": excluded_rows(report, positions),
        "tokens": sum(entry.item.tokens for entry in report.included),
    }


def check(prepared: PreparedSelection, budget: ContextBudget, positions: Positions) -> dict[str, Any]:
    """Return just enough of the answer at one budget to notice any difference."""
    try:
        report = prepared.dry_run(budget)
    except SelectionError as error:
        return {"budget": budget.target_tokens, "error": type(error).__name__}
    return {
        "budget": budget.target_tokens,
        "items": len(report.included),
        "tokens": sum(entry.item.tokens for entry in report.included),
        "excluded": len(report.excluded),
        "digest": digest(positions.all(entry.item for entry in report.included)),
        "left_out": digest(positions.all(entry.item for entry in report.excluded)),
    }
