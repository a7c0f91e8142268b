"""Sensitivity: the same candidates under several variants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import (
    BudgetOverflowError,
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    CupelError,
    GreedySlice,
    KnapsackSlice,
    OverflowStrategy,
    Pipeline,
    PipelineConfigError,
    PriorityScorer,
    ReflexiveScorer,
    TagScorer,
    UShapedPlacer,
)
from cupel.analytics import ItemStatus, policy_sensitivity
from tests.analytics.counting import CountingScorer
from tests.policy.random_policies import items, policies

IN, OUT = ItemStatus.INCLUDED, ItemStatus.EXCLUDED
A = ContextItem("a", 40, priority=10, future_relevance_hint=0.1)
B = ContextItem("b", 40, priority=1, future_relevance_hint=0.9)
BUDGET = ContextBudget(50, 40)
URGENT, RELEVANT = Pipeline(scorer=PriorityScorer()), Pipeline(scorer=ReflexiveScorer())


def diffs(report):
    return [(diff.content, diff.statuses) for diff in report.diffs]


@pytest.mark.parametrize(
    "variants",
    [
        {"p": URGENT, "r": RELEVANT},
        [("p", URGENT), ("r", RELEVANT)],
        (("p", URGENT), ("r", Pipeline(scorer=ReflexiveScorer()))),
        iter([("p", URGENT), ("r", RELEVANT)]),
    ],
)
def test_policies_and_pipelines_in_any_mixture(variants):
    report = policy_sensitivity([A, B], BUDGET, variants)
    assert diffs(report) == [("a", [("p", IN), ("r", OUT)]), ("b", [("p", OUT), ("r", IN)])]
    assert [label for label, _ in report.variants] == ["p", "r"]
    assert [one.included[0].item.content for _, one in report.variants] == ["a", "b"]


def test_agreement_is_no_diff_and_labels_may_repeat():
    report = policy_sensitivity([A, B], BUDGET, [("x", URGENT), ("x", URGENT), ("x", URGENT)])
    assert report.diffs == []
    assert [label for label, _ in report.variants] == ["x", "x", "x"]


def test_duplicates_do_not_swing():
    """Ruling 10.4: a content is included if any copy of it is."""
    copies = [A, ContextItem("a", 40, priority=3), B]
    report = policy_sensitivity(copies, ContextBudget(200, 200), {"p": URGENT, "r": RELEVANT})
    assert report.diffs == []


@pytest.mark.parametrize("variants", [{}, {"p": URGENT}, [("p", URGENT)]])
def test_fewer_than_two_variants(variants):
    with pytest.raises(PipelineConfigError, match=r"^policy_sensitivity requires at least 2 variants$"):
        policy_sensitivity([A], BUDGET, variants)


def test_variants_of_another_type():
    with pytest.raises(TypeError, match="variants: 'q' must be a Pipeline"):
        policy_sensitivity([A], BUDGET, {"p": URGENT, "q": ReflexiveScorer()})


def test_a_failing_variant_ends_the_call():
    strict = Pipeline(scorer=PriorityScorer(), slicer=CountQuotaSlice([CountQuotaEntry("Message", 2, 2)]))
    with pytest.raises(BudgetOverflowError):
        policy_sensitivity([A, B], BUDGET, {"p": URGENT, "strict": strict})


def test_equal_rankings_are_scored_once():
    scorer = CountingScorer()
    variants = {
        "greedy": Pipeline(scorer=scorer),
        "knapsack": Pipeline(scorer=scorer, slicer=KnapsackSlice(1), placer=UShapedPlacer()),
        "truncate": Pipeline(scorer=scorer, overflow=OverflowStrategy.TRUNCATE),
        "copies": Pipeline(scorer=scorer, deduplicate=False),
    }
    policy_sensitivity([A, B], BUDGET, variants)
    assert scorer.passes == 2  # deduplication changes the ranking, the rest does not


def test_equal_weights_in_another_order_are_not_the_same_ranking():
    """Floats add up differently in another order, so such scorers are equal but not interchangeable."""
    weights = {"a": 0.1, "b": 0.2, "c": 0.3}
    forth, back = TagScorer(weights), TagScorer(dict(reversed(weights.items())))
    tagged = [ContextItem("x", 10, tags=["a", "b", "c"]), ContextItem("y", 10, tags=["c", "b", "a"])]
    report = policy_sensitivity(
        tagged, ContextBudget(20, 20), {"forth": Pipeline(scorer=forth), "back": Pipeline(scorer=back)}
    )
    for scorer, (_, found) in zip((forth, back), report.variants, strict=True):
        alone = Pipeline(scorer=scorer).dry_run(tagged, ContextBudget(20, 20))
        assert [entry.score for entry in found.included] == [entry.score for entry in alone.included]


@pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")
def test_callbacks_are_not_told():
    told = []
    slicer = CountQuotaSlice([CountQuotaEntry("Message", 2, 2)])
    loud = Pipeline(scorer=PriorityScorer(), slicer=slicer, overflow=OverflowStrategy.PROCEED, on_overflow=told.append)
    policy_sensitivity([A, B], BUDGET, {"loud": loud, "p": URGENT})
    assert told == []


def comparable(report):
    document = report.to_dict()
    document.pop("events")  # durations differ
    return document


@pytest.mark.filterwarnings("ignore::cupel.errors.CupelWarning")
@given(candidates=items, variants=st.lists(policies, min_size=2, max_size=3), shared=st.booleans())
def test_every_variant_reports_what_it_reports_alone(candidates, variants, shared):
    if shared:  # the same ranking under other slicers
        variants = [
            variants[0],
            Pipeline(scorer=variants[0].scorer, slicer=GreedySlice(), deduplicate=variants[0].deduplicate),
        ]
    budget = ContextBudget(600, 500)
    try:
        alone = [variant.dry_run(candidates, budget) for variant in variants]
    except CupelError as error:
        with pytest.raises(type(error)):
            policy_sensitivity(candidates, budget, [("v", variant) for variant in variants])
        return
    report = policy_sensitivity(candidates, budget, [("v", variant) for variant in variants])
    assert [comparable(found) for _, found in report.variants] == [comparable(expected) for expected in alone]
    for diff in report.diffs:
        assert {status for _, status in diff.statuses} == {IN, OUT}
