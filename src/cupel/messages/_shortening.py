"""A fit in which texts may be shorter than they were."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cupel.diagnostics import IncludedItem
from cupel.messages._formats import OUTPUTS, texts_in
from cupel.messages._segments import is_fixed, level
from cupel.pipeline import effective_budget

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cupel.diagnostics import SelectionReport
    from cupel.messages._fit import Attempt, FitTask
    from cupel.messages._formats import Part
    from cupel.messages._history import History, Shorter
    from cupel.messages._segments import MessageForm, Shortening
    from cupel.model import ContextItem

_LEAST_LIMIT, _PARTS = 300, 20
"""A text has a short form if it takes more tokens than this, and than one of so many parts of the window."""
_SHRINKS = 0.85
"""A form that keeps more of the tokens is not worth changing a message for."""

ShorterUnits = dict[int, dict[int, "Shorter"]]
"""The shorter messages of units, by unit and position."""


def shorter_units(request: FitTask, items: list[ContextItem], shortening: Shortening) -> ShorterUnits:
    """Return the units with long texts in their short forms.

    The newest and pinned ones stay whole; where these do not fit, their outputs are cut until they do.
    """
    history = request.history
    limit = max(_LEAST_LIMIT, request.room // _PARTS)
    must = [unit for unit, item in enumerate(items) if item.pinned]
    excess = sum(items[unit].tokens for unit in must) - request.room
    found: ShorterUnits = {}
    for unit in _others(history, must):
        form = shortening.form(history, _parts(history, unit, shortening), history.units[unit].positions, limit)
        if form is not None and form.tokens <= _SHRINKS * items[unit].tokens:
            found[unit] = dict(form.messages)
    for unit in sorted(must, key=lambda unit: -items[unit].tokens):
        if excess <= 0:
            break
        if (form := _cut(history, unit, excess, shortening)) is not None:
            found[unit] = dict(form.messages)
            excess -= items[unit].tokens - form.tokens
    return found


def _others(history: History, must: Collection[int]) -> Iterable[int]:
    newest = max((i for i, unit in enumerate(history.units) if unit.rejection is None), default=-1)
    return (unit for unit in range(len(history.units)) if unit not in must and unit != newest)


def _parts(history: History, unit: int, shortening: Shortening) -> dict[int, Collection[Part]]:
    positions = history.units[unit].positions
    fixed = shortening.parts != OUTPUTS and is_fixed(history, positions)
    return dict.fromkeys(positions, OUTPUTS if fixed else shortening.parts)


def _cut(history: History, unit: int, excess: int, shortening: Shortening) -> MessageForm | None:
    """Return a unit whose outputs take about `excess` tokens less."""
    positions = history.units[unit].positions
    sizes = [history.counter.count(text) for at in positions for text in texts_in(history.parsed[at].view, OUTPUTS)]
    if not sizes:
        return None
    limit = level(sizes, sum(sizes) - excess)
    return shortening.form(history, dict.fromkeys(positions, OUTPUTS), positions, limit)


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
