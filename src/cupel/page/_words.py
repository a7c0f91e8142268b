"""Decisions in a few words, for tables and summaries."""

from __future__ import annotations

from collections import Counter
from typing import Final

from cupel._text import percent, plural, visible
from cupel.diagnostics import KNOWN_REASONS, ExclusionReason, IncludedItem, InclusionReason, SelectionReport
from cupel.model import ContextBudget

_INCLUDED: Final = {
    InclusionReason.PINNED.value: "pinned",
    InclusionReason.ZERO_TOKEN.value: "costs nothing",
    InclusionReason.SCORED.value: "chosen for its score",
}


def reason_name(name: str) -> str:
    """Return a short name for a reason; reasons of other makers keep their own.

    >>> reason_name("BudgetExceeded"), reason_name("TooOld")
    ('no room', 'TooOld')
    """
    return KNOWN_REASONS[name].title if name in KNOWN_REASONS else name


def included_words(entry: IncludedItem) -> str:
    """Say why an item is in.

    >>> from cupel import ContextItem
    >>> included_words(IncludedItem(ContextItem("rules", 9, pinned=True), 1.0, InclusionReason.PINNED))
    'pinned'
    """
    return _INCLUDED.get(entry.reason.value, entry.reason.value)


def excluded_words(reason: ExclusionReason) -> str:
    """Say why an item is out, with the numbers behind it, so that a terminal can show it.

    >>> from cupel.diagnostics import BudgetExceeded
    >>> excluded_words(BudgetExceeded(item_tokens=400, available_tokens=50))
    'needs 400, 50 left'
    """
    return visible(reason.say())


def left_out(report: SelectionReport) -> str:
    """Say how many items are out for which reason; nothing if none is.

    >>> from cupel import ContextItem, presets
    >>> left_out(presets.chat().pipeline().dry_run([ContextItem("a", 8), ContextItem("b", 7)], 10))
    '1 no room'
    """
    reasons = Counter(entry.reason.name for entry in report.excluded)
    return ", ".join(f"{count:,} {reason_name(name)}" for name, count in reasons.most_common())


def summary(report: SelectionReport, budget: ContextBudget, policy: str) -> str:
    """Sum a selection up in one line.

    >>> from cupel import ContextItem, presets
    >>> budget = ContextBudget(10, 10)
    >>> report = presets.chat().pipeline().dry_run([ContextItem("a", 8), ContextItem("b", 7)], budget)
    >>> summary(report, budget, "chat")
    'chat: 1 of 2 items in, 8 of 10 tokens used (80.0 %); 1 out: 1 no room'
    """
    tokens = sum(entry.item.tokens for entry in report.included)
    line = (
        f"{policy}: {len(report.included):,} of {plural(report.total_candidates, 'item')} in, "
        f"{tokens:,} of {plural(budget.target_tokens, 'token')} used ({percent(tokens, budget.target_tokens)})"
    )
    left = left_out(report)
    return f"{line}; {len(report.excluded):,} out: {left}" if left else line
