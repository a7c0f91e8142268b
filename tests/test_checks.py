"""Arguments are checked, and values shown in messages, one way everywhere."""

import math
from enum import IntEnum, StrEnum
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import (
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    InvalidBudgetError,
    InvalidItemError,
    KnapsackSlice,
    QuotaEntry,
    StreamSlice,
)
from cupel._internal.checks import as_finite, as_integer, as_number, as_tuple, shown
from cupel.errors import BudgetOverflowError, PinnedExceedsBudgetError, TableTooLargeError


class Level(IntEnum):
    HIGH = 3


class Colour(StrEnum):
    RED = "red"


class Rude:
    def __repr__(self):
        raise RuntimeError


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**7,
        b"x" * 10**7,
        10**5000,
        list(range(10**6)),
        {str(n): n for n in range(10**5)},
        nested(100_000),
        Rude(),
        np.arange(10**6),
        ContextItem("x" * 10**7, 1),
        ContextItem("x", 1, metadata={"deep": nested(10**5)}),
        {"a": {10**5000}},
        "\n" * 1000,
        {3, 1, 2},
        frozenset("ab"),
    ],
    ids=range(14),
)
def test_any_value_is_shown_on_one_short_line(value) -> None:
    text = shown(value)
    assert 0 < len(text) <= 200
    assert "\n" not in text


def test_small_values_are_shown_whole() -> None:
    for value in (True, 1.5, "it's", [1, 2], {"a": None}, (1,), Level.HIGH, 10**70, -3):
        assert shown(value) == repr(value)
    assert shown({3, 1, 2}) == "{1, 2, 3}"  # in order, whatever the hashes are


@given(st.recursive(st.none() | st.integers() | st.text(), lambda each: st.lists(each) | st.sets(st.text())))
def test_showing_never_fails(value) -> None:
    assert len(shown(value)) <= 200


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), Level.HIGH])
def test_integers_of_any_type_become_plain(value) -> None:
    for taken in (
        as_integer("n", value),
        ContextItem("x", value).tokens,
        ContextItem("x", 1, priority=value).priority,
        ContextBudget(value, value).max_tokens,
        ContextBudget(9, 9, reserved_slots={"Memory": value}).reserved_slots[ContextItem("x", 1, kind="Memory").kind],
        CountQuotaEntry("Message", value, value).require_count,
        CountQuotaEntry("Message", value, value).cap_count,
        KnapsackSlice(value).bucket_size,
        KnapsackSlice(max_cells=value).max_cells,
        StreamSlice(value).batch_size,
    ):
        assert type(taken) is int
        assert taken == 3


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.int16(3), Fraction(3)])
def test_numbers_of_any_type_become_plain(value) -> None:
    for taken in (
        as_number("x", value),
        ContextItem("x", 1, future_relevance_hint=value).future_relevance_hint,
        QuotaEntry("Message", require=value).require,
        QuotaEntry("Message", cap=value).cap,
        ContextBudget(9, 9, estimation_safety_margin_percent=value).estimation_safety_margin_percent,
    ):
        assert type(taken) is float
        assert taken == 3.0


@pytest.mark.parametrize("value", [True, 3.0, "3", None, np.float64(3), np.True_, [3]])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("tokens", lambda value: ContextItem("x", value)),
        ("max_tokens", lambda value: ContextBudget(value, 1)),
        ("require_count", lambda value: CountQuotaEntry("Message", value, 4)),
        ("bucket_size", KnapsackSlice),
        ("batch_size", StreamSlice),
    ],
)
def test_nothing_else_is_an_integer(name, call, value) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be an integer.*, got {type(value).__name__}: "):
        call(value)


@pytest.mark.parametrize("value", [True, 3.0, "3", np.float64(3), [3]])
def test_a_cap_is_an_integer_or_none(value) -> None:
    assert CountQuotaEntry("Message", 1, None).cap_count is None
    with pytest.raises(TypeError, match=f"^cap_count must be an integer, got {type(value).__name__}: "):
        CountQuotaEntry("Message", 1, value)


def test_strings_of_any_type_become_plain() -> None:
    item = ContextItem(np.str_("x"), 1, kind=Colour.RED, tags=np.array(["x", "y"]), metadata={np.str_("k"): 1})
    assert item.tags == ("x", "y")
    assert {type(text) for text in (item.content, item.kind.value, *item.tags, *item.metadata)} == {str}
    with pytest.raises(TypeError, match="tags must be an iterable of strings, got ndarray: array"):
        ContextItem("x", 1, tags=np.array("x"))
    with pytest.raises(TypeError, match=r"tags\[0\] must be a string, got int64: "):
        ContextItem("x", 1, tags=np.array([1]))


def test_huge_integers_are_named_not_written() -> None:
    huge = 10**5000
    assert "an integer of 16610 bits" in str(PinnedExceedsBudgetError(huge, 1))
    assert "an integer of 16610 bits" in str(BudgetOverflowError(huge, 1))
    assert "an integer of 16610 bits" in str(TableTooLargeError(1, huge, huge, 2))
    with pytest.raises(InvalidBudgetError, match="target_tokens must be <= 9007199254740992, got an integer of"):
        ContextBudget(1, huge)
    with pytest.raises(InvalidItemError, match="future_relevance_hint must fit a double, got an integer of"):
        ContextItem("x", 1, future_relevance_hint=huge)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, 101])
def test_a_bounded_number_is_finite_and_within(value) -> None:
    with pytest.raises(ValueError, match=f"share must be from 0 to 100, got {value}"):
        as_finite("share", value, least=0, most=100)


def test_one_string_is_no_list_of_strings() -> None:
    with pytest.raises(TypeError, match=r"names must be an iterable of str, got one string: 'ab'; .*\['ab'\]"):
        as_tuple("names", "ab", str)


def test_a_list_of_a_string_is_not_suggested_for_items() -> None:
    with pytest.raises(TypeError, match=r"items must be an iterable of ContextItem, got one string: 'ab'$"):
        as_tuple("items", "ab", ContextItem)
