"""Cases: what is needed is found, or the case is refused."""

import pytest

from cupel import ContextBudget, ContextItem, InvalidBudgetError
from cupel.evaluation import Case, EvaluationError

ITEMS = [ContextItem("a", 1, metadata={"id": "first"}), ContextItem("b", 1), ContextItem("a", 1)]


@pytest.mark.parametrize(
    ("needed", "positions"),
    [(["first"], (0,)), ([2, 0, 2], (0, 2)), ([ITEMS[2], ITEMS[1]], (1, 2)), (["first", 1, ITEMS[2]], (0, 1, 2))],
)
def test_needs_are_ids_positions_or_items(needed, positions):
    assert Case(ITEMS, 3, needed).needed == positions


@pytest.mark.parametrize(
    ("needed", "message"),
    [
        (["second"], "needed[0] is not among the 3 items: 'second'"),
        ([0, 3], "needed[1] is not among the 3 items: 3"),
        ([-1], "needed[0] is not among the 3 items: -1"),
        ([ContextItem("b", 1)], "told apart by identity"),
        ([], "needed is empty"),
    ],
)
def test_needs_that_are_not_there_are_named(needed, message):
    with pytest.raises(EvaluationError, match=message.replace("[", r"\[")):
        Case(ITEMS, 3, needed)


def test_a_pool_without_ids_says_so():
    with pytest.raises(EvaluationError, match='no item has an "id"'):
        Case(ITEMS[1:], 3, ["first"])


@pytest.mark.parametrize("needed", ["first", [True], [1.0], [None], 5])
def test_needs_of_other_types_are_type_errors(needed):
    with pytest.raises(TypeError):
        Case(ITEMS, 3, needed)


def test_an_empty_query_is_refused_by_the_name_of_the_case():
    with pytest.raises(EvaluationError, match="case nine: query must not be empty"):
        Case(ITEMS, 3, [0], "  ", name="nine")


@pytest.mark.parametrize(
    "wrong", [{"items": 5}, {"items": ["a"]}, {"budget": "3"}, {"query": 5}, {"group": 5}, {"name": 5}]
)
def test_other_types_are_named(wrong):
    (name,) = wrong
    with pytest.raises(TypeError, match=name):
        Case(**{"items": ITEMS, "budget": 3, "needed": [0], **wrong})


def test_a_number_is_a_whole_window():
    assert Case(ITEMS, 3, [0]).budget == ContextBudget(3, 3)


def test_budgets_that_are_too_large_are_refused():
    with pytest.raises(InvalidBudgetError, match=r"max_tokens must be <= .* got an integer of 1329 bits"):
        Case(ITEMS, 10**400, [0])


def test_a_case_shows_itself_without_its_items():
    assert len(repr(Case(ITEMS * 1000, 3, [0], name="nine"))) < 200
