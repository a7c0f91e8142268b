"""The optimality gap is a certificate: no selection beats the bound."""

import math
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cupel import (
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    OverflowStrategy,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    Scorer,
)
from cupel.analytics import optimality_gap


class ByPriority(Scorer):
    """The priority itself, so that scores can be any number."""

    SCORES = (0.0, 0.1, 0.5, 0.9, 1.0, -0.4, math.nan, 2.5)

    def score(self, item, all_items):
        return self.SCORES[item.priority]


def gap(items, budget, slicer=None, **options):
    report = Pipeline(scorer=ByPriority(), slicer=slicer or GreedySlice(), **options).dry_run(items, budget)
    return optimality_gap(report, budget)


def item(name, tokens, score, **fields):
    return ContextItem(name, tokens, priority=ByPriority.SCORES.index(score), **fields)


def test_a_full_budget_proves_the_best_selection():
    found = gap([item("a", 40, 0.9), item("b", 60, 0.5), item("c", 60, 0.1)], ContextBudget(100, 100))
    assert (found.selected_score, found.gap, found.ratio) == (1.4, 0.0, 1.0)
    assert found.upper_bound == 1.4000000000000001  # rounded upwards
    assert found.capacity_tokens == 100


def test_the_last_item_is_cut():
    found = gap([item("a", 60, 0.9), item("b", 60, 0.5)], ContextBudget(90, 90))
    assert found.upper_bound == pytest.approx(0.9 + 0.25)
    assert found.gap == pytest.approx(0.25)
    assert found.ratio == pytest.approx(0.9 / 1.15)


def test_pins_reserve_slots_and_margin_leave_less_to_choose():
    budget = ContextBudget(1000, 300, reserved_slots={"x": 100}, estimation_safety_margin_percent=50.0)
    found = gap([item("pin", 100, 2.5, pinned=True), item("a", 50, 0.9), item("b", 50, 0.5)], budget)
    assert (found.capacity_tokens, found.selected_score, found.gap) == (50, 0.9, 0.0)


def test_what_is_no_candidate_and_what_is_free():
    items = [
        item("same", 10, 0.9),
        item("same", 10, 0.5),  # deduplicated
        item("negative", -5, 2.5),
        item("free", 0, 0.5),
        item("unknown", 10, ByPriority.SCORES[6]),
        item("bad", 200, -0.4),
    ]
    found = gap(items, ContextBudget(100, 100))
    assert (found.selected_score, found.upper_bound, found.gap) == (1.4, 1.4000000000000001, 0.0)


def test_harmful_items_that_were_taken_count_against_the_selection():
    found = gap([item("bad", 50, -0.4)], ContextBudget(100, 100))
    assert (found.selected_score, found.upper_bound, found.gap, found.ratio) == (-0.4, 0.0, 0.4, 0.0)


def test_nothing_to_spend():
    found = gap([item("a", 50, 0.9), item("free", 0, 0.9)], ContextBudget(100, 0))
    assert (found.selected_score, found.upper_bound, found.gap, found.ratio) == (0.0, 0.0, 0.0, 1.0)


def test_the_gap_includes_what_a_quota_costs():
    items = [item("a", 50, 0.9, kind="Document"), item("b", 50, 0.1)]
    budget = ContextBudget(100, 100)
    assert gap(items, budget).gap == 0.0
    assert gap(items, budget, QuotaSlice([QuotaEntry("Document", cap=0)])).gap == pytest.approx(0.9)


@pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")
def test_requirements_over_the_target_count_as_capacity():
    slicer = CountQuotaSlice([CountQuotaEntry("Message", 2, 2)])
    found = gap(
        [item("a", 80, 0.9), item("b", 80, 0.5)], ContextBudget(100, 100), slicer, overflow=OverflowStrategy.PROCEED
    )
    assert (found.capacity_tokens, found.gap) == (160, 0.0)


candidates = st.lists(
    st.builds(
        ContextItem,
        st.uuids().map(str),
        st.integers(0, 12),
        priority=st.integers(0, len(ByPriority.SCORES) - 1),
        pinned=st.sampled_from([False] * 6 + [True]),
    ),
    max_size=7,
)


@settings(max_examples=200)
@given(
    items=candidates,
    tokens=st.integers(0, 60),
    slicer=st.sampled_from([GreedySlice(), KnapsackSlice(1), QuotaSlice([QuotaEntry("Message", cap=50)])]),
)
def test_no_selection_beats_the_bound(items, tokens, slicer):
    pinned = sum(one.tokens for one in items if one.pinned)
    budget = ContextBudget(max(tokens, pinned), max(tokens, pinned))
    found = gap(items, budget, slicer)
    scoreable = [one for one in items if not one.pinned]
    best = 0.0
    if found.capacity_tokens > 0:
        for size in range(len(scoreable) + 1):
            for chosen in combinations(scoreable, size):
                if sum(one.tokens for one in chosen) <= found.capacity_tokens:
                    scores = [ByPriority.SCORES[one.priority] for one in chosen]
                    best = max(best, math.fsum(score for score in scores if not math.isnan(score)))
    assert found.upper_bound >= best - 1e-12
    assert found.selected_score <= found.upper_bound
    assert found.gap >= 0.0
    assert 0.0 <= found.ratio <= 1.0
    assert (found.ratio == 1.0) == (found.gap == 0.0)


def test_infinite_scores():
    class Endless(Scorer):
        def score(self, item, all_items):
            return math.inf if item.priority else 0.5

    items = [ContextItem("a", 10, priority=1), ContextItem("b", 100, priority=1)]
    budget = ContextBudget(20, 20)
    found = optimality_gap(Pipeline(scorer=Endless()).dry_run(items, budget), budget)
    assert (found.selected_score, found.upper_bound, found.gap, found.ratio) == (math.inf, math.inf, 0.0, 1.0)
    found = optimality_gap(Pipeline(scorer=Endless()).dry_run(items[1:], budget), budget)
    assert (found.selected_score, found.upper_bound, found.gap, found.ratio) == (0.0, math.inf, math.inf, 0.0)


class ByHint(Scorer):
    def score(self, item, all_items):
        return item.future_relevance_hint


def bound_of(pool, capacity):
    items = [ContextItem(str(at), tokens, future_relevance_hint=score) for at, (tokens, score) in enumerate(pool)]
    budget = ContextBudget(capacity, capacity)
    return optimality_gap(Pipeline(scorer=ByHint()).dry_run(items, budget), budget).upper_bound


def test_the_bound_is_not_below_a_real_selection_by_a_last_bit():
    bound = bound_of([(17, 0.85), (4, 0.2)], 17)
    assert bound >= 0.85
    assert bound == pytest.approx(0.85)


@given(
    pool=st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), min_size=1, max_size=7),
    capacity=st.integers(1, 60),
)
def test_the_bound_holds_for_every_selection_exactly(pool, capacity):
    bound = Fraction(bound_of(pool, capacity))
    for chosen in product([False, True], repeat=len(pool)):
        taken = [row for row, is_in in zip(pool, chosen, strict=True) if is_in]
        if sum(tokens for tokens, _ in taken) <= capacity:
            assert sum(Fraction(score) for _, score in taken) <= bound
