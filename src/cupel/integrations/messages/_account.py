"""The account of a session's request: why each unit is in or out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cupel._columns import descending
from cupel.diagnostics import BudgetExceeded, ExcludedItem, Filtered, IncludedItem, InclusionReason, SelectionReport
from cupel.integrations.messages._fit import Dropped

if TYPE_CHECKING:
    from cupel.integrations.messages._draft import Draft
    from cupel.model import ContextItem


def account(
    draft: Draft, messages: Sequence[Any], sent: Mapping[int, str]
) -> tuple[SelectionReport, list[Dropped[Any]]]:
    """Return the report of a request, and what was left out of it, in the order of the history."""
    history = draft.request.history
    included = [IncludedItem(item, 1.0, InclusionReason.PINNED) for item in draft.request.fixed]
    excluded: list[ExcludedItem] = []
    dropped: list[Dropped[Any]] = []
    left = draft.request.room - sum(draft.pieces[index].form(name).tokens for index, name in sent.items())
    for index, piece in enumerate(draft.pieces):
        for unit in piece.units:
            item, positions = draft.items[unit], tuple(history.units[unit].positions)
            if index in sent:
                reason = InclusionReason.PINNED if index in draft.must else InclusionReason.SCORED
                form = piece.form(sent[index])
                if not form.messages.keys().isdisjoint(positions):
                    item = history.shortened(item, positions, form.messages)
                included.append(IncludedItem(item, draft.values[index], reason))
                continue
            rule = draft.barred.get(index)
            why = BudgetExceeded(item.tokens, left) if rule is None else Filtered(rule)
            excluded.append(ExcludedItem(item, draft.values[index], why))
            dropped.append(Dropped([messages[position] for position in positions], positions, item, why))
    considered: list[ContextItem] = [*(entry.item for entry in included), *(entry.item for entry in excluded)]
    report = SelectionReport(
        events=(),
        included=tuple(included),
        excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
        total_candidates=len(considered),
        total_tokens_considered=sum(entry.item.tokens for entry in included)
        + sum(entry.item.tokens for entry in excluded),
    )
    return report, sorted(dropped, key=lambda unit: unit.positions)
