"""Parts of the messages of failed assertions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.diagnostics import BudgetExceeded, ExcludedItem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.diagnostics import IncludedItem


def distinct_kinds(entries: Iterable[IncludedItem]) -> str:
    """List the kinds in the order in which they first occur."""
    # A dict keeps the first spelling of kinds that differ in case only (ruling 12.6).
    return ", ".join(str(kind) for kind in dict.fromkeys(entry.item.kind for entry in entries))


def distinct_reasons(entries: Iterable[ExcludedItem]) -> str:
    """List the names of the reasons in the order in which they first occur."""
    return ", ".join(dict.fromkeys(entry.reason.name for entry in entries))


def budget_details(reason: BudgetExceeded) -> str:
    """Return the two numbers of a budget exclusion."""
    return f"item_tokens={reason.item_tokens}, available_tokens={reason.available_tokens}"


def summary(title: str, entries: Sequence[IncludedItem | ExcludedItem], most: int = 5) -> str:
    """Return kind, score and reason of the first entries; a note, because the specification's template is exact."""
    if not entries:
        return ""
    lines = [f"  kind={entry.item.kind}, score={entry.score:.4f}, reason={_reason(entry)}" for entry in entries[:most]]
    if len(entries) > most:
        lines.append(f"  … and {len(entries) - most} more")
    return "\n".join([f"{title}:", *lines])


def _reason(entry: IncludedItem | ExcludedItem) -> str:
    if not isinstance(entry, ExcludedItem):
        return entry.reason.value
    reason = entry.reason
    return f"{reason.name}, {budget_details(reason)}" if isinstance(reason, BudgetExceeded) else reason.name
