"""What a larger or smaller budget would change; every probe reuses one scoring pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cupel._checks import as_integer, as_list
from cupel.analytics._arguments import check
from cupel.analytics._least_budget import least_extension
from cupel.analytics._probe import Probe, probe_for
from cupel.analytics._quiet import prepare_quietly
from cupel.errors import InvalidBudgetError, InvalidItemError, PipelineConfigError
from cupel.model import ContextBudget
from cupel.slicers import CountConstrainedKnapsackSlice, CountQuotaSlice, QuotaSlice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.model import ContextItem
    from cupel.pipeline import Pipeline

_NOTHING: Final = ContextBudget(0, 0)  # so that a probe's extra tokens are its window and its target (ruling 9.5)


def get_marginal_items(
    pipeline: Pipeline, items: Iterable[ContextItem], budget: ContextBudget, slack_tokens: int
) -> list[ContextItem]:
    """The items that the budget selects and the same budget with `slack_tokens` fewer does not, in placed order.

    Window and target both shrink; reserve, slots and margin stay. A `QuotaSlice` is refused, because its shares move
    with the budget.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem("a", 60, future_relevance_hint=0.9), ContextItem("b", 30, future_relevance_hint=0.1)]
    >>> marginal = get_marginal_items(Pipeline(scorer=ReflexiveScorer()), items, ContextBudget(100, 100), 20)
    >>> [item.content for item in marginal]
    ['b']
    """
    check(pipeline=pipeline, budget=budget)
    if isinstance(pipeline.slicer, QuotaSlice):
        raise PipelineConfigError(
            "GetMarginalItems requires monotonic item inclusion. "
            "QuotaSlice produces non-monotonic inclusion as budget changes shift percentage allocations."
        )
    slack_tokens = as_integer("slack_tokens", slack_tokens)
    if slack_tokens == 0:  # ruling 9.11
        return []
    reduced = _reduced(budget, slack_tokens)
    prepared = prepare_quietly(pipeline, items)
    full = prepared.run(budget)
    kept = {id(item) for item in prepared.included(reduced)}
    return [item for item in full if id(item) not in kept]


def find_min_budget_for(
    pipeline: Pipeline,
    items: Iterable[ContextItem],
    target_item: ContextItem,
    search_ceiling: int,
    *,
    exact: bool = False,
) -> int | None:
    """A small budget that selects `target_item`, or None if the search finds none up to `search_ceiling`.

    Probes are budgets with window and target alike and nothing reserved. The binary search is the specified one: it
    returns a budget that works, and the smallest only if a larger budget never drops the item. No built-in slicer
    promises that: a large item that starts to fit can push a smaller one out. `exact=True` answers without the
    assumption: the smallest budget of all, or None if there really is none; it is therefore open to quota slicers,
    which the search refuses.

    >>> from cupel import ContextItem, Pipeline, ReflexiveScorer
    >>> big = ContextItem("big", 6, future_relevance_hint=0.9)
    >>> small = ContextItem("small", 5, future_relevance_hint=0.5)
    >>> pipeline = Pipeline(scorer=ReflexiveScorer())
    >>> find_min_budget_for(pipeline, [big, small], small, 20)
    11
    >>> find_min_budget_for(pipeline, [big, small], small, 20, exact=True)
    5
    """
    check(pipeline=pipeline, target_item=target_item)
    if not exact:
        _require_monotonic(pipeline)
    search_ceiling = as_integer("search_ceiling", search_ceiling)
    candidates = as_list("items", items, "an iterable of ContextItem")
    if not any(item is target_item for item in candidates):
        raise InvalidItemError("targetItem must be an element of items")
    if search_ceiling < target_item.tokens:
        error = InvalidBudgetError("searchCeiling must be >= targetItem.Tokens")
        error.add_note(f"search_ceiling is {search_ceiling}, target_item.tokens is {target_item.tokens}")
        raise error
    if target_item.tokens < 0:  # ruling 9.8
        return None
    prepared = prepare_quietly(pipeline, candidates)
    if exact:
        return least_extension(prepared, _NOTHING, target_item, search_ceiling)
    return _search(probe_for(prepared, _NOTHING, target_item), target_item.tokens, search_ceiling)


def _search(probe: Probe, low: int, high: int) -> int | None:
    lowest, ceiling = low, high
    while high - low > 1:
        middle = low + (high - low) // 2
        if probe(middle):
            high = middle
        else:
            low = middle
    if low == lowest and probe(low):  # any other low has failed in the loop: ruling 9.4
        return low
    if high == ceiling and not probe(high):
        return None
    return high


def _reduced(budget: ContextBudget, slack_tokens: int) -> ContextBudget:
    if slack_tokens < 0:
        raise InvalidBudgetError(f"slack_tokens must be >= 0, got {slack_tokens}")
    try:
        return budget.extended(-slack_tokens)
    except InvalidBudgetError as error:
        raise InvalidBudgetError(f"slack_tokens={slack_tokens} is more than the budget can give up: {error}") from error


def _require_monotonic(pipeline: Pipeline) -> None:
    if isinstance(pipeline.slicer, (QuotaSlice, CountQuotaSlice, CountConstrainedKnapsackSlice)):  # ruling 9.9
        raise PipelineConfigError(
            "FindMinBudgetFor requires monotonic item inclusion. QuotaSlice and CountQuotaSlice produce "
            "non-monotonic inclusion as budget changes shift allocations. "
            "Use a GreedySlice or KnapsackSlice inner slicer for budget simulation."
        )
