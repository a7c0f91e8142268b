"""Parts of the messages of failed assertions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cupel.diagnostics import BudgetExceeded, ExcludedItem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.diagnostics import IncludedItem

_SHOWN: Final = 5


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


def summary(title: str, entries: tuple[IncludedItem, ...] | list[ExcludedItem]) -> str:
    """Return kind, score and reason of the first few entries; a note, because the template is exact."""
    if not entries:
        return ""
    lines = [
        f"  kind={entry.item.kind}, score={entry.score:.4f}, reason={_reason(entry)}" for entry in entries[:_SHOWN]
    ]
    if len(entries) > _SHOWN:
        lines.append(f"  … and {len(entries) - _SHOWN} more")
    return "\n".join([f"{title}:", *lines])


def budget_summary(title: str, entries: list[ExcludedItem]) -> str:
    """Return kind, score and reason of every entry, with the two numbers of each budget exclusion."""
    if not entries:
        return ""
    lines = [
        f"  kind={entry.item.kind}, score={entry.score:.4f}, reason={entry.reason.name}"
        + (f", {budget_details(entry.reason)}" if isinstance(entry.reason, BudgetExceeded) else "")
        for entry in entries
    ]
    return "\n".join([f"{title}:", *lines])


def _reason(entry: IncludedItem | ExcludedItem) -> str:
    return entry.reason.name if isinstance(entry, ExcludedItem) else entry.reason.value
