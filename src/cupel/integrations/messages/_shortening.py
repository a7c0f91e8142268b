"""A fit in which tool outputs may be shorter than they were."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cupel.diagnostics import IncludedItem
from cupel.integrations.messages._draft import Draft
from cupel.integrations.messages._entries import SHORT, Pieces
from cupel.pipeline import effective_budget

if TYPE_CHECKING:
    from cupel.diagnostics import SelectionReport
    from cupel.integrations.messages._history import Shorter
    from cupel.integrations.messages._selection import Outcome, Request
    from cupel.model import ContextItem
    from cupel.pipeline import Pipeline
    from cupel.shorten import Shortener


class Shortened(NamedTuple):
    """A selection, its report, and the messages in it that are shorter than they were, by position."""

    outcome: Outcome
    report: SelectionReport
    messages: dict[int, Shorter]


def select_shortened(request: Request, pipeline: Pipeline, shortener: Shortener | None) -> Shortened:
    """Select with long tool outputs in their short forms, and give back their length to the best as far as it fits.

    What is pinned stays whole unless it does not fit; its outputs are then cut to what does.
    """
    history = request.history
    items = history.items(request.room)
    source = Pieces(shortener, shortens=True, window=request.room)
    pieces = source.follow(history, ())
    draft = Draft(request=request, items=items, source=source, pieces=pieces, values=[], last=(), recent=0.0)
    draft.must = draft.needed(set())
    draft.make_room()
    forms: dict[int, dict[int, Shorter]] = {}
    """The shorter messages of each unit."""
    for index, piece in enumerate(pieces):
        name = draft.cuts.get(index, "") if index in draft.must else SHORT
        found = piece.forms[name].messages if name in piece.forms else {}
        for unit in piece.units:
            positions = history.units[unit].positions
            if mine := {at: found[at] for at in positions if at in found}:
                forms[unit] = mine
    offered = [
        history.shortened(item, history.units[unit].positions, forms[unit]) if unit in forms else item
        for unit, item in enumerate(items)
    ]
    request.check_pinned(offered)
    outcome = request.select(offered, pipeline)
    return _lengthened(request, items, outcome, forms)


def _lengthened(
    request: Request, items: list[ContextItem], outcome: Outcome, forms: dict[int, dict[int, Shorter]]
) -> Shortened:
    report = outcome.report()
    pinned = sum(item.tokens for item in (*request.fixed, *outcome.items) if item.pinned)
    taken = sum(entry.item.tokens for entry in report.included if not entry.item.pinned)
    left = effective_budget(request.window, pinned).target_tokens - taken
    units = {id(item): unit for unit, item in enumerate(outcome.items)}
    restored: dict[int, ContextItem] = {}
    for entry in sorted(report.included, key=lambda entry: -entry.score):
        unit = units.get(id(entry.item))
        if unit is not None and unit in forms and items[unit].tokens - entry.item.tokens <= left:
            left -= items[unit].tokens - entry.item.tokens
            restored[unit] = items[unit]
    kept = [unit for unit in outcome.kept if unit in forms and unit not in restored]
    included = tuple(
        IncludedItem(restored.get(units.get(id(entry.item), -1), entry.item), entry.score, entry.reason)
        for entry in report.included
    )
    return Shortened(
        outcome,
        replace(report, included=included),
        {at: shorter for unit in kept for at, shorter in forms[unit].items()},
    )
