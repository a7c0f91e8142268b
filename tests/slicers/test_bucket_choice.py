"""The automatic bucket: as fine as the work allows, and never worth less than greedy or buckets of 100."""

import math
import random

import pytest

from cupel.slicers import _knapsack
from cupel.slicers._knapsack import finest_bucket, solve, solve_finest, table_cells


def in_buckets(values, tokens, target, bucket):
    return solve(values, [math.ceil(count / bucket) for count in tokens], target // bucket)


def by_density(scores, tokens, target):
    chosen = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i] / tokens[i], i)):
        if tokens[i] <= target:
            chosen.append(i)
            target -= tokens[i]
    return chosen


def scaled(scores):
    return [max(0, math.floor(score * 10_000)) for score in scores]


def random_pool(rng):
    n, largest = rng.randint(1, 80), rng.choice((30, 100, 800, 3_000))
    levels = rng.choice(((0.2, 0.4, 0.6, 0.8, 1.0), (0.00005, 0.00012), None))
    scores = [rng.choice(levels) if levels else rng.random() for _ in range(n)]
    tokens = [rng.randint(1, largest) for _ in range(n)]
    return scores, tokens, rng.randint(1, sum(tokens))


def test_never_worth_less_than_greedy_or_the_default_bucket():
    rng = random.Random(5)
    better = 0
    for _ in range(1_000):
        scores, tokens, target = random_pool(rng)
        values, greedy = scaled(scores), by_density(scores, tokens, target)
        chosen = solve_finest(scores, values, tokens, target, greedy)
        rivals = [greedy, in_buckets(values, tokens, target, 100)]
        worth, *others = (math.fsum(scores[i] for i in positions) for positions in (chosen, *rivals))
        assert sum(tokens[i] for i in chosen) <= target
        assert chosen == sorted(set(chosen))
        assert worth >= max(others)
        better += worth > max(others)
    assert better > 100  # where there is something to gain, it gains


def test_an_ordinary_pool_is_solved_token_by_token():
    rng = random.Random(2)
    tokens = [rng.randint(20, 800) for _ in range(1_000)]
    scores = sorted((rng.random() for _ in tokens), reverse=True)
    values = scaled(scores)
    assert finest_bucket(values, tokens, 128_000) == 1
    greedy = by_density(scores, tokens, 128_000)
    assert solve_finest(scores, values, tokens, 128_000, greedy) == in_buckets(values, tokens, 128_000, 1)


@pytest.mark.parametrize(
    ("bucket", "weights"),
    [(1, [1, 999]), (2, [1, 500]), (5, [1, 200]), (10, [1, 100]), (20, [1, 50]), (50, [1, 20]), (100, None)],
)
def test_the_first_bucket_with_a_small_table_is_chosen(monkeypatch, bucket, weights):
    asked = []

    def cells(values, weights, capacity):
        asked.append((weights, capacity))
        return 4_000_000 if capacity == 40_099 // bucket else 4_000_001

    monkeypatch.setattr(_knapsack, "table_cells", cells)
    assert finest_bucket([1, 1], [1, 999], 40_099) == bucket
    if weights:
        assert asked[-1] == (weights, 40_099 // bucket)


def test_a_large_table_calls_for_coarser_buckets():
    """Scores proportional to tokens leave hardly anything decided: the hard case of every knapsack."""
    rng = random.Random(8)
    tokens = [rng.randint(20, 800) for _ in range(1_500)]
    values = [count * 25 // 2 for count in tokens]
    assert table_cells(values, tokens, 128_000) > 4_000_000
    assert 1 < finest_bucket(values, tokens, 128_000) < 100


def test_rows_stay_small_however_large_the_budget():
    assert finest_bucket([3, 2], [9_000_000, 9_000_000], 10_000_000) == 5


def test_scores_too_small_for_the_knapsack_are_left_to_greedy():
    """Under 0.0001 every value is 0 and the knapsack takes nothing."""
    assert solve_finest([0.00009, 0.00008], [0, 0], [60, 60], 100, greedy=[0]) == [0]


def test_rounding_cannot_make_it_worse():
    """Both values round down to 1 and the tie goes to the earlier item; only the sums tell which is worth more."""
    assert in_buckets([1, 1], [100, 100], 100, 1) == [0]
    assert solve_finest([0.00011, 0.00019], [1, 1], [100, 100], 100, greedy=[1]) == [1]


def test_on_equal_sums_the_finest_bucket_decides():
    assert solve_finest([0.5, 0.5], [5_000, 5_000], [60, 60], 100, greedy=[1]) == [0]


def test_buckets_of_100_count_when_the_search_ends_there(monkeypatch):
    monkeypatch.setattr(_knapsack, "MOST_CELLS", -1)
    assert solve_finest([0.9, 0.5], [9_000, 5_000], [150, 100], 200, greedy=[1]) == [0]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([math.inf, 0.9], [0]),  # saturated value
        ([math.nan, 0.9], [1]),
        ([-math.inf, 0.9], [1]),
        ([1e308, 1e308], [0]),
    ],
)
def test_scores_that_do_not_add_up(scores, expected):
    values = [2**63 - 1 if score > 1e300 else 9_000 if score > 0 else 0 for score in scores]
    assert solve_finest(scores, values, [60, 60], 100, greedy=[expected[0]]) == expected


def test_infinite_scores_outweigh_any_finite_sum():
    assert solve_finest([math.inf, 1e308, 1e308], [1, 1, 1], [90, 10, 10], 100, greedy=[0, 1]) == [0, 1]
    assert solve_finest([0.1, -math.inf], [1_000, 0], [60, 10], 100, greedy=[0, 1]) == [0]
