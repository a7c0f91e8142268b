"""What it would take to let an item in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel._checks import as_instance
from cupel.analytics._arguments import as_items, check_members
from cupel.analytics._search import Found, Search
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import PreparedSelection

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """What it would take to select an item: the extra tokens and the budget with them, or None for both.

    Usually `exact`: fewer tokens are not enough, and None means that no larger budget selects the item. Where looking
    at all budgets would take too long, `exact` is false: the tokens given are enough, but fewer may be, and None means
    that no such budget was found.
    """

    item: ContextItem
    extra_tokens: int | None
    budget: ContextBudget | None
    exact: bool = True


def counterfactual(prepared: PreparedSelection, budget: ContextBudget | int, item: ContextItem) -> Counterfactual:
    """Return the smallest number of tokens which, added to window and target, lets the pipeline select `item`.

    Zero if the item is selected already, None if no larger budget selects it: one that was dropped before the slicer,
    that a cap keeps out, or that needs a table which the slicer refuses.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem("keep", 60, future_relevance_hint=0.9), ContextItem("drop", 60, future_relevance_hint=0.1)]
    >>> prepared = Pipeline(scorer=ReflexiveScorer()).prepare(items)
    >>> counterfactual(prepared, ContextBudget(100, 100), items[1]).extra_tokens
    20
    """
    return counterfactuals(prepared, budget, [as_instance("item", item, ContextItem)])[0]


def counterfactuals(
    prepared: PreparedSelection, budget: ContextBudget | int, items: Iterable[ContextItem]
) -> list[Counterfactual]:
    """Return the counterfactual of every one of these items, in their order.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem(str(hint), 60, future_relevance_hint=hint) for hint in (0.9, 0.5, 0.1)]
    >>> prepared = Pipeline(scorer=ReflexiveScorer()).prepare(items)
    >>> [found.extra_tokens for found in counterfactuals(prepared, ContextBudget(100, 100), items)]
    [0, 20, 80]
    """
    base = ContextBudget.of(budget)
    asked = as_items(items)
    as_instance("prepared", prepared, PreparedSelection, hint="; see Pipeline.prepare")
    check_members("items", prepared, asked)
    found = Search(prepared, base).least(asked)
    return [_answer(base, item, answer) for item, answer in zip(asked, found, strict=True)]


def _answer(base: ContextBudget, item: ContextItem, found: Found) -> Counterfactual:
    extra = found.extra
    return Counterfactual(item, extra, None if extra is None else base.extended(extra), found.exact)
