"""What it would take to let an item in."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel._checks import as_tuple
from cupel.analytics._arguments import check
from cupel.analytics._least_budget import least_extension
from cupel.analytics._probe import positions_by_identity
from cupel.analytics._scan import Scan
from cupel.errors import ScarcityError, TableTooLargeError
from cupel.model import ContextItem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.model import ContextBudget
    from cupel.pipeline import PreparedSelection

_REFUSALS = (TableTooLargeError, ScarcityError)  # every larger budget fails the same way


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """What it would take to select an item: the extra tokens and the budget with them, or None for both."""

    item: ContextItem
    extra_tokens: int | None
    budget: ContextBudget | None


def counterfactual(prepared: PreparedSelection, budget: ContextBudget, item: ContextItem) -> Counterfactual:
    """The smallest number of tokens which, added to window and target, lets the pipeline select `item`.

    Zero if the item is selected already, None if no larger budget selects it: one that was dropped before the slicer,
    that a cap keeps out, or that needs a table which the slicer refuses.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem("keep", 60, future_relevance_hint=0.9), ContextItem("drop", 60, future_relevance_hint=0.1)]
    >>> prepared = Pipeline(scorer=ReflexiveScorer()).prepare(items)
    >>> counterfactual(prepared, ContextBudget(100, 100), items[1]).extra_tokens
    20
    """
    check(prepared=prepared, budget=budget, item=item)
    try:
        extra = least_extension(prepared, budget, item)
    except _REFUSALS:
        extra = None
    return _answer(budget, item, extra)


def counterfactuals(
    prepared: PreparedSelection, budget: ContextBudget, items: Iterable[ContextItem]
) -> list[Counterfactual]:
    """The counterfactual of every one of these items, in their order, for little more than the price of the farthest.

    Slicers of your own and `bucket_size="auto"` are asked about each item by itself.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem(str(hint), 60, future_relevance_hint=hint) for hint in (0.9, 0.5, 0.1)]
    >>> prepared = Pipeline(scorer=ReflexiveScorer()).prepare(items)
    >>> [found.extra_tokens for found in counterfactuals(prepared, ContextBudget(100, 100), items)]
    [0, 20, 80]
    """
    check(prepared=prepared, budget=budget)
    asked = as_tuple("items", items, ContextItem)
    scan = Scan.of(prepared, budget, most=None)
    if scan is None:
        return [counterfactual(prepared, budget, item) for item in asked]
    where = positions_by_identity(prepared)
    wanted = {position for item in asked for position in where.get(id(item), ())}
    extras: dict[int, int] = {}
    with suppress(*_REFUSALS):  # what smaller budgets select stands
        extras.update(scan.first_extras(wanted))
    found: list[Counterfactual] = []
    for item in asked:
        positions = where.get(id(item), [])
        if item.pinned or not (scan.from_the_start or scan.reach.early.isdisjoint(positions)):
            found.append(counterfactual(prepared, budget, item))  # smaller budgets than those of the scan count too
        else:
            found.append(_answer(budget, item, min((extras[at] for at in positions if at in extras), default=None)))
    return found


def _answer(budget: ContextBudget, item: ContextItem, extra: int | None) -> Counterfactual:
    return Counterfactual(item, extra, None if extra is None else budget.extended(extra))
