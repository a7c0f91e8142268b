"""Budgets: every rule, and what they derive."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from cupel import ContextBudget, ContextKind, InvalidBudgetError

NAN = float("nan")
INF = float("inf")


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"max_tokens": -1}, InvalidBudgetError, "max_tokens must be >= 0, got -1"),
        ({"max_tokens": 2**53 + 1}, InvalidBudgetError, "max_tokens must be <= 9007199254740992, got 9007199254740993"),
        ({"reserved_slots": {"Tool": 10**30}}, InvalidBudgetError, "must be <= 9007199254740992, got 10000"),
        ({"target_tokens": -1}, InvalidBudgetError, "target_tokens must be >= 0, got -1"),
        ({"target_tokens": 101}, InvalidBudgetError, "target_tokens must not exceed max_tokens=100, got 101"),
        ({"output_reserve": -1}, InvalidBudgetError, "output_reserve must be >= 0, got -1"),
        ({"output_reserve": 101}, InvalidBudgetError, "output_reserve must not exceed max_tokens=100, got 101"),
        ({"reserved_slots": {"Tool": -1}}, InvalidBudgetError, r"reserved_slots\['Tool'\] must be >= 0, got -1"),
        ({"reserved_slots": {"a": 1, "A": 2}}, InvalidBudgetError, "reserved_slots: 'a' and 'A' are the same kind"),
        ({"reserved_slots": {" ": 1}}, InvalidBudgetError, "reserved_slots: kind must not be blank"),
        ({"estimation_safety_margin_percent": -0.1}, InvalidBudgetError, "from 0 to 100, got -0.1"),
        ({"estimation_safety_margin_percent": 100.5}, InvalidBudgetError, "from 0 to 100, got 100.5"),
        ({"estimation_safety_margin_percent": NAN}, InvalidBudgetError, "from 0 to 100, got nan"),
        ({"estimation_safety_margin_percent": INF}, InvalidBudgetError, "from 0 to 100, got inf"),
        ({"max_tokens": 100.0}, TypeError, "max_tokens must be an integer, got float"),
        ({"max_tokens": True}, TypeError, "max_tokens must be an integer, got bool"),
        ({"target_tokens": "5"}, TypeError, "target_tokens must be an integer, got str"),
        ({"output_reserve": None}, TypeError, "output_reserve must be an integer, got NoneType"),
        ({"reserved_slots": {"Tool": 1.5}}, TypeError, r"reserved_slots\['Tool'\] must be an integer"),
        ({"reserved_slots": [1]}, TypeError, "reserved_slots must be a mapping, got list"),
        ({"estimation_safety_margin_percent": "5"}, TypeError, "must be a number, got str"),
        ({"estimation_safety_margin_percent": True}, TypeError, "must be a number, got bool"),
    ],
)
def test_every_rule(fields: dict[str, object], error: type[Exception], says: str) -> None:
    given = {"max_tokens": 100, "target_tokens": 50, **fields}
    with pytest.raises(error, match=says):
        ContextBudget(given.pop("max_tokens"), given.pop("target_tokens"), **given)  # type: ignore[arg-type]


def test_the_limits_themselves_are_legal() -> None:
    budget = ContextBudget(0, 0, output_reserve=0, estimation_safety_margin_percent=100)
    assert budget.estimation_safety_margin_percent == 100.0
    assert ContextBudget(100, 100, output_reserve=100).output_reserve == 100


@pytest.mark.parametrize("margin", [0, -0.0, 0.0, 100, 100.0])
def test_margins_at_the_ends_are_legal_and_floats(margin: float) -> None:
    found = ContextBudget(1, 1, estimation_safety_margin_percent=margin).estimation_safety_margin_percent
    assert (found, type(found)) == (margin, float)


def test_numbers_that_are_all_of_one_wrong_type_are_refused() -> None:
    for wrong in (True, 5.0):
        with pytest.raises(TypeError, match="max_tokens must be an integer"):
            ContextBudget(wrong, wrong, output_reserve=wrong)  # type: ignore[arg-type]


class Count(int):
    pass


@pytest.mark.parametrize("other", [Count, np.int64, np.uint16])
def test_integers_of_other_types_become_plain_ones_within_the_same_limits(other: type[Any]) -> None:
    assert ContextBudget(other(0), 0).max_tokens == 0
    budget = ContextBudget(other(9), other(9), output_reserve=other(9), reserved_slots={"Tool": other(9)})
    numbers = (budget.max_tokens, budget.target_tokens, budget.output_reserve, *budget.reserved_slots.values())
    assert [(type(number), number) for number in numbers] == [(int, 9)] * 4
    with pytest.raises(InvalidBudgetError, match="target_tokens must not exceed max_tokens=9, got 10"):
        ContextBudget(other(9), other(10))


def test_a_margin_of_another_type_becomes_a_float() -> None:
    budget = ContextBudget(1, 1, estimation_safety_margin_percent=np.float32(12.5))  # type: ignore[arg-type]
    assert (type(budget.estimation_safety_margin_percent), budget.estimation_safety_margin_percent) == (float, 12.5)


def test_slots_may_be_empty_or_zero_and_are_never_the_callers_own() -> None:
    assert ContextBudget(5, 5, reserved_slots={"Tool": 0}).total_reserved == 0
    given: dict[str, int] = {}
    budget = ContextBudget(5, 5, reserved_slots=given)
    given["Tool"] = 3
    assert (budget.total_reserved, budget.reserved_slots) == (0, {})


def test_reserved_slots_are_kept_by_kind_and_frozen() -> None:
    budget = ContextBudget(100, 50, reserved_slots={"Tool": 10, ContextKind("Memory"): 5})  # type: ignore[dict-item]
    assert budget.reserved_slots[ContextKind("TOOL")] == 10
    with pytest.raises(TypeError):
        budget.reserved_slots[ContextKind("x")] = 1  # type: ignore[index]


def test_derived_numbers() -> None:
    budget = ContextBudget(100, 50, output_reserve=60, reserved_slots={"a": 30, "b": 20})
    assert (budget.total_reserved, budget.unreserved_capacity, budget.has_capacity) == (110, -10, False)
    assert ContextBudget(10, 5, output_reserve=9).has_capacity
    assert not ContextBudget(10, 5, output_reserve=10).has_capacity


def test_extended_moves_both_ends() -> None:
    budget = ContextBudget(100, 50, output_reserve=10, reserved_slots={"a": 1}, estimation_safety_margin_percent=5)
    larger = budget.extended(7)
    assert (larger.max_tokens, larger.target_tokens) == (107, 57)
    assert larger.extended(-7) == budget


def test_equality_hash_and_pickle() -> None:
    budget = ContextBudget(100, 50, output_reserve=10, reserved_slots={"a": 1}, estimation_safety_margin_percent=5)
    twin = pickle.loads(pickle.dumps(budget))
    assert twin == budget
    assert hash(twin) == hash(budget)
    assert budget != ContextBudget(100, 50)


def test_what_is_held_back_is_said_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        ContextBudget(100, 80, 10)  # type: ignore[misc]


@pytest.mark.parametrize("margin", [0.0, 0, float("0"), -0.0, np.float64(0)])
def test_the_repr_leaves_out_defaults_however_they_were_given(margin):
    budget = ContextBudget(10, 5, output_reserve=0, reserved_slots={}, estimation_safety_margin_percent=margin)
    assert repr(budget) == "ContextBudget(max_tokens=10, target_tokens=5)"


def test_an_integer_is_a_window_that_is_used_whole():
    budget = ContextBudget(10, 5)
    assert ContextBudget.of(budget) is budget
    assert ContextBudget.of(np.int64(7)) == ContextBudget(7, 7)
    with pytest.raises(TypeError, match=r"^limit must be a ContextBudget or an integer, got str: '7'$"):
        ContextBudget.of("7", name="limit")  # type: ignore[arg-type]
    with pytest.raises(InvalidBudgetError, match=r"^budget must be >= 0, got -7$"):
        ContextBudget.of(-7)


def test_the_target_is_the_whole_window_unless_it_is_given() -> None:
    assert ContextBudget(2000) == ContextBudget(2000, 2000)
    assert ContextBudget(2000, output_reserve=100).target_tokens == 2000
