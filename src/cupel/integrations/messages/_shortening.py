"""A fit in which texts may be shorter than they were."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from cupel.diagnostics import IncludedItem
from cupel.integrations.messages._draft import Draft
from cupel.integrations.messages._entries import SHORT, Pieces
from cupel.pipeline import effective_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

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


class Shortening(NamedTuple):
    """What may be shorter, and how."""

    shortener: Shortener | None
    """What shortens a text; None for the built-in forms."""
    parts: Collection[str]
    """Which texts of messages."""
    copy: Callable[[Any, Shorter], Any]
    """A copy of the caller's message with the shorter texts."""


def select_shortened(
    request: Request, items: list[ContextItem], pipeline: Pipeline, shortening: Shortening
) -> Shortened:
    """Select with long texts in their short forms, and give back their length to the best as far as it fits.

    What is newest or pinned stays whole; where that does not fit, its outputs are cut to what does.
    """
    history = request.history
    source = Pieces(shortening.shortener, shortens=True, window=request.room, parts=shortening.parts)
    pieces = source.follow(history, ())
    draft = Draft(request=request, items=items, source=source, pieces=pieces, values=[], last=(), recent=0.0)
    draft.must = draft.needed(set())
    draft.make_room()
    forms: dict[int, dict[int, Shorter]] = {}
    """The shorter messages of each unit."""
    for index, piece in enumerate(pieces):
        whole = index in draft.must or index == len(pieces) - 1
        name = draft.cuts.get(index, "") if whole else SHORT
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
