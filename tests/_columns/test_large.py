"""The orders of large pools: the same as those of small ones, by another way."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import isnan
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cupel import ContextBudget, ContextItem, GreedySlice, PriorityScorer, RecencyScorer, ScoredItem
from cupel._columns import Candidates, _bulk, _order, descending, descending_ratios, shares_below
from cupel.scorers._rank import rank_score, rank_scores

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
END = EPOCH + timedelta(seconds=2**32)
SECOND, MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)
EDGES = [EPOCH, EPOCH + MICROSECOND, END - MICROSECOND, END - SECOND]
OUTSIDE = [
    EPOCH - MICROSECOND,
    EPOCH - SECOND,
    END,
    END + MICROSECOND,
    EPOCH + timedelta(seconds=2**33, microseconds=1),
    EPOCH + timedelta(seconds=2**34, microseconds=1),
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
]
instants = st.sampled_from(EDGES) | st.builds(
    lambda seconds, fraction: EPOCH + timedelta(seconds=seconds, microseconds=fraction),
    st.integers(0, 2**32 - 1) | st.integers(2**30, 2**30 + 5),
    st.just(0) | st.integers(0, 999_999) | st.integers(0, 2),
)


@contextmanager
def large_from(count: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_order, "_WORTH_AN_IMPORT", count)
        patch.setattr(_order, "_WORTH_A_CONVERSION", count)
        yield


@pytest.fixture(autouse=True, scope="module")
def everything_is_large() -> Iterator[None]:
    with large_from(1):
        yield


@given(st.lists(st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, 0.5, 1.0]), max_size=80))
def test_descending_is_the_naive_order(keys: list[float]) -> None:
    naive = sorted(range(len(keys)), key=lambda i: (keys[i] != keys[i], -keys[i] if keys[i] == keys[i] else 0.0, i))
    assert descending(keys) == naive


@given(st.lists(instants, min_size=2, max_size=40))
@example([EPOCH + SECOND, EPOCH + SECOND - MICROSECOND])
@example([EPOCH + SECOND * number for number in range(15)])
@example([EPOCH + SECOND * number for number in range(16)])
@example([EPOCH + SECOND * number for number in range(40)])
def test_instants_are_counted_exactly(times: list[datetime]) -> None:
    assert shares_below(times) == [rank_score(time, times) for time in times]


@given(st.lists(instants, min_size=1, max_size=20), st.sampled_from(OUTSIDE), st.integers(0, 20))
def test_instants_that_do_not_fit_are_left_to_the_other_way(
    times: list[datetime], odd: datetime, position: int
) -> None:
    times.insert(position, odd)
    assert shares_below(times) is None
    assert rank_scores(times) == [rank_score(time, times) for time in times]


@given(st.lists(st.none() | st.integers(-3, 3) | st.integers(), max_size=40))
@example([2**63, 1, None])
@example([None, 5])
@example([None, None])
def test_priorities_of_any_size(priorities: list[int | None]) -> None:
    items = [ContextItem("x", 1, priority=priority) for priority in priorities]
    scorer = PriorityScorer()
    assert scorer.score_all(items) == [scorer.score(item, items) for item in items]
    assert rank_scores(priorities) == scorer.score_all(items)


@given(st.lists(st.none() | instants, max_size=40))
def test_recency_with_and_without_a_timestamp(times: list[datetime | None]) -> None:
    items = [ContextItem("x", 1, timestamp=time) for time in times]
    scorer = RecencyScorer()
    assert scorer.score_all(items) == [scorer.score(item, items) for item in items]


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3]),
            st.integers(1, 3) | st.integers(1, 2**70),
        ),
        min_size=1,
        max_size=60,
    )
)
@example([(0.1, 1), (float("nan"), 1)])
@example([(float("inf"), 1), (float("-inf"), 1)])
def test_ratios_are_those_of_python(pairs: list[tuple[float, int]]) -> None:
    dividends, divisors = map(list, zip(*pairs, strict=True))
    ratios = [dividend / divisor for dividend, divisor in pairs]
    assert descending_ratios(dividends, divisors) == descending(ratios)
    assert (_bulk.descending_ratios(dividends, divisors) is None) == any(map(isnan, ratios))


@given(
    st.lists(st.tuples(st.floats(allow_nan=True), st.integers(-1, 5)), max_size=40),
    st.integers(0, 60),
)
def test_greedy_choices(pairs: list[tuple[float, int]], target: int) -> None:
    scored = [ScoredItem(ContextItem("x", tokens), score) for score, tokens in pairs]
    candidates, budget = Candidates.of(scored), ContextBudget(60, target)
    large = GreedySlice().fit(candidates)(budget).chosen
    with large_from(10**9):
        assert large == GreedySlice().fit(candidates)(budget).chosen


@pytest.mark.parametrize("unit", [SECOND, MICROSECOND * 300_007])
@pytest.mark.parametrize("count", [2**16 - 1, 2**16, 2**16 + 1])
def test_really_large(count: int, unit: timedelta) -> None:
    random = Random(count)
    times = [EPOCH + unit * random.randrange(10 * count) for _ in range(count)]
    keys = [random.randrange(count) / count for _ in range(count)]
    large = shares_below(times), descending(keys)
    with large_from(10**9):
        assert large == (rank_scores(times), descending(keys))


def test_numpy_is_loaded_for_large_pools_and_used_earlier_when_it_is_there() -> None:
    code = (
        "import sys\n"
        "from cupel._columns import _order\n"
        "asked = [_order._is_large(count) for count in (9_999, 10_000, 49_999, 50_000)]\n"
        "_order.descending([0.5] * 49_999)\n"
        "before = 'numpy' in sys.modules\n"
        "_order.descending([0.5] * 50_000)\n"
        "after = 'numpy' in sys.modules\n"
        "print(asked, before, after, [_order._is_large(count) for count in (9_999, 10_000)])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[False, False, False, True] False True [False, True]"


def test_the_large_way_is_taken_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bulk, "descending", lambda keys: ["large", *keys])
    monkeypatch.setattr(_bulk, "shares_below", lambda values: ["large", *values])
    monkeypatch.setattr(_bulk, "descending_ratios", lambda dividends, _: ["large", *dividends])
    assert descending([0.5]) == ["large", 0.5]
    assert rank_scores([1, 2]) == ["large", 1, 2]
    assert GreedySlice().fit(Candidates([], [0.5], [1])).order == ["large", 0.5]
