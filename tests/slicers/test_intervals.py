"""The targets that greedy knows of an item are those that choose it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cupel import (
    BestFirstSlice,
    ContextBudget,
    ContextItem,
    GreedySlice,
    KnapsackSlice,
    Pipeline,
    ReflexiveScorer,
)
from cupel._internal.intervals import BackwardFill, IntervalSet, TooMuchWork, Work
from tests.pools import Alternating, small_items

LOTS = 10**12


def prepared(items, slicer):
    return Pipeline(scorer=ReflexiveScorer(), slicer=slicer).prepare(items)


def members(intervals, highest):
    """All targets of a set up to the highest, found by stepping."""
    found, at = [], 0
    while (at := intervals.next(at)) is not None and at <= highest:
        found.append(at)
        at += 1
    return found


@settings(max_examples=200)
@given(items=small_items, slicer=st.sampled_from([GreedySlice(), BestFirstSlice()]), highest=st.integers(1, 70))
def test_intervals_are_the_targets_that_choose(items, slicer, highest):
    ready = prepared(items, slicer)
    choices = [ready.chooser(ContextBudget(target, target)).chosen for target in range(highest + 1)]
    for position in range(len(ready.candidates)):
        found = ready.chooser.intervals(position, highest, Work(LOTS))
        assert members(found, highest) == [target for target, chosen in enumerate(choices) if position in chosen]


@given(costs=st.lists(st.integers(0, 30), min_size=1, max_size=9), highest=st.integers(1, 300))
def test_a_backward_fill_follows_the_forward_fill(costs, highest):
    def is_taken(remaining):
        for cost in costs[:-1]:
            remaining -= cost if cost <= remaining else 0
        return costs[-1] <= remaining

    found = BackwardFill(costs).targets(len(costs) - 1, highest, Work(LOTS))
    assert members(found, highest) == [target for target in range(1, highest + 1) if is_taken(target)]


def test_the_largest_counts_do_not_wrap():
    fill = BackwardFill([2**53] * 2_000 + [5])
    assert fill.targets(1_999, 2**53, Work(LOTS)).next(1) is None
    assert fill.targets(2_000, 2**53, Work(LOTS)).next(1) == 5
    assert fill.targets(0, 2**53, Work(LOTS)).next(1) == 2**53


def test_a_fill_without_hope_is_not_followed_to_the_end():
    work = Work(LOTS)
    assert BackwardFill([100, *range(1, 1000)]).targets(999, 50, work).next(1) is None
    assert work.left == LOTS


@pytest.mark.parametrize(("target", "expected"), [(0, 3), (3, 3), (4, 4), (5, 9), (9, 9), (10**15, 10**15)])
def test_an_interval_set_without_an_end(target, expected):
    assert IntervalSet([3, 5, 9]).next(target) == expected


def test_an_interval_set_with_an_end():
    assert IntervalSet([4, 7]).next(7) is None
    assert IntervalSet([]).next(5) is None


def test_work_is_counted():
    work = Work(10)
    work.spend(10)
    with pytest.raises(TooMuchWork):
        work.spend(1)
    with pytest.raises(TooMuchWork):
        BackwardFill([5, 3]).targets(1, 10, Work(3_000))


@pytest.mark.parametrize("slicer", [Alternating(), KnapsackSlice(1)], ids=["own", "knapsack"])
def test_other_slicers_have_to_be_run(slicer):
    chooser = prepared([ContextItem("a", 1, future_relevance_hint=0.5)], slicer).chooser
    assert chooser.intervals(0, 100, Work(LOTS)) is None


def test_related_candidates_have_to_be_run():
    items = [ContextItem("a", 1, future_relevance_hint=0.5, metadata={"cupel:id": "a"})]
    assert prepared(items, GreedySlice()).chooser.intervals(0, 100, Work(LOTS)) is None
