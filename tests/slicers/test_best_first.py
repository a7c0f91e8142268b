"""Best score first, exact and in one pass like its siblings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import cupel.policy
from cupel import BestFirstSlice, ContextBudget, ContextItem, GreedySlice, Pipeline, ReflexiveScorer, slicers
from cupel.analytics import counterfactual, find_min_budget_for
from cupel.slicers._greedy import GreedyChooser

rows = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.1, 0.5, 0.9])), min_size=1, max_size=9)


def pool(pairs):
    return [ContextItem(str(place), tokens, future_relevance_hint=hint) for place, (tokens, hint) in enumerate(pairs)]


def test_it_is_public_and_a_document():
    assert slicers.BestFirstSlice is BestFirstSlice
    assert cupel.policy.to_dict(Pipeline(scorer=ReflexiveScorer(), slicer=BestFirstSlice())) == {
        "scorer": "reflexive",
        "slicer": "best_first",
    }


def test_size_does_not_count_against_an_item():
    items = pool([(60, 0.9), (5, 0.5)])
    assert Pipeline(scorer=ReflexiveScorer(), slicer=BestFirstSlice()).run(items, 62) == items[:1]
    assert Pipeline(scorer=ReflexiveScorer(), slicer=GreedySlice()).run(items, 62) == items[1:]


@given(rows, st.integers(0, 20))
def test_the_span_and_the_smallest_budget_are_those_of_runs(pairs, target):
    items = pool(pairs)
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=BestFirstSlice(), deduplicate=False)
    prepared = pipeline.prepare(items)
    assert isinstance(prepared.chooser, GreedyChooser)
    budget = ContextBudget(target, target)
    here = prepared.included(budget)
    start, stop = prepared.chooser.span(budget)
    for near in range(start, min(stop or 30, 30)):
        assert prepared.included(near) == here
    wanted = items[0]
    alone = [extra for extra in range(100) if any(entry is wanted for entry in prepared.included(target + extra))]
    if not any(entry is wanted for entry in here):
        assert counterfactual(prepared, budget, wanted).extra_tokens == alone[0]
    found = find_min_budget_for(pipeline, items, wanted, 100, exact=True)
    assert found == next(tokens for tokens in range(101) if any(one is wanted for one in prepared.included(tokens)))
