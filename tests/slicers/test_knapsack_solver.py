"""The core solver against a literal transcription of the specification's table, ties included."""

import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cupel.slicers import _knapsack_core
from cupel.slicers._knapsack import _simplify, solve, table_cells
from cupel.slicers._knapsack_core import _relax, find_core


def naive(values, weights, capacity):
    """Fill the whole table row by row, keep strict improvements, and read it back from the last item."""
    best = [0] * (capacity + 1)
    keep = []
    for value, weight in zip(values, weights, strict=True):
        row = [False] * (capacity + 1)
        for room in range(capacity, weight - 1, -1):
            if best[room - weight] + value > best[room]:
                best[room] = best[room - weight] + value
                row[room] = True
        keep.append(row)
    chosen, room = [], capacity
    for i in reversed(range(len(values))):
        if keep[i][room]:
            chosen.append(i)
            room -= weights[i]
    return chosen[::-1]


def wide_table(values, weights, capacity):
    """The same table, one vector operation a row: affordable at full size."""
    best = np.zeros(capacity + 1, np.int64)
    keep = np.zeros((len(values), capacity + 1), bool)
    for i, (value, weight) in enumerate(zip(values, weights, strict=True)):
        better = best[: capacity + 1 - weight] + value
        keep[i, weight:] = better > best[weight:]
        best[weight:] = np.maximum(best[weight:], better)
    chosen, room = [], capacity
    for i in reversed(range(len(values))):
        if keep[i, room]:
            chosen.append(i)
            room -= weights[i]
    return chosen[::-1]


def random_instance(rng, *, most_items):
    """Few distinct values and weights, so that nearly every instance has several best subsets."""
    n = rng.randint(1, most_items)
    weights = [rng.randint(1, rng.choice((1, 2, 3, 5, 30))) for _ in range(n)]
    match rng.randrange(6):
        case 0:
            values = [3 * weight for weight in weights]
        case 1:
            values = [7 * weight - rng.randint(0, 1) for weight in weights]
        case 2:
            values = sorted((rng.randint(0, 4) for _ in range(n)), reverse=True)
        case _:
            largest = rng.choice((1, 2, 3, 5, 50, 10_000))
            values = [rng.randint(0, largest) for _ in range(n)]
    return values, weights, rng.randint(1, sum(weights))


@pytest.mark.parametrize(
    ("values", "weights", "capacity", "expected"),
    [
        pytest.param([], [], 5, [], id="nothing to choose from"),
        pytest.param([3, 1, 2], [1, 1, 1], 3, [0, 1, 2], id="all fit exactly"),
        pytest.param([3, 1, 2], [6, 7, 8], 5, [], id="none fits"),
        pytest.param([1], [5], 5, [0], id="single item that fits"),
        pytest.param([0, 0], [1, 1], 5, [], id="worthless items are left out although they fit"),
        pytest.param([0, 4, 0], [1, 1, 1], 1, [1], id="worthless items do not take room"),
        pytest.param([1, 2, 2, 1], [1, 1, 1, 1], 1, [1], id="capacity one: the first of the best"),
        pytest.param([5, 5, 5], [2, 2, 2], 5, [0, 1], id="equal items: the earlier ones"),
        pytest.param([2, 1, 1], [2, 1, 1], 2, [0], id="tie between one item and two: the last stays out"),
        pytest.param([1, 1, 2], [1, 1, 2], 2, [0, 1], id="the same tie, decided the other way round"),
        pytest.param([3, 3], [2, 1], 2, [0], id="of equal values the earlier, even if heavier"),
        pytest.param([60, 100, 120], [10, 20, 30], 50, [1, 2], id="greedy by density would be wrong"),
        pytest.param([10, 7, 7], [6, 5, 5], 10, [1, 2], id="common factors cannot be taken out"),
        pytest.param([10, 20, 30], [4, 6, 8], 15, [1, 2], id="common factors of values and weights"),
    ],
)
def test_small_cases(values, weights, capacity, expected):
    assert naive(values, weights, capacity) == expected
    assert solve(values, weights, capacity) == expected


def test_item_counts_must_agree():
    with pytest.raises(ValueError, match="shorter"):
        solve([1, 2], [1], 1)


@settings(max_examples=200, deadline=None)
@given(
    items=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=12),
    capacity=st.integers(1, 40),
)
def test_same_choice_as_the_table(items, capacity):
    values, weights = map(list, zip(*items, strict=True))
    assert solve(values, weights, capacity) == naive(values, weights, capacity)


@settings(max_examples=200, deadline=None)
@given(
    items=st.lists(
        st.tuples(st.one_of(st.integers(2**62, 2**63 - 1), st.integers(0, 9)), st.integers(1, 4)),
        min_size=1,
        max_size=12,
    ),
    capacity=st.integers(1, 20),
)
def test_huge_values_never_wrap(items, capacity):
    values, weights = map(list, zip(*items, strict=True))
    assert solve(values, weights, capacity) == naive(values, weights, capacity)


def test_densities_that_floats_cannot_tell_apart():
    """Both densities round to one double, so the float order is arbitrary and the exact comparison has to decide."""
    values = [2**62 + 1, 2**62, 2**62 + 3, 2**62 + 2]
    assert solve(values, [1, 1, 1, 1], 2) == naive(values, [1, 1, 1, 1], 2) == [2, 3]
    assert solve(values[::-1], [1, 1, 1, 1], 3) == naive(values[::-1], [1, 1, 1, 1], 3) == [0, 1, 3]


def test_products_beyond_64_bits():
    """Values and weights that fit in 64 bits while their products do not."""
    rng = random.Random(13)
    for _ in range(30):
        weights = [rng.randint(1, 2**14) for _ in range(12)]
        values = [weight * 2**46 + rng.randint(0, 2**48) for weight in weights]
        assert solve(values, weights, 40_000) == wide_table(values, weights, 40_000), (values, weights)


@pytest.mark.parametrize("small_core", [0, 1, 2, 4, 48])
def test_every_reduction_on_random_instances(monkeypatch, small_core):
    """A low threshold sends even tiny instances through the probe for a better subset."""
    monkeypatch.setattr(_knapsack_core, "_SMALL_CORE", small_core)
    rng = random.Random(small_core)
    for _ in range(2_000):
        values, weights, capacity = random_instance(rng, most_items=14)
        assert solve(values, weights, capacity) == naive(values, weights, capacity), (values, weights, capacity)


@pytest.mark.parametrize("small_core", [1, 48])
def test_every_reduction_with_values_beyond_64_bits(monkeypatch, small_core):
    monkeypatch.setattr(_knapsack_core, "_SMALL_CORE", small_core)
    rng = random.Random(7)
    for _ in range(300):
        values, weights, capacity = random_instance(rng, most_items=14)
        huge = [value * 2**58 + value % 3 for value in values]
        assert solve(huge, weights, capacity) == naive(huge, weights, capacity), (huge, weights, capacity)


def test_larger_instances_with_many_ties():
    rng = random.Random(11)
    for _ in range(150):
        values, weights, capacity = random_instance(rng, most_items=250)
        weights = [min(weight, capacity) for weight in weights]
        assert solve(values, weights, capacity) == wide_table(values, weights, capacity), (values, weights, capacity)


def pool(n, bucket, score, seed):
    """Token counts of 20 to 800 in buckets, scores as integer values, best score first as the pipeline sorts them."""
    rng = random.Random(seed)
    tokens = [rng.randint(20, 800) for _ in range(n)]
    scored = sorted(((score(rng, i / (n - 1), count), count) for i, count in enumerate(tokens)), reverse=True)
    return [int(value * 10_000) for value, _ in scored], [-(-count // bucket) for _, count in scored]


SCORES = {
    "uniform": lambda rng, rank, tokens: rng.random(),
    "five levels": lambda rng, rank, tokens: rng.choice((0.2, 0.4, 0.6, 0.8, 1.0)),
    "recency": lambda rng, rank, tokens: rank,
    "proportional to tokens": lambda rng, rank, tokens: tokens / 800,
    "all equal": lambda rng, rank, tokens: 0.5,
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("n", "capacity", "bucket"), [(1_000, 1_280, 100), (300, 8_000, 1)])
def test_full_size_pools(n, capacity, bucket, score):
    values, weights = pool(n, bucket, SCORES[score], seed=1)
    assert solve(values, weights, capacity) == wide_table(values, weights, capacity)


@pytest.mark.parametrize(
    ("score", "n", "capacity", "bucket", "most_items", "most_cells"),
    [
        ("uniform", 5_000, 1_280, 100, 30, 1_000),
        ("five levels", 5_000, 1_280, 100, 600, 500_000),
        ("recency", 1_000, 8_000, 1, 60, 200_000),
        ("proportional to tokens", 5_000, 1_280, 100, 120, 30_000),
        ("uniform", 500, 100_000, 1, 60, 1_000_000),
    ],
)
def test_the_core_is_small(score, n, capacity, bucket, most_items, most_cells):
    """The reductions are what makes it fast: they leave a few items out of hundreds, and little room for them."""
    for seed in range(5):
        values, weights = pool(n, bucket, SCORES[score], seed)
        _, *problem = _simplify(values, weights, capacity)
        _, core = find_core(*problem)
        assert len(core) <= most_items
        assert table_cells(values, weights, capacity) <= most_cells


def test_the_relaxation_of_a_small_pool():
    """Break item 2 sets the price of 4; the first two items and the last one make a subset of value 161.

    The surpluses are 60-40, 100-80, 120-120 and 1-60; the bound is 4*50 + 20 + 20.
    """
    relaxation = _relax([60, 100, 120, 1], [10, 20, 30, 15], 50)
    assert relaxation.loss.tolist() == [20, 20, 0, 59]
    assert relaxation.inside.tolist() == [True, True, False, False]
    assert (relaxation.scale, relaxation.bound, relaxation.known) == (1, 240, 161)


def test_the_relaxation_of_a_tie():
    """Price 3 for 2 units: the bound is 9/2, and a value of 3 is known."""
    relaxation = _relax([3, 3], [2, 2], 3)
    assert relaxation.loss.tolist() == [0, 0]
    assert relaxation.inside.tolist() == [False, False]
    assert (relaxation.scale, relaxation.bound, relaxation.known) == (2, 9, 3)


def test_the_core_shares_the_room_that_decided_items_leave():
    """Of 50 units the two items inside take 30; a core that contains one of them has its 20 back."""
    relaxation = _relax([60, 100, 120, 1], [10, 20, 30, 15], 50)
    assert [relaxation.room(np.array(core)) for core in ([2], [1, 2], [0, 1, 2])] == [20, 40, 50]


def test_identical_items_are_taken_from_the_first():
    assert solve([6] * 200, [3] * 200, 233) == list(range(77))


def test_the_table_ends_at_the_bound(monkeypatch):
    """Values proportional to weights: once some subset fills the capacity, no later row is run."""
    rows = []

    class CountedNumPy:
        def __getattr__(self, name):
            return getattr(np, name)

        def maximum(self, *args, **kwargs):
            rows.append(args)
            return np.maximum(*args, **kwargs)

    rng = random.Random(3)
    weights = [rng.randint(200, 800) for _ in range(400)]
    values = [3 * weight for weight in weights]
    monkeypatch.setattr(_knapsack_core, "np", CountedNumPy())
    assert solve(values, weights, 8_000) == wide_table(values, weights, 8_000)
    assert len(rows) < 60


def test_no_cells_when_everything_fits():
    assert table_cells([5, 0, 7], [1, 9, 1], 2) == 0
    assert table_cells([5, 4, 7], [3, 2, 2], 4) > 0


def test_what_needs_no_table_needs_no_numpy():
    code = "import sys; from cupel.slicers._knapsack import solve; solve([1], [1], 1); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cupel.slicers._knapsack" in done.stdout.split()
    assert "numpy" not in done.stdout.split()
