"""Columns of scored items, the shared orders, and finding items by identity."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import ContextItem, ScoredItem, StrategyContractError
from cupel._internal.columns import Candidates, ascending, descending, positions_of

ITEM = ContextItem("x", 3)


def test_columns_and_back() -> None:
    scored = [ScoredItem(ITEM, 0.5), ScoredItem(ContextItem("y", 4), 0.25)]
    columns = Candidates.of(iter(scored))
    assert (columns.scores, columns.tokens, len(columns)) == ([0.5, 0.25], [3, 4], 2)
    assert columns.scored() == scored
    assert columns.at([1]).items[0] is scored[1].item
    assert columns.at([]) == Candidates([], [], [])
    assert columns.at([1]) == Candidates.of(scored[1:])
    assert columns.at([1, 0]) == Candidates.of(reversed(scored))


@given(st.lists(st.integers(0, 4), unique=True))
def test_a_selection_holds_what_its_positions_hold(positions: list[int]) -> None:
    whole = Candidates.of([ScoredItem(ContextItem("x", number), number / 8) for number in range(5)])
    found = whole.at(positions)
    assert [id(item) for item in found.items] == [id(whole.items[position]) for position in positions]
    assert (found.tokens, found.scores) == (positions, [position / 8 for position in positions])


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ([], []),
        ([0.1, 0.9, 0.1], [1, 0, 2]),
        ([0.0, -0.0, 0.0], [0, 1, 2]),
        ([float("nan"), 1.0, float("-inf"), float("nan"), float("inf")], [4, 1, 2, 0, 3]),
        ([float("-inf"), float("inf"), 0.0], [1, 2, 0]),
    ],
)
def test_descending(keys: list[float], order: list[int]) -> None:
    assert descending(keys) == order


@given(st.lists(st.floats(allow_nan=True) | st.sampled_from([0.0, 0.5, 1.0])))
def test_descending_is_the_naive_order(keys: list[float]) -> None:
    naive = sorted(range(len(keys)), key=lambda i: (keys[i] != keys[i], -keys[i] if keys[i] == keys[i] else 0.0, i))
    assert descending(keys) == naive


@given(st.lists(st.none() | st.datetimes(timezones=st.just(UTC)) | st.just(datetime(2025, 1, 1, tzinfo=UTC))))
def test_ascending_is_the_naive_order_of_what_there_is(keys: list[datetime | None]) -> None:
    present = [position for position, key in enumerate(keys) if key is not None]
    assert ascending(keys) == sorted(present, key=lambda position: (keys[position], position))


def test_positions_are_found_by_identity_in_order() -> None:
    twin = ContextItem("x", 3)
    items = [ITEM, twin, ITEM]
    assert positions_of([ITEM, twin, ITEM], items, "S", "slice") == [0, 1, 2]


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ([ContextItem("x", 3)], "S broke its contract: slice returned an item it was not given"),
        ([ITEM, ITEM], "slice returned an item more often than it was given"),
        (None, "slice must return a list of items, got None"),
        ([None], "slice returned an item it was not given: None"),
    ],
)
def test_foreign_and_surplus_items_are_named(returned: list[ContextItem], says: str) -> None:
    with pytest.raises(StrategyContractError, match=says):
        positions_of(returned, [ITEM], "S", "slice")
