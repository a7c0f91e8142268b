"""Intervals cover what they claim to cover, and the same seed gives the same ones."""

import random

import pytest

from cupel import ContextItem
from cupel.evaluation import Case, Outcome, compare
from cupel.evaluation._evaluate import _summed, estimates, student_quantile


def one(values, seed=0):
    return estimates([(values, [1.0] * len(values))], seed=seed)[0]


NEEDS = [Case([ContextItem("x", 1)] * needs, 9, range(needs)) for needs in (1, 1, 2, 3)]
"""Shares of needed items as they are in practice: of one, two or three needs a case, each kept by chance."""
ROUNDS = 400


def outcome(case, kept):
    return Outcome(case, tuple(at for at, one in enumerate(kept) if one), len(kept))


@pytest.mark.parametrize(("count", "chance"), [(15, 0.5), (40, 0.75)])
def test_ninety_five_of_a_hundred_intervals_of_an_evaluation_hold_the_truth(count, chance):
    draw, held = random.Random(count), 0
    for seed in range(ROUNDS):
        cases = draw.choices(NEEDS, k=count)
        outcomes = [outcome(case, [draw.random() < chance for _ in case.needed]) for case in cases]
        kept = _summed("simulated", outcomes, seed).kept
        held += kept.low <= chance <= kept.high
    assert 0.92 <= held / ROUNDS <= 0.98


def test_ninety_five_of_a_hundred_intervals_of_a_comparison_hold_the_difference():
    """Two policies on the same cases, of which some are hard for both: only differences in pairs are that narrow."""
    count = 30
    draw, held, paired, apart = random.Random(count), 0, 0.0, 0.0
    for seed in range(ROUNDS):
        sides = [], []
        for case in draw.choices(NEEDS, k=count):
            luck = [draw.random() for _ in case.needed]
            for side, chance in zip(sides, (0.5, 0.7), strict=True):
                side.append(outcome(case, [one < chance for one in luck]))
        first, second = (_summed(str(at), side, seed) for at, side in enumerate(sides))
        kept = compare(first, second, seed=seed).kept
        held += kept.low <= 0.2 <= kept.high
        paired += kept.high - kept.low
        apart += first.kept.high - first.kept.low + second.kept.high - second.kept.low
    assert 0.92 <= held / ROUNDS <= 0.98
    assert paired < 0.6 * apart


def test_the_same_seed_gives_the_same_interval_and_another_one_another():
    draw = random.Random(1)
    values = [draw.random() for _ in range(50)]
    assert one(values) == one(values)
    assert one(values) != one(values, seed=1)


def test_ratios_count_what_each_case_has():
    kept, needed = [1.0, 0.0, 3.0], [2.0, 0.0, 4.0]
    found = estimates([(kept, needed)], seed=0)[0]
    assert found.value == 4 / 6
    assert found.count == 2


def test_one_case_has_no_interval():
    found = one([0.5])
    assert (found.value, found.low, found.high) == (0.5, float("-inf"), float("inf"))
    assert found.to_dict() == {"value": 0.5, "low": None, "high": None, "count": 1}


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042)])
def test_students_quantile(freedom, quantile):
    assert student_quantile(freedom) == pytest.approx(quantile, abs=0.006)
