"""Decisions in a few words, for tables and summaries."""

from __future__ import annotations

from collections import Counter
from typing import Final

from cupel.diagnostics import (
    BudgetExceeded,
    CountCapExceeded,
    Deduplicated,
    ExclusionReason,
    IncludedItem,
    InclusionReason,
    NegativeTokens,
    PinnedOverride,
    SelectionReport,
)
from cupel.model import ContextBudget
from cupel.report._text import percent, plural, preview

_INCLUDED: Final = {
    InclusionReason.PINNED: "pinned",
    InclusionReason.ZERO_TOKEN: "costs nothing",
    InclusionReason.SCORED: "chosen for its score",
}
_NAMES: Final = {
    "BudgetExceeded": "no room",
    "PinnedOverride": "displaced by pins",
    "Deduplicated": "duplicate",
    "NegativeTokens": "no valid token count",
    "CountCapExceeded": "enough of its kind",
}


def reason_name(name: str) -> str:
    """Give a short name for a reason; reasons of other makers keep their own.

    >>> reason_name("BudgetExceeded"), reason_name("TooOld")
    ('no room', 'TooOld')
    """
    return _NAMES.get(name, name)


def included_words(entry: IncludedItem) -> str:
    """Say why an item is in.

    >>> from cupel import ContextItem
    >>> included_words(IncludedItem(ContextItem("rules", 9, pinned=True), 1.0, InclusionReason.PINNED))
    'pinned'
    """
    return (
        _INCLUDED.get(entry.reason, entry.reason.value)
        if isinstance(entry.reason, InclusionReason)
        else entry.reason.value
    )


def excluded_words(reason: ExclusionReason) -> str:  # noqa: PLR0911  (one sentence a reason)
    """Say why an item is out, with the numbers behind it.

    >>> excluded_words(BudgetExceeded(item_tokens=400, available_tokens=50))
    'needs 400, 50 left'
    """
    match reason:
        case BudgetExceeded(item_tokens=needed, available_tokens=left) if left < 0:
            return f"needs {needed:,}, already {-left:,} over"
        case BudgetExceeded(item_tokens=needed, available_tokens=left) if left >= needed:
            return f"needs {needed:,}, {left:,} left unspent"
        case BudgetExceeded(item_tokens=needed, available_tokens=left):
            return f"needs {needed:,}, {left:,} left"
        case PinnedOverride(displaced_by=content):
            return f"fits without the pinned “{preview(content, 24)}”"
        case Deduplicated():
            return "same text as another item"
        case NegativeTokens(tokens=tokens):
            return f"token count is {tokens:,}"
        case CountCapExceeded(kind=kind, cap=cap):
            return f"{cap:,} of kind {kind} are enough"
        case _:
            return reason.name


def summary(report: SelectionReport, budget: ContextBudget, policy: str) -> str:
    """Sum a selection up in one line.

    >>> from cupel import ContextItem, presets
    >>> budget = ContextBudget(10, 10)
    >>> report = presets.chat().pipeline().dry_run([ContextItem("a", 8), ContextItem("b", 7)], budget)
    >>> summary(report, budget, "chat")
    'chat: 1 of 2 items in, 7 of 10 tokens used (70.0 %); 1 out: 1 no room'
    """
    tokens = sum(entry.item.tokens for entry in report.included)
    line = (
        f"{policy}: {len(report.included):,} of {plural(report.total_candidates, 'item')} in, "
        f"{tokens:,} of {plural(budget.target_tokens, 'token')} used ({percent(tokens, budget.target_tokens)})"
    )
    reasons = Counter(entry.reason.name for entry in report.excluded)
    left = ", ".join(f"{count:,} {reason_name(name)}" for name, count in reasons.most_common())
    return f"{line}; {len(report.excluded):,} out: {left}" if left else line
