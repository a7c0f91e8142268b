"""The report of a request: every unit of the whole history with its score, and why it is in or out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cupel._internal.columns import descending
from cupel.diagnostics import (
    BudgetExceeded,
    ExcludedItem,
    Filtered,
    IncludedItem,
    InclusionReason,
    PinnedOverride,
    SelectionReport,
)
from cupel.messages._history import read_history
from cupel.messages._reading import ONLY_A_NOTE, HistoryReader
from cupel.messages._results import Dropped
from cupel.model import ContextItem, ContextKind
from cupel.presets import conversation as default_pipeline
from cupel.scorers import REUSE_KEY

if TYPE_CHECKING:
    from cupel.diagnostics import ExclusionReason
    from cupel.messages._cut import MessageRequest
    from cupel.messages._engine import Conversation
    from cupel.messages._history import History

ReportAndDropped = tuple[SelectionReport, list[Dropped[Any]]]


def report_of(conversation: Conversation, request: MessageRequest, cut: MessageRequest | None) -> ReportAndDropped:
    """Return the report of a request, and the messages that it leaves out.

    Args:
        conversation: the turn.
        request: the request.
        cut: the newest request that was cut, which says why older steps are missing.
    """
    history = read_history(conversation.messages, HistoryReader(conversation.reader.options))
    sent = {one.at: one for one in request.messages}
    found = _CutReasons.of(cut)
    offered = found.items if request.cut is not None else {}
    scores = found.scores if request.cut is not None else found.scores | _scores(conversation, history)
    left = max(0, conversation.room(history.opening.tokens).soft - request.tokens)
    included = [IncludedItem(item, 1.0, InclusionReason.PINNED) for item in (*history.opening.items, *_notes(request))]
    excluded: list[ExcludedItem] = []
    dropped: list[Dropped[Any]] = []
    for index, unit in enumerate(history.units):
        places = history.places(index)
        at, here = places[0], [sent[place] for place in places if place in sent]
        item = offered.get(at)
        if here:
            is_held = unit.pinned or at in found.held
            if item is None or item.tokens != sum(one.tokens for one in here):  # lengthened, or not selected now
                item = history.item(index, here, pinned=is_held, metadata=None if item is None else item.metadata)
            why = InclusionReason.PINNED if is_held else InclusionReason.SCORED
            included.append(IncludedItem(item, 1.0 if is_held else scores.get(at, 0.0), why))
        elif unit.rejection != ONLY_A_NOTE:
            item = item or history.item(index, history.of(index), pinned=False)
            reason = found.reasons.get(at) or BudgetExceeded(item.tokens, min(left, max(0, item.tokens - 1)))
            reason = reason if unit.rejection is None else Filtered(unit.rejection)
            excluded.append(ExcludedItem(item, scores.get(at, 0.0), reason))
            dropped.append(Dropped([conversation.messages[place] for place in places], places, item, reason))
    tokens = [entry.item.tokens for entry in included] + [entry.item.tokens for entry in excluded]
    report = SelectionReport(
        events=(),
        included=tuple(included),
        excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
        total_candidates=len(tokens),
        total_tokens_considered=sum(tokens),
    )
    if request.cut is not None:  # replaced, not rebuilt: the report keeps its origin, and answers "at which budget?"
        report = replace(
            request.cut.report(),
            included=report.included,
            excluded=report.excluded,
            total_candidates=report.total_candidates,
            total_tokens_considered=report.total_tokens_considered,
        )
    return report, dropped


def _notes(request: MessageRequest) -> list[ContextItem]:
    notes = (placed for _, placed in sorted(request.notes.items()))
    return [ContextItem(one.text, one.note.tokens, kind=ContextKind("Note"), pinned=True) for one in notes]


@dataclass(frozen=True, slots=True)
class _CutReasons:
    """What a cut says of each unit, by the first position of its messages."""

    held: frozenset[int] = frozenset()
    scores: dict[int, float] = field(default_factory=dict[int, float])
    reasons: dict[int, ExclusionReason] = field(default_factory=dict[int, "ExclusionReason"])
    items: dict[int, ContextItem] = field(default_factory=dict[int, ContextItem])
    """The items that were selected, or the longest form of those that were not."""

    @classmethod
    def of(cls, cut: MessageRequest | None) -> _CutReasons:
        """Return what the newest cut says; nothing, if there was none."""
        if cut is None or cut.cut is None:
            return cls()
        selection = cut.cut
        places = {key: cut.history.places(index)[0] for key, (index, _) in selection.forms.items()}
        found = cls(frozenset(cut.history.places(index)[0] for index in selection.held))
        report = selection.report()
        for entry in report.included:
            if (at := places.get(id(entry.item))) is not None:
                found.scores[at], found.items[at] = entry.score, entry.item
        selected = frozenset(found.items)
        for other in report.excluded:
            at, item = places.get(id(other.item)), other.item
            if at is None or at in selected or (at in found.items and found.items[at].tokens > item.tokens):
                continue
            found.scores[at], found.items[at], found.reasons[at] = other.score, item, _true(other.reason, item.tokens)
        found.reasons.update({cut.history.places(index)[0]: Filtered(why) for index, why in selection.barred.items()})
        return found


def _true(reason: ExclusionReason, tokens: int) -> ExclusionReason:
    """Return the reason that is true for the caller, who did not pin what a cut holds."""
    return BudgetExceeded(tokens, max(0, tokens - 1)) if isinstance(reason, PinnedOverride) else reason


def _scores(conversation: Conversation, history: History) -> dict[int, float]:
    """Return the scores that the units of a history have for the pipeline, by their first positions."""
    terms, indexes = conversation.terms, history.sendable()
    pipeline = default_pipeline() if terms.pipeline is None else terms.pipeline
    query = history.asked() if terms.query is None else terms.query
    reuse = history.reuse(indexes)
    items = [
        history.item(index, history.of(index), pinned=False, metadata={REUSE_KEY: reuse[index]}) for index in indexes
    ]
    scores = pipeline.bind(query).scorer.checked_scores(items) if items else []
    return {history.places(index)[0]: score for index, score in zip(indexes, scores, strict=True)}
