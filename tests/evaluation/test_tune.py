"""Tuning finds what is there, claims nothing that is not, and never sees what it is judged on."""

import random

import pytest

from cupel import (
    CompositeScorer,
    ContextItem,
    GreedySlice,
    Pipeline,
    PriorityScorer,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    RelevanceScorer,
    ScaledScorer,
)
from cupel.evaluation import Case, EvaluationError, evaluate, tune
from cupel.evaluation._tune import _folds, _groups, variants
from cupel.slicers import BestFirstSlice

from .pools import hinted_case

START = Pipeline(scorer=CompositeScorer([(PriorityScorer(), 3), (ReflexiveScorer(), 1)]), name="start")


def test_a_real_gain_is_found_and_holds_on_new_cases():
    tuning = tune(START, [hinted_case(number, truth=0.9) for number in range(60)])
    assert tuning.gained
    assert tuning.gain.low > 0
    assert tuning.policy.name == "start-tuned"
    fresh = [hinted_case(number, truth=0.9) for number in range(1000, 1100)]
    after, before = evaluate(tuning.policy, fresh).kept.value, evaluate(START, fresh).kept.value
    assert after > before
    assert tuning.unseen.low <= after <= tuning.unseen.high


def test_noise_is_not_called_a_gain():
    """Where nothing says what is needed, at most a few of many searches may believe that they have found something."""
    believed = 0
    for draw in range(20):
        cases = [hinted_case(1000 * draw + number, truth=0.0) for number in range(40)]
        tuning = tune(START, cases, trials=20, seed=draw)
        believed += tuning.gained
        assert tuning.gained or tuning.policy is START
    assert believed <= 3


def test_the_curve_begins_with_the_start():
    cases = [hinted_case(number, truth=0.9) for number in range(40)]
    tuning = tune(START, cases, trials=10)
    kept = evaluate(START, cases).kept.value
    assert tuning.curve[0].tried == 1
    assert tuning.curve[0].seen == tuning.curve[0].unseen == tuning.before.value == pytest.approx(kept)
    assert [point.seen for point in tuning.curve] == sorted(point.seen for point in tuning.curve)


def test_the_same_seed_gives_the_same_policy():
    cases = [hinted_case(number, truth=0.9) for number in range(40)]
    assert tune(START, cases, trials=10, seed=3).to_dict() == tune(START, cases, trials=10, seed=3).to_dict()


def test_groups_are_never_split_between_folds():
    cases = [hinted_case(number, truth=1) for number in range(50)]
    parts = _folds(_groups(cases), 4, random.Random(0))
    homes = [{cases[at].group for at in part} for part in parts]
    assert sorted(at for part in parts for at in part) == list(range(50))
    assert sum(map(len, homes)) == len(set.union(*homes)) == 6


def test_cases_over_one_pool_are_one_group():
    pool = [ContextItem(f"{at}", 1) for at in range(3)]
    assert len(_groups([Case(pool, 2, [0]), Case(pool, 2, [1]), Case(list(pool), 2, [1])])) == 2


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ([hinted_case(number, truth=1) for number in range(19)], "too few cases to tune: 19 in 6 groups"),
        ([hinted_case(6 * number, truth=1) for number in range(30)], "too few cases to tune: 30 in 1 group,"),
        ([], "cases is empty"),
    ],
)
def test_too_few_cases_are_refused(cases, message):
    with pytest.raises(EvaluationError, match=message):
        tune(START, cases)


def test_quotas_stay_and_only_the_slicer_inside_them_varies():
    quota = QuotaSlice([QuotaEntry("Message", 10, 50)], GreedySlice())
    found = variants(Pipeline(scorer=ReflexiveScorer(), slicer=quota), 10, random.Random(0))
    assert [candidate.slicer for candidate in found] == [quota, QuotaSlice(quota.quotas, BestFirstSlice())]


def test_neighbours_vary_inside_other_scorers():
    start = Pipeline(scorer=ScaledScorer(CompositeScorer([(RelevanceScorer(stem=False), 1), (ReflexiveScorer(), 1)])))
    found = variants(start, 40, random.Random(0))
    assert len(found) == 40
    assert found[0] is start
    assert len({repr(candidate.scorer) for candidate in found}) > 20
    assert any("neighbours=0.3" in repr(candidate.scorer) for candidate in found)


def test_a_policy_that_ignores_the_queries_is_told_so():
    cases = [hinted_case(number, truth=1) for number in range(20)]
    asked = [Case(case.items, case.budget, case.needed, "what?", group=case.group) for case in cases]
    assert any("RelevanceScorer" in note for note in tune(START, asked, trials=2).notes)
    assert not any("RelevanceScorer" in note for note in tune(START, cases, trials=2).notes)
