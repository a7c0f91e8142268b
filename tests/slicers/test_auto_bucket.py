"""`KnapsackSlice(bucket_size="auto")`: as fine as the work allows, never worth less than greedy or buckets of 100."""

import math
import random

import pytest

import cupel.policy
from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer, ScoredItem
from cupel._internal.columns import Candidates
from cupel.slicers import (
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    GreedySlice,
    KnapsackSlice,
    QuotaEntry,
    QuotaSlice,
)

AUTO = KnapsackSlice("auto")


def random_pool(rng):
    most = rng.choice((15, 60, 300, 2_000))
    levels = rng.choice((None, (0.2, 0.4, 0.6), (0.00005, 0.5)))
    scored = [
        ScoredItem(
            ContextItem(str(number), rng.choice((0, rng.randint(1, most), rng.randint(1, most)))),
            rng.choice(levels) if levels else rng.random(),
        )
        for number in range(rng.randint(0, 60))
    ]
    target = rng.randint(0, sum(entry.item.tokens for entry in scored) + 1)
    return sorted(scored, key=lambda entry: -entry.score), ContextBudget(target, target)


def worth(slicer, scored, budget):
    chosen = {id(item) for item in slicer.slice(scored, budget)}
    return math.fsum(entry.score for entry in scored if id(entry.item) in chosen)


def test_never_worth_less_than_greedy_or_the_default_bucket():
    rng = random.Random(9)
    better = 0
    for _ in range(400):
        scored, budget = random_pool(rng)
        rivals = [worth(GreedySlice(), scored, budget), worth(KnapsackSlice(), scored, budget)]
        chosen = AUTO.slice(scored, budget)
        assert sum(item.tokens for item in chosen) <= budget.target_tokens
        assert worth(AUTO, scored, budget) >= max(rivals)
        better += worth(AUTO, scored, budget) > max(rivals)
    assert better > 40  # where there is something to gain, it gains


def test_small_items_that_buckets_of_100_waste():
    """Ten items of 30 tokens need 300, but 1,000 in buckets."""
    scored = [ScoredItem(ContextItem(str(number), 30), 0.5) for number in range(10)]
    budget = ContextBudget(300, 300)
    assert len(KnapsackSlice().slice(scored, budget)) == 3
    assert len(AUTO.slice(scored, budget)) == 10


def test_zero_token_items_come_first_and_need_a_target():
    scored = [ScoredItem(ContextItem(name, tokens), 0.5) for name, tokens in (("a", 5), ("free", 0), ("b", 5))]
    chosen = [item.content for item in AUTO.slice(scored, ContextBudget(10, 10))]
    assert chosen == ["free", "b", "a"]
    assert AUTO.slice(scored, ContextBudget(10, 0)) == []
    assert [item.content for item in AUTO.slice(scored[1:2], ContextBudget(10, 10))] == ["free"]


def test_negative_counts_are_never_chosen():
    scored = [ScoredItem(ContextItem("impossible", -5), 0.9), ScoredItem(ContextItem("a", 5), 0.5)]
    assert [item.content for item in AUTO.slice(scored, ContextBudget(5, 5))] == ["a"]


def test_no_guard_because_the_real_table_is_bounded():
    """A nominal table of 500 million cells, which the fixed bucket refuses, is answered."""
    rng = random.Random(3)
    items = [ContextItem(str(i), rng.randint(20, 800), future_relevance_hint=rng.random()) for i in range(5_000)]
    budget = ContextBudget(100_000, 100_000)
    report = Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice("auto", max_cells=1)).dry_run(items, budget)
    assert 99_900 < sum(entry.item.tokens for entry in report.included) <= 100_000


def test_the_span_promises_no_more_than_the_target_itself():
    scored, budget = random_pool(random.Random(1))
    span = AUTO.prepare(Candidates.of(scored)).span(budget)
    assert (span.start, span.stop) == (budget.target_tokens, budget.target_tokens + 1)


@pytest.mark.parametrize(
    "slicer",
    [
        AUTO,
        QuotaSlice([QuotaEntry("Document", cap=40)], AUTO),
        CountConstrainedKnapsackSlice([CountQuotaEntry("Message", 1, 2)], AUTO),
    ],
    ids=lambda slicer: type(slicer).__name__,
)
def test_a_policy_document_keeps_it(slicer):
    policy = Pipeline(scorer=ReflexiveScorer(), slicer=slicer)
    assert '"auto"' in cupel.policy.dumps(policy)
    assert cupel.policy.loads(cupel.policy.dumps(policy)) == policy
    items = [ContextItem("a", 40, future_relevance_hint=0.5), ContextItem("b", 50, future_relevance_hint=0.6)]
    assert [item.content for item in policy.run(items, ContextBudget(100, 100))]


def test_never_the_default():
    assert KnapsackSlice().bucket_size == 100


@pytest.mark.parametrize("wrong", ["fine", "AUTO", "", None])
def test_no_other_word(wrong):
    with pytest.raises(TypeError, match="bucket_size must be an integer or 'auto', got"):
        KnapsackSlice(wrong)
