"""Reports made by hand, so that a test can see every number it asserts about."""

from cupel import ContextItem, InclusionReason
from cupel.diagnostics import BudgetExceeded, ExcludedItem, IncludedItem, SelectionReport


def included(*entries: tuple[str, float]) -> tuple[IncludedItem, ...]:
    """Give selected items of 10 tokens, one for each kind and score; contents are their positions."""
    return tuple(
        IncludedItem(ContextItem(str(place), 10, kind=kind), score, InclusionReason.SCORED)
        for place, (kind, score) in enumerate(entries)
    )


def excluded(*entries: tuple) -> tuple[ExcludedItem, ...]:
    """Give items of 10 tokens that were left out, one for each kind, score and reason (by default the budget)."""
    return tuple(
        ExcludedItem(ContextItem(f"out {place}", 10, kind=kind), score, *(reason or (BudgetExceeded(10, 3),)))
        for place, (kind, score, *reason) in enumerate(entries)
    )


def report(selected: tuple[IncludedItem, ...] = (), left_out: tuple[ExcludedItem, ...] = ()) -> SelectionReport:
    """Give a report of these entries, with totals that add up."""
    entries = (*selected, *left_out)
    return SelectionReport((), selected, left_out, len(entries), sum(entry.item.tokens for entry in entries))
