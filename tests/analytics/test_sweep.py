"""A sweep is a run for each budget, at the price of one scoring pass."""

import pytest
from hypothesis import given

from cupel import (
    ContextBudget,
    ContextItem,
    CupelError,
    InvalidBudgetError,
    PinnedExceedsBudgetError,
    Pipeline,
    ReflexiveScorer,
    Slicer,
    StrategyContractError,
)
from cupel.analytics import sweep
from tests.analytics.counting import CountingScorer
from tests.policy.random_policies import items, policies

ITEMS = [
    ContextItem("pin", 20, pinned=True),
    ContextItem("a", 40, future_relevance_hint=0.9),
    ContextItem("b", 30, future_relevance_hint=0.5),
]


@pytest.mark.filterwarnings("ignore::cupel.errors.CupelWarning")
@given(policy=policies, candidates=items)
def test_every_row_is_what_a_run_gives(policy, candidates):
    pipeline = policy
    for row in sweep(pipeline, candidates, [0, 90, ContextBudget(900, 300, output_reserve=100)]):
        if row.error is not None:
            with pytest.raises(CupelError) as caught:
                pipeline.run(candidates, row.budget)
            assert (type(caught.value), str(caught.value)) == (type(row.error), str(row.error))
            assert row.items == []
            continue
        expected = pipeline.run(candidates, row.budget)
        assert list(map(id, row.items)) == list(map(id, expected))
        assert row.total_tokens == sum(item.tokens for item in expected)


def test_rows_in_the_order_of_the_budgets_from_one_pass():
    scorer = CountingScorer()
    rows = sweep(Pipeline(scorer=scorer), iter(ITEMS), range(100, 0, -30))
    assert [(row.budget.target_tokens, row.total_tokens, type(row.error)) for row in rows] == [
        (100, 90, type(None)),
        (70, 60, type(None)),
        (40, 20, type(None)),
        (10, 0, PinnedExceedsBudgetError),
    ]
    assert scorer.passes == 1


def test_wrong_budgets_and_broken_slicers_are_errors():
    class Inventive(Slicer):
        def slice(self, scored, budget):
            return [ContextItem("invented", 1)]

    with pytest.raises(InvalidBudgetError):
        sweep(Pipeline(scorer=ReflexiveScorer()), ITEMS, [-1])
    with pytest.raises(TypeError):
        sweep(Pipeline(scorer=ReflexiveScorer()), ITEMS, ["100"])
    with pytest.raises(StrategyContractError):
        sweep(Pipeline(scorer=ReflexiveScorer(), slicer=Inventive()), ITEMS, [100])
