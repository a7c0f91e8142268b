"""Answer questions about the selections of other budgets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cupel._internal.checks import as_instance, as_integer, shown, wrong_type
from cupel.analytics._search import Found, Search, as_items, check_members, prepared_of
from cupel.errors import (
    BudgetOverflowError,
    InvalidBudgetError,
    InvalidItemError,
    PinnedExceedsBudgetError,
    PipelineConfigError,
    ScarcityError,
    SearchStoppedError,
    SelectionError,
    TableTooLargeError,
)
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline import PreparedSelection
from cupel.slicers import CountConstrainedKnapsackSlice, CountQuotaSlice, QuotaSlice

if TYPE_CHECKING:
    from cupel.pipeline import Pipeline
    from cupel.slicers import Slicer


_NOTHING: Final = ContextBudget(0, 0)  # so that a probe's extra tokens are its window and its target (ruling 9.5)


def get_marginal_items(
    pipeline: Pipeline | PreparedSelection,
    items: Iterable[ContextItem] | None,
    budget: ContextBudget | int,
    slack_tokens: int,
    *,
    query: str | None = None,
) -> list[ContextItem]:
    """Return the items that the budget selects and the same budget with `slack_tokens` fewer does not, in placed order.

    Window and target both shrink; reserve, slots and margin stay. The answer assumes that a smaller budget selects
    nothing new. Where it does, as greedy may when a large item no longer fits, the new items are not listed. A
    `QuotaSlice` is refused because its shares move with the budget; other slicers, even custom ones, are not checked.
    For a `PreparedSelection` the items are None.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem("a", 60, future_relevance_hint=0.9), ContextItem("b", 30, future_relevance_hint=0.1)]
    >>> marginal = get_marginal_items(Pipeline(scorer=ReflexiveScorer()), items, ContextBudget(100, 100), 20)
    >>> [item.content for item in marginal]
    ['b']
    """
    if isinstance(_slicer_of(pipeline), QuotaSlice):
        raise PipelineConfigError(
            "GetMarginalItems requires monotonic item inclusion. "
            "QuotaSlice produces non-monotonic inclusion as budget changes shift percentage allocations."
        )
    slack_tokens = as_integer("slack_tokens", slack_tokens)
    primary = ContextBudget.of(budget)
    if slack_tokens == 0:  # ruling 9.11
        return []
    reduced = _reduced(primary, slack_tokens)
    prepared = prepared_of(pipeline, items, query)
    full = prepared.run(primary, warn=False)
    kept = {id(item) for item in prepared.included(reduced)}
    return [item for item in full if id(item) not in kept]


def find_min_budget_for(
    pipeline: Pipeline | PreparedSelection,
    items: Iterable[ContextItem] | None,
    target_item: ContextItem,
    search_ceiling: int,
    *,
    exact: bool = False,
    query: str | None = None,
) -> int | None:
    """Return a small budget that selects `target_item`, or None if the search finds none up to `search_ceiling`.

    Probes are budgets with window and target alike and nothing reserved. One that does not hold the pinned items
    selects nothing; other errors of a run propagate. The binary search is the specified one: it returns a budget that
    works, and the smallest only if a larger budget never drops the item. No built-in slicer promises that: a large item
    that starts to fit can push a smaller one out. A custom slicer is not checked for this.

    `exact=True` answers without the assumption: the smallest budget of all, or None if there really is none; it is
    therefore open to quota slicers, which the search refuses. A budget whose selection overflows is one that does not
    work, and the search goes on. Where it would take too long it raises `SearchStoppedError`. For a `PreparedSelection`
    the items are None.

    >>> from cupel import ContextItem, Pipeline, ReflexiveScorer
    >>> big = ContextItem("big", 6, future_relevance_hint=0.9)
    >>> small = ContextItem("small", 5, future_relevance_hint=0.5)
    >>> pipeline = Pipeline(scorer=ReflexiveScorer())
    >>> find_min_budget_for(pipeline, [big, small], small, 20)
    11
    >>> find_min_budget_for(pipeline, [big, small], small, 20, exact=True)
    5
    """
    if not exact:
        _require_monotonic(_slicer_of(pipeline))
    target = as_instance("target_item", target_item, ContextItem)
    ceiling = as_integer("search_ceiling", search_ceiling)
    candidates = None if isinstance(pipeline, PreparedSelection) else as_items(items)
    if candidates is not None and not any(item is target for item in candidates):
        error = InvalidItemError("targetItem must be an element of items")
        error.add_note(f"target_item is {shown(target)}; an equal item does not count")
        raise error
    if ceiling < target.tokens:
        too_low = InvalidBudgetError("searchCeiling must be >= targetItem.Tokens")
        too_low.add_note(f"search_ceiling is {shown(ceiling)}, target_item.tokens is {shown(target.tokens)}")
        raise too_low
    prepared = prepared_of(pipeline, items if candidates is None else candidates, query)
    check_members("target_item", prepared, [target])
    if target.tokens < 0:  # ruling 9.8
        return None
    return _least(prepared, target, ceiling) if exact else _search(prepared, target, ceiling)


def _least(prepared: PreparedSelection, target: ContextItem, ceiling: int) -> int | None:
    found = Search(prepared, _NOTHING, most=ceiling, raising=True).least([target])[0]
    if not found.exact:
        raise SearchStoppedError(
            ceiling if found.extra is None and _is_enough(prepared, target, ceiling) else found.extra
        )
    return found.extra


def _is_enough(prepared: PreparedSelection, target: ContextItem, tokens: int) -> bool:
    try:
        return _selects(prepared, target, tokens)
    except SelectionError:
        return False


def _search(prepared: PreparedSelection, target: ContextItem, ceiling: int) -> int | None:
    low, high = target.tokens, ceiling
    while high - low > 1:
        middle = low + (high - low) // 2
        if _selects(prepared, target, middle):
            high = middle
        else:
            low = middle
    if low == target.tokens and _selects(prepared, target, low):  # any other low has failed in the loop: ruling 9.4
        return low
    if high == ceiling and not _selects(prepared, target, high):
        return None
    return high


def _selects(prepared: PreparedSelection, target: ContextItem, tokens: int) -> bool:
    try:
        selected = prepared.included(ContextBudget(tokens, tokens))
    except PinnedExceedsBudgetError:  # ruling 9.6
        return False
    return any(item is target for item in selected)


def _reduced(budget: ContextBudget, slack_tokens: int) -> ContextBudget:
    if slack_tokens < 0:
        raise InvalidBudgetError(f"slack_tokens must be >= 0, got {slack_tokens}")
    try:
        return budget.extended(-slack_tokens)
    except InvalidBudgetError as error:
        raise InvalidBudgetError(f"slack_tokens={slack_tokens} is more than the budget can give up: {error}") from error


def _slicer_of(pipeline: Pipeline | PreparedSelection) -> Slicer | None:
    """Return the slicer; None for any other object, which is refused later, by name."""
    source = pipeline.pipeline if isinstance(pipeline, PreparedSelection) else pipeline
    return getattr(source, "slicer", None)


def _require_monotonic(slicer: Slicer | None) -> None:
    if isinstance(slicer, (QuotaSlice, CountQuotaSlice, CountConstrainedKnapsackSlice)):  # ruling 9.9
        error = PipelineConfigError(
            "FindMinBudgetFor requires monotonic item inclusion. QuotaSlice and CountQuotaSlice produce "
            "non-monotonic inclusion as budget changes shift allocations. "
            "Use a GreedySlice or KnapsackSlice inner slicer for budget simulation."
        )
        error.add_note("exact=True answers for any slicer: find_min_budget_for(..., exact=True)")
        raise error


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The extra tokens that would select an item, and the budget with them; None for both if there is no such budget.

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


_OUTCOMES = (PinnedExceedsBudgetError, BudgetOverflowError, TableTooLargeError, ScarcityError)


@dataclass(frozen=True, slots=True)
class SweepRow:
    """The selection for one budget: the items in placed order, or the error that a run with this budget raises."""

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

    An integer is a budget with that window and that target. A budget that a run would refuse, for instance because the
    pinned items do not fit, becomes a row with that error and no items. For a `PreparedSelection` the items are None.

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
        selected = prepared.run(budget, warn=False)
    except _OUTCOMES as error:
        return SweepRow(budget, [], 0, error)
    return SweepRow(budget, selected, sum(item.tokens for item in selected))
