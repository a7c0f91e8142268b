"""Decisions in plain English."""

from __future__ import annotations

from bisect import bisect_left
from math import isnan
from typing import TYPE_CHECKING

from cupel._internal.text import preview
from cupel.diagnostics._reasons import Deduplicated, Filtered, InclusionReason, NegativeTokens
from cupel.diagnostics._report import IncludedItem

if TYPE_CHECKING:
    from cupel.diagnostics._report import ExcludedItem, SelectionReport
    from cupel.model import ContextItem

_SHOWN = 60


def explain_all(report: SelectionReport) -> str:
    """Return a line of totals and a line for every decision."""
    head = (
        f"{len(report.included)} of {report.total_candidates} items are in, with {report.total_tokens} of the "
        f"{report.total_tokens_considered} tokens considered."
    )
    account = _ReasonCount(report)
    lines = [head, *map(account.of, report)]
    lines.extend(
        f"Short of {short.kind}: {short.required_count} required, {short.satisfied_count} found."
        for short in report.count_requirement_shortfalls
    )
    if report.certificate is not None:
        lines.extend(
            f"Short of {short.kind}: {short.required_tokens} tokens required, {short.satisfied_tokens} found."
            for short in report.certificate.token_shortfalls
        )
    return "\n".join(lines)


def explain_item(report: SelectionReport, item: ContextItem) -> str:
    """Return the decision on one item, with the smallest budget that would include it."""
    entry = report.why(item)
    text = _ReasonCount(report).of(entry)
    if report.origin is None or isinstance(entry.reason, Filtered):  # by a rule that the pipeline cannot evaluate
        return text
    gone = isinstance(entry.reason, (Deduplicated, NegativeTokens))  # before any budget counts
    if not (gone or isinstance(entry, IncludedItem)):
        text = f"{text} {_remedy(report, item)}"
    found = report.breakdown(entry.item)
    return text if found is None or not found.part.parts else f"{text} Its score: {found}."


def _remedy(report: SelectionReport, item: ContextItem) -> str:
    found = report.counterfactual(item)
    if found.extra_tokens is None:
        return "No larger budget would let it in." if found.exact else "No larger budget was found that lets it in."
    enough = f"It gets in with {found.extra_tokens} more tokens of budget"
    return f"{enough}." if found.exact else f"{enough}; fewer may do."


class _ReasonCount:
    """Facts about a whole report that each line needs, looked up once."""

    __slots__ = ("_scores", "_stages")

    def __init__(self, report: SelectionReport) -> None:
        self._stages: dict[int, str] = {}
        if report.origin is not None:  # a report that was read has no stages of exclusions
            for snapshot in report.origin.stages:
                self._stages.update((id(entry), str(snapshot.stage.value)) for entry in snapshot.excluded)
        peers = (entry for entry in report if _competed(entry))
        self._scores = sorted(-entry.score for entry in peers if not isnan(entry.score))

    def of(self, entry: IncludedItem | ExcludedItem) -> str:
        """Explain one decision: in or out, at which stage, and against which numbers."""
        shown = repr(preview(entry.item.content, _SHOWN))
        if isinstance(entry, IncludedItem):
            return f"{shown} is in: {self._why_in(entry)}"
        stage = self._stages.get(id(entry), entry.reason.stage)
        dropped = f"dropped at {stage}" if stage else "out"
        return f"{shown} is {dropped} (score {entry.score:.4g}): {entry.reason.say()}."

    def _why_in(self, entry: IncludedItem) -> str:
        tokens = f"{entry.item.tokens} token{'s' * (entry.item.tokens != 1)}"
        if entry.reason is InclusionReason.PINNED:
            return f"it is pinned, so its {tokens} come off the budget before anything else is weighed."
        if entry.reason is InclusionReason.ZERO_TOKEN:
            return "it costs no tokens."
        if entry.reason is InclusionReason.SCORED:
            rank = 1 + bisect_left(self._scores, -entry.score)
            return f"its score of {entry.score:.4g} (rank {rank} of {len(self._scores)}) earned it its {tokens}."
        return f"{entry.reason.value}."


def _competed(entry: IncludedItem | ExcludedItem) -> bool:
    """Return whether an item competed with others: it was neither pinned nor dropped before slicing."""
    return entry.reason is not InclusionReason.PINNED and not isinstance(entry.reason, (Deduplicated, NegativeTokens))
