"""Marginal items: what the last tokens of a budget buy."""

import pytest

from cupel import (
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    InvalidBudgetError,
    OverflowStrategy,
    PinnedExceedsBudgetError,
    Pipeline,
    PipelineConfigError,
    QuotaSlice,
    ReflexiveScorer,
    UShapedPlacer,
)
from cupel.analytics import get_marginal_items
from tests.analytics.counting import CountingScorer

GUARD = (
    "GetMarginalItems requires monotonic item inclusion. "
    "QuotaSlice produces non-monotonic inclusion as budget changes shift percentage allocations."
)


def item(name, tokens, hint=0.5, **fields):
    return ContextItem(name, tokens, future_relevance_hint=hint, **fields)


ITEMS = [item("a", 40, 0.9), item("b", 30, 0.5), item("c", 30, 0.3)]


def marginal(items, budget, slack, **options):
    pipeline = Pipeline(scorer=ReflexiveScorer(), **options)
    return [found.content for found in get_marginal_items(pipeline, items, budget, slack)]


@pytest.mark.parametrize(
    ("budget", "slack", "expected"),
    [
        (ContextBudget(100, 100), 0, []),
        (ContextBudget(100, 100), 1, ["c"]),
        (ContextBudget(100, 100), 31, ["b", "c"]),
        (ContextBudget(100, 100), 100, ["a", "b", "c"]),
        (ContextBudget(200, 100), 100, ["a", "b", "c"]),
        # slots, reserve and margin stay: effective 100 and 90, 100 and 90, 100 and 95
        (ContextBudget(400, 400, reserved_slots={"x": 300}), 10, ["c"]),
        (ContextBudget(400, 400, output_reserve=300), 10, ["c"]),
        (ContextBudget(200, 200, estimation_safety_margin_percent=50.0), 10, ["c"]),
    ],
)
def test_worked_cases(budget, slack, expected):
    assert marginal(ITEMS, budget, slack) == expected


def test_the_order_is_the_placed_one():
    expected = Pipeline(scorer=ReflexiveScorer(), placer=UShapedPlacer()).run(ITEMS, ContextBudget(100, 100))
    assert marginal(ITEMS, ContextBudget(100, 100), 100, placer=UShapedPlacer()) == [
        found.content for found in expected
    ]


def test_items_are_told_apart_by_identity():
    twins = [item("same", 40), item("same", 40)]
    pipeline = Pipeline(scorer=ReflexiveScorer(), deduplicate=False)
    found = get_marginal_items(pipeline, twins, ContextBudget(80, 80), 10)
    assert [one is twins[1] for one in found] == [True]


def test_quota_slices_are_refused_before_anything_else():
    with pytest.raises(PipelineConfigError) as caught:
        marginal(ITEMS, ContextBudget(10, 10), -1, slicer=QuotaSlice([]))
    assert str(caught.value) == GUARD
    assert marginal(ITEMS, ContextBudget(100, 100), 1, slicer=CountQuotaSlice([])) == ["c"]


@pytest.mark.parametrize(
    ("budget", "slack"),
    [
        (ContextBudget(100, 100), -1),
        (ContextBudget(100, 100), 101),
        (ContextBudget(100, 50), 51),
        (ContextBudget(100, 60, output_reserve=50), 51),
    ],
)
def test_slack_that_the_budget_cannot_give_up(budget, slack):
    with pytest.raises(InvalidBudgetError, match=f"slack_tokens.*{slack}"):
        marginal(ITEMS, budget, slack)


@pytest.mark.parametrize("slack", [1.0, True, None])
def test_slack_of_the_wrong_type(slack):
    with pytest.raises(TypeError, match="slack_tokens must be an integer"):
        marginal(ITEMS, ContextBudget(100, 100), slack)


def test_pins_that_the_reduced_window_cannot_hold():
    with pytest.raises(PinnedExceedsBudgetError):
        marginal([item("pin", 95, pinned=True)], ContextBudget(100, 100), 10)


def test_one_scoring_pass_and_no_call_of_the_callback():
    scorer, told = CountingScorer(), []
    pipeline = Pipeline(
        scorer=scorer,
        slicer=CountQuotaSlice([CountQuotaEntry("Message", 3, 3)]),
        overflow=OverflowStrategy.PROCEED,
        on_overflow=told.append,
    )
    assert get_marginal_items(pipeline, ITEMS, ContextBudget(50, 50), 10) == []
    assert (scorer.passes, told) == (1, [])
