"""Intervals cover what they claim to cover, and the same seed gives the same ones."""

import random

import pytest

from cupel.evaluation._intervals import estimates, mean_and_error, student_quantile


def one(values, seed=0):
    return estimates([(values, [1.0] * len(values))], seed=seed)[0]


@pytest.mark.parametrize(("count", "chance"), [(15, 0.5), (40, 0.75), (100, 0.8)])
def test_ninety_five_of_a_hundred_intervals_hold_the_truth(count, chance):
    """Shares of needed items as they are in practice: of one, two or three needs a case, each kept by chance."""
    draw = random.Random(count)
    rounds, held = 300, 0
    for seed in range(rounds):
        shares = []
        for _ in range(count):
            needs = draw.choice((1, 1, 2, 3))
            shares.append(sum(draw.random() < chance for _ in range(needs)) / needs)
        estimate = one(shares, seed)
        held += estimate.low <= chance <= estimate.high
    # 95 % of 300 is 285, with a standard deviation of 3.8.
    assert 273 <= held <= 297


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


def test_the_standard_error_of_one_value_is_not_known():
    assert mean_and_error([3.0]) == (3.0, float("inf"))
