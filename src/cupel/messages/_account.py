"""The account of a session's request: why each unit is in or out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cupel._columns import descending
from cupel.diagnostics import BudgetExceeded, ExcludedItem, Filtered, IncludedItem, InclusionReason, SelectionReport

if TYPE_CHECKING:
    from cupel.messages._draft import Draft


def account(draft: Draft, sent: Mapping[int, str]) -> SelectionReport:
    """Return the report of a request that sends these pieces in these forms."""
    history = draft.request.history
    included = [IncludedItem(item, 1.0, InclusionReason.PINNED) for item in history.fixed]
    excluded: list[ExcludedItem] = []
    left = draft.request.room - sum(draft.pieces[index].form(name).tokens for index, name in sent.items())
    for index, piece in enumerate(draft.pieces):
        pinned = InclusionReason.PINNED if index in draft.must else InclusionReason.SCORED
        rule = draft.barred.get(index)
        for unit in piece.units:
            item, positions = draft.items[unit], history.units[unit].positions
            if index not in sent:
                why = BudgetExceeded(item.tokens, left) if rule is None else Filtered(rule)
                excluded.append(ExcludedItem(item, draft.values[index], why))
                continue
            form = piece.form(sent[index])
            if not form.messages.keys().isdisjoint(positions):
                item = history.shortened(item, positions, form.messages)
            included.append(IncludedItem(item, draft.values[index], pinned))
    considered = [*(entry.item.tokens for entry in included), *(entry.item.tokens for entry in excluded)]
    return SelectionReport(
        events=(),
        included=tuple(included),
        excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
        total_candidates=len(considered),
        total_tokens_considered=sum(considered),
    )
