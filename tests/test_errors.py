"""The error tree: families, attributes, messages, pickling."""

from __future__ import annotations

import pickle

import pytest

import cupel
from cupel import errors


@pytest.mark.parametrize(
    ("error", "families", "says"),
    [
        (errors.InvalidItemError("m"), (errors.CupelError, ValueError), "m"),
        (errors.InvalidBudgetError("m"), (errors.CupelError, ValueError), "m"),
        (errors.ScorerConfigError("m"), (errors.ConfigurationError, ValueError), "m"),
        (errors.SlicerConfigError("m"), (errors.ConfigurationError, ValueError), "m"),
        (errors.PipelineConfigError("m"), (errors.ConfigurationError, ValueError), "m"),
        (errors.PolicyConfigError("m"), (errors.ConfigurationError, ValueError), "m"),
        (errors.ReportFormatError("m"), (errors.CupelError, ValueError), "m"),
        (
            errors.PinnedExceedsBudgetError(9, 5),
            (errors.SelectionError,),
            "Pinned items require 9 tokens, but only 5 are available",
        ),
        (
            errors.BudgetOverflowError(9, 5),
            (errors.SelectionError,),
            "Selected items require 9 tokens, exceeding target budget of 5",
        ),
        (
            errors.TableTooLargeError(2, 10, 22, 20),
            (errors.SelectionError,),
            (
                "KnapsackSlice: 2 candidates x (10 + 1) capacity steps = 22 cells, more than max_cells=20; "
                "use a larger bucket_size, or max_cells=None to lift the guard"
            ),
        ),
        (
            errors.ScarcityError("CountQuotaSlice", "Tool", 1, 2),
            (errors.SelectionError,),
            "CountQuotaSlice: candidate pool for kind 'Tool' has 1 items but RequireCount is 2.",
        ),
        (
            errors.BudgetWarning(900, 1000, 500),
            (errors.CupelWarning, UserWarning),
            (
                "Selected items require 900 tokens, but the window of 1000 leaves 500 after the output reserve; "
                "ContextBudget(1000, 500, output_reserve=500) with OverflowStrategy.THROW or "
                "TRUNCATE does not allow that"
            ),
        ),
        (
            errors.BudgetWarning(160, 100, 0),
            (errors.CupelWarning,),
            (
                "Selected items require 160 tokens, but the window holds 100; "
                "ContextBudget(100, 100) with OverflowStrategy.THROW or TRUNCATE does not allow that"
            ),
        ),
        (errors.ConfigurationWarning("m"), (errors.CupelWarning, UserWarning), "m"),
        (errors.StrategyContractError("S", "b"), (errors.SelectionError,), "S broke its contract: b"),
        (
            errors.MissingExtraError("rich", "cli"),
            (errors.CupelError, ImportError),
            "rich is not installed; install it with: pip install 'cupel-context[cli]'",
        ),
    ],
)
def test_each_error(error: errors.CupelError, families: tuple[type[Exception], ...], says: str) -> None:
    assert all(isinstance(error, family) for family in families)
    twin = pickle.loads(pickle.dumps(error))
    for found in (error, twin):
        assert type(found) is type(error)
        assert str(found) == says
        assert vars(found) == vars(error)


def test_the_tree_is_complete_and_at_the_top_level() -> None:
    public = {name for name in dir(errors) if isinstance(getattr(errors, name), type)}
    assert public == set(errors.__all__)
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), (errors.CupelError, errors.CupelWarning))
        assert getattr(cupel, name) is getattr(errors, name)
