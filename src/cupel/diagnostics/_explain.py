"""Reasons in plain English."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.diagnostics._reasons import (
    BudgetExceeded,
    CountCapExceeded,
    CountRequireCandidatesExhausted,
    Deduplicated,
    ExclusionReason,
    Filtered,
    InclusionReason,
    NegativeTokens,
    PinnedOverride,
    QuotaCapExceeded,
    QuotaRequireDisplaced,
    ScoredTooLow,
)
from cupel.diagnostics._report import IncludedItem

if TYPE_CHECKING:
    from cupel.diagnostics._report import ExcludedItem, SelectionReport
    from cupel.model import ContextItem

_SHOWN = 60
_ONLY_STAGE = {"NegativeTokens": "Classify", "Deduplicated": "Deduplicate", "CountCapExceeded": "Slice"}


def explain_all(report: SelectionReport) -> str:
    """Explain every decision, a line each, after a line of totals."""
    used = sum(entry.item.tokens for entry in report.included)
    head = (
        f"{len(report.included)} of {report.total_candidates} items are in, with {used} of the "
        f"{report.total_tokens_considered} tokens considered."
    )
    lines = [head, *(explain_entry(report, entry) for entry in report)]
    lines.extend(
        f"Short of {short.kind}: {short.required_count} required, {short.satisfied_count} found."
        for short in report.count_requirement_shortfalls
    )
    return "\n".join(lines)


def explain_item(report: SelectionReport, item: ContextItem) -> str:
    """Explain the decision on one item, with the exact budget that would have let it in where one exists."""
    entry = report.why(item)
    text = explain_entry(report, entry)
    if report.origin is None or not isinstance(entry.reason, BudgetExceeded | PinnedOverride):
        return text
    extra = report.counterfactual(item).extra_tokens
    if extra is None:
        return f"{text} No larger budget would let it in."
    return f"{text} It gets in with {extra} more tokens of budget."


def explain_entry(report: SelectionReport, entry: IncludedItem | ExcludedItem) -> str:
    """Explain one decision: in or out, at which stage, against which number, and what would have changed it."""
    if isinstance(entry, IncludedItem):
        return f"{_shown(entry.item.content)} is in: {_why_in(entry, report)}"
    why, remedy = why_out(entry.reason)
    stage = _stage_of(report, entry)
    dropped = f"dropped at {stage}" if stage else "out"
    return f"{_shown(entry.item.content)} is {dropped} (score {entry.score:.4g}): {why}{f' {remedy}' if remedy else ''}"


def _stage_of(report: SelectionReport, entry: ExcludedItem) -> str | None:
    """Name the stage that dropped an item; a report that was read does not always know."""
    if report.origin is not None:
        for snapshot in report.origin.stages:
            if any(dropped is entry for dropped in snapshot.excluded):
                return str(snapshot.stage.value)
    return _ONLY_STAGE.get(entry.reason.name)


def _why_in(entry: IncludedItem, report: SelectionReport) -> str:
    if entry.reason is InclusionReason.PINNED:
        return f"it is pinned, so it was neither scored nor weighed against the budget ({entry.item.tokens} tokens)."
    if entry.reason is InclusionReason.ZERO_TOKEN:
        return "it costs no tokens."
    if entry.reason is InclusionReason.SCORED:
        rank = 1 + sum(other.score > entry.score for other in report)
        return f"its score of {entry.score:.4g} (rank {rank} of {len(report)}) won it {entry.item.tokens} tokens."
    return f"{entry.reason.value}."


def why_out(reason: ExclusionReason) -> tuple[str, str]:  # noqa: PLR0911  (one a reason)
    """Give the cause of an exclusion and what would have prevented it, as sentences; the second may be empty."""
    match reason:
        case BudgetExceeded(item_tokens=tokens, available_tokens=available) if tokens > available:
            return f"it needs {tokens} tokens and the selection leaves {available}.", ""
        case BudgetExceeded(item_tokens=tokens, available_tokens=available):
            return (
                f"its {tokens} tokens would fit in the {available} left over, but the slicer gave it no share of them.",
                "A higher score, a larger quota for its kind or a finer bucket could let it in.",
            )
        case PinnedOverride(displaced_by=pinned):
            return (
                f"it would fit if pinned items did not take the room, first of them {_shown(pinned)}.",
                "Unpin something or enlarge the budget.",
            )
        case CountCapExceeded(kind=kind, cap=cap, count=count):
            return (
                f"{count} items of kind {kind} are in and the cap is {cap}.",
                f"A cap of {count + 1}, or a higher score, would let it in.",
            )
        case Deduplicated():
            return (
                "another item has the same content and scores at least as high.",
                "Turn deduplication off to keep both.",
            )
        case NegativeTokens(tokens=tokens):
            return f"its token count is {tokens}.", "Give it a count of 0 or more."
        case ScoredTooLow(score=score, threshold=threshold):
            return f"its score of {score:.4g} is under the threshold of {threshold:.4g}.", "Raise its score."
        case QuotaCapExceeded(kind=kind, cap=cap, actual=actual):
            return f"kind {kind} has used {actual} of its quota of {cap}.", "Enlarge the quota."
        case QuotaRequireDisplaced(displaced_by_kind=kind):
            return f"the requirement of kind {kind} took the room.", "Lower that requirement."
        case CountRequireCandidatesExhausted(kind=kind):
            return f"kind {kind} has fewer candidates than its quota requires.", ""
        case Filtered(filter_name=name):
            return f"the filter {name!r} removed it.", ""
        case _:
            fields = ", ".join(f"{key}={value!r}" for key, value in reason.to_dict().items() if key != "reason")
            return f"{reason.name}{f' ({fields})' if fields else ''}.", ""


def _shown(content: str) -> str:
    line = " ".join(content.split())
    return repr(line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…")
