"""The strategies reach what they promise: ties, twins, every field, and every kind of policy."""

import itertools
import math

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

import cupel.policy
from cupel import ContextBudget, ContextItem, OverflowStrategy, SelectionError
from cupel.policy import registered
from cupel.testing import strategies

SEARCH = settings(max_examples=2000, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize(
    "condition",
    [
        lambda item: item.pinned,
        lambda item: item.tokens == 0,
        lambda item: item.tokens >= 100,
        lambda item: item.priority is not None and item.priority < 0,
        lambda item: len(item.tags) == 3,
        lambda item: "cupel:trust" in item.metadata,
        lambda item: item.timestamp is not None,
        lambda item: item.future_relevance_hint == 1 / 3,
        lambda item: str(item.kind) == "message",
        lambda item: item == ContextItem("a", 0),
    ],
)
def test_items_of_every_sort_occur(condition):
    find(strategies.items(), condition, settings=SEARCH)


def test_every_field_of_an_item_can_be_replaced():
    @settings(max_examples=20)
    @given(
        strategies.items(
            contents=st.just("text"),
            tokens=st.just(-3),
            kinds=st.just("Note"),
            priorities=st.just(7),
            tags=st.just(["t"]),
            metadata=st.just({"k": 1}),
            timestamps=st.none(),
            hints=st.just(0.125),
            pinned=st.just(value=True),
        )
    )
    def check(item):
        assert item == ContextItem(
            "text",
            -3,
            kind="Note",
            priority=7,
            tags=["t"],
            metadata={"k": 1},
            future_relevance_hint=0.125,
            pinned=True,
        )

    check()


@settings(max_examples=50)
@given(st.data(), st.integers(0, 3), st.integers(0, 3))
def test_lists_keep_to_their_size_and_hold_distinct_objects(data, least, more):
    found = data.draw(strategies.item_lists(min_size=least, max_size=least + more))
    assert least <= len(found) <= least + more
    assert len({id(item) for item in found}) == len(found)


def test_scored_lists_are_sorted_ties_occur_and_pins_do_not():
    @settings(max_examples=50)
    @given(strategies.scored_lists(scores=strategies.scores(non_finite=True), max_size=5))
    def check(scored):
        assert len(scored) <= 5
        assert not any(entry.item.pinned for entry in scored)
        numbers = [entry.score for entry in scored if not math.isnan(entry.score)]
        assert numbers == sorted(numbers, reverse=True)
        assert all(math.isnan(entry.score) for entry in scored[len(numbers) :])

    check()
    find(
        strategies.scored_lists(),
        lambda scored: any(a.score == b.score and a.item == b.item for a, b in itertools.pairwise(scored)),
        settings=SEARCH,
    )


@pytest.mark.parametrize(
    "condition",
    [
        lambda budget: budget == ContextBudget(0, 0),
        lambda budget: budget.output_reserve > 0,
        lambda budget: budget.reserved_slots,
        lambda budget: budget.estimation_safety_margin_percent == 100.0,
        lambda budget: budget.target_tokens < budget.max_tokens,
    ],
)
def test_budgets_of_every_sort_occur(condition):
    find(strategies.budgets(), condition, settings=SEARCH)


@settings(max_examples=30)
@given(strategies.budgets(max_tokens=st.just(50), reservations=False))
def test_budgets_without_reservations_are_what_slicers_receive(budget):
    assert budget == ContextBudget(50, budget.target_tokens)


@pytest.mark.parametrize(
    ("family", "strategy"),
    [("scorer", strategies.scorers()), ("slicer", strategies.slicers()), ("placer", strategies.placers())],
)
def test_every_built_in_strategy_occurs_and_no_other_one(family, strategy):
    seen = set()

    @settings(SEARCH, max_examples=500)
    @given(strategy)
    def look(found):
        seen.add(type(found))

    look()
    assert seen == {known.strategy for known in registered()[family].values() if known.built_in}


@pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")  # of required items in the room for the answer
@settings(max_examples=60)
@given(strategies.pipelines(), strategies.item_lists(), strategies.budgets())
def test_policies_run_and_survive_a_trip_through_json(policy, items, budget):
    assert cupel.policy.loads(cupel.policy.dumps(policy)) == policy
    try:
        report = policy.dry_run(items, budget)
    except SelectionError:
        return  # pins or requirements that do not fit, which is theirs to say
    assert len(report) == len(items)
    report.should().excluded_items_are_sorted_by_score_descending()
    if policy.overflow is not OverflowStrategy.PROCEED and not any(item.pinned for item in items):
        assert sum(entry.item.tokens for entry in report.included) <= budget.target_tokens
