"""The selection over many budgets, at the price of one scoring pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel._checks import wrong_type
from cupel.analytics._arguments import prepared_of
from cupel.errors import (
    BudgetOverflowError,
    PinnedExceedsBudgetError,
    ScarcityError,
    SelectionError,
    TableTooLargeError,
)
from cupel.model import ContextBudget

if TYPE_CHECKING:
    from cupel.model import ContextItem
    from cupel.pipeline import Pipeline, PreparedSelection

_OUTCOMES = (PinnedExceedsBudgetError, BudgetOverflowError, TableTooLargeError, ScarcityError)


@dataclass(frozen=True, slots=True)
class SweepRow:
    """What one budget selects: the items in placed order, or the error that a run with this budget raises."""

    budget: ContextBudget
    items: list[ContextItem]
    total_tokens: int
    error: SelectionError | None = None


def sweep(
    pipeline: Pipeline | PreparedSelection,
    items: Iterable[ContextItem] | None,
    budgets: Iterable[ContextBudget | int],
    *,
    query: str | None = None,
) -> list[SweepRow]:
    """Select under every budget; scoring, deduplication and sorting happen once.

    An integer stands for a budget with that window and that target. A budget that a run would refuse, because the
    pinned items do not fit for instance, becomes a row with that error and no items. For a `PreparedSelection` the
    items are None.

    >>> from cupel import ContextItem, Pipeline, RecencyScorer
    >>> items = [ContextItem("a", 60), ContextItem("b", 30)]
    >>> for row in sweep(Pipeline(scorer=RecencyScorer()), items, range(0, 101, 50)):
    ...     print(row.budget.max_tokens, [item.content for item in row.items])
    0 []
    50 ['b']
    100 ['a', 'b']
    """
    if not isinstance(budgets, Iterable):
        raise wrong_type("budgets", "an iterable of budgets or integers", budgets)
    asked = [ContextBudget.of(budget, name=f"budgets[{position}]") for position, budget in enumerate(budgets)]
    prepared = prepared_of(pipeline, items, query)
    return [_row(prepared, budget) for budget in asked]


def _row(prepared: PreparedSelection, budget: ContextBudget) -> SweepRow:
    try:
        selected = prepared.run(budget)
    except _OUTCOMES as error:
        return SweepRow(budget, [], 0, error)
    return SweepRow(budget, selected, sum(item.tokens for item in selected))
