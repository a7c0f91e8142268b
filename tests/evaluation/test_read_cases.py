"""Cases are read from files: each brings a budget, or has the one that all share."""

import json

import pytest

from cupel import ContextBudget
from cupel.evaluation import EvaluationError, read_cases

ROW = {"items": [{"content": "The gate is B12.", "tokens": 6}], "needed": [0]}


@pytest.fixture
def read(tmp_path):
    def reader(*budgets, **options):
        lines = (json.dumps({**ROW, "budget": budget}) for budget in budgets)
        path = tmp_path / "cases.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        return [case.budget for case in read_cases(path, **options)]

    return reader


def test_a_budget_is_an_object_a_number_or_that_of_all(read):
    budgets = read({"maxTokens": 90, "targetTokens": 50}, 20, None, budget=30)
    assert budgets == [ContextBudget(90, 50), ContextBudget(20, 20), ContextBudget(30, 30)]


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (True, "a budget must be an object, got bool"),
        ("20", "a budget must be an object, got str: '20'"),
        ({"maxTokens": 90}, "target_tokens is missing"),
        (None, "budget is missing, and none is given for all cases"),
    ],
)
def test_other_budgets_are_refused_by_their_line(read, budget, says):
    with pytest.raises(EvaluationError, match=rf"cases.jsonl:2: {says}"):
        read(20, budget)
