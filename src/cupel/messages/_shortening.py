"""A fit in which texts may be shorter than they were."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cupel.diagnostics import IncludedItem
from cupel.messages._draft import Draft
from cupel.messages._entries import Pieces
from cupel.messages._forms import SHORT
from cupel.pipeline import effective_budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.diagnostics import SelectionReport
    from cupel.messages._fit import Attempt, FitTask
    from cupel.messages._forms import Shortening
    from cupel.messages._history import Shorter
    from cupel.model import ContextItem

ShorterUnits = dict[int, dict[int, "Shorter"]]
"""The shorter messages of units, by unit and position."""


def shorter_units(request: FitTask, items: list[ContextItem], shortening: Shortening) -> ShorterUnits:
    """Return the units with long texts in their short forms.

    What is newest or pinned stays whole; where that does not fit, its outputs are cut to what does.
    """
    history = request.history
    source = Pieces(shortening, request.room)
    pieces = source.follow(history, ())
    draft = Draft(request=request, items=items, source=source, pieces=pieces)
    draft.must = draft.needed(set())
    draft.make_room()
    found: ShorterUnits = {}
    for index, piece in enumerate(pieces):
        whole = index in draft.must or index == len(pieces) - 1
        form = piece.forms.get(draft.cuts.get(index, "") if whole else SHORT)
        if form is None:
            continue
        for unit in piece.units:
            if mine := {at: form.messages[at] for at in history.units[unit].positions if at in form.messages}:
                found[unit] = mine
    return found


def with_shorter(request: FitTask, items: Sequence[ContextItem], shorter: ShorterUnits) -> list[ContextItem]:
    """Return the items as they stand where some units are shorter."""
    history = request.history
    return [
        history.shortened(item, history.units[unit].positions, shorter[unit]) if unit in shorter else item
        for unit, item in enumerate(items)
    ]


def lengthened(
    request: FitTask, items: Sequence[ContextItem], outcome: Attempt, shorter: ShorterUnits
) -> tuple[SelectionReport, dict[int, Shorter]]:
    """Give units back their length, the best first, as far as it fits; return the report and what is still shorter."""
    report = outcome.report()
    if not shorter:
        return report, {}
    pinned = sum(item.tokens for item in (*request.history.fixed, *outcome.items) if item.pinned)
    taken = sum(entry.item.tokens for entry in report.included if not entry.item.pinned)
    left = effective_budget(request.window, pinned).target_tokens - taken
    units = {id(outcome.items[unit]): unit for unit in shorter}
    restored: dict[int, ContextItem] = {}
    for entry in sorted(report.included, key=lambda entry: -entry.score):
        unit = units.get(id(entry.item))
        if unit is not None and items[unit].tokens - entry.item.tokens <= left:
            left -= items[unit].tokens - entry.item.tokens
            restored[unit] = items[unit]
    included = tuple(
        IncludedItem(restored.get(units.get(id(entry.item), -1), entry.item), entry.score, entry.reason)
        for entry in report.included
    )
    kept = [unit for unit in outcome.kept if unit in shorter and unit not in restored]
    return replace(report, included=included), {at: one for unit in kept for at, one in shorter[unit].items()}
