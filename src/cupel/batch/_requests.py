"""Items and budgets as they stand in a request, and what is wrong with them."""

from __future__ import annotations

from functools import lru_cache
from math import isnan

from cupel._checks import shown
from cupel._wire import ITEM, budget_of
from cupel.errors import CupelError
from cupel.model import ContextBudget, ContextItem


def read_item(form: object, position: int) -> ContextItem:
    """Build one item from its JSON form; the error names the item."""
    try:
        return ITEM.read(form)
    except (CupelError, TypeError, ValueError) as error:
        raise ValueError(f"items[{position}]: {explained(error)}") from None


def read_budget(form: object, shared: ContextBudget | None) -> ContextBudget:
    """Build the budget of a request: an object, a number of tokens, or nothing where all requests share one."""
    if isinstance(form, float):  # what pandas makes of integers where some are missing
        form = None if isnan(form) else int(form) if form.is_integer() else form
    if form is None:
        if shared is None:
            raise ValueError("budget is missing, and the requests share none")
        return shared
    if isinstance(form, float):
        raise TypeError(f"budget must be a whole number of tokens, got {shown(form)}")
    try:
        return _window(form) if type(form) is int else budget_of(form)
    except (CupelError, TypeError, ValueError) as error:
        raise ValueError(f"budget: {explained(error)}") from None


@lru_cache(maxsize=64)
def _window(tokens: int) -> ContextBudget:
    """Build the budget of a number once: most requests of a file have the same."""
    return budget_of(tokens)


def explained(error: BaseException) -> str:
    """Say what is wrong in one line; only errors nobody expected need their class."""
    if isinstance(error, (CupelError, TypeError, ValueError)):
        return str(error)
    return f"{type(error).__name__}: {error}"
