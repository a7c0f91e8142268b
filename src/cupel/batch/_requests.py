"""Items and budgets as they stand in a request, and the values they become."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from cupel.errors import CupelError
from cupel.model import ContextBudget, ContextItem

ITEM_FIELDS: Final = ContextItem.__struct_fields__
BUDGET_FIELDS: Final = ContextBudget.__struct_fields__
SPELLINGS: Final = {
    spelling: name
    for name in (*ITEM_FIELDS, *BUDGET_FIELDS)
    for spelling in (name, name.split("_")[0] + "".join(word.capitalize() for word in name.split("_")[1:]))
}
"""Field names in both spellings: `original_tokens` and `originalTokens`."""


def read_item(form: object, position: int) -> ContextItem:
    """Build one item from its JSON form; the error names the item."""
    try:
        fields = _named(form, ITEM_FIELDS, "an item")
        timestamp = fields.get("timestamp")
        if isinstance(timestamp, str):
            fields["timestamp"] = as_datetime(timestamp)
        return ContextItem(**fields)
    except (CupelError, TypeError, ValueError) as error:
        msg = f"items[{position}]: {explained(error)}"
        raise ValueError(msg) from None


def read_budget(form: object, shared: ContextBudget | None) -> ContextBudget:
    """Build the budget of a request: an object, a number of tokens, or nothing where all requests share one."""
    if form is None:
        if shared is None:
            msg = "budget is missing, and the requests share none"
            raise ValueError(msg)
        return shared
    if isinstance(form, int) and not isinstance(form, bool):
        return ContextBudget(form, form)
    if isinstance(form, float):
        msg = f"budget must be a whole number of tokens, got {form!r}"
        raise TypeError(msg)
    try:
        return ContextBudget(**_named(form, BUDGET_FIELDS, "a budget"))
    except (CupelError, TypeError, ValueError) as error:
        msg = f"budget: {explained(error)}"
        raise ValueError(msg) from None


def as_datetime(text: str) -> datetime | str:
    """Read RFC 3339, or give the text back for the item to refuse."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def explained(error: BaseException) -> str:
    """Say what is wrong in one line; only errors nobody expected need their class."""
    if isinstance(error, (CupelError, TypeError, ValueError)):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _named(form: object, known: tuple[str, ...], what: str) -> dict[str, Any]:
    """Give the fields under their Python names; null means absent."""
    if not isinstance(form, Mapping):
        msg = f"expected {what} as an object, got {type(form).__name__}: {form!r:.80}"
        raise TypeError(msg)
    named: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", form).items():
        name = SPELLINGS.get(key)
        if name not in known:
            msg = f"unknown key {key!r}; {what} has {', '.join(known)}"
            raise ValueError(msg)
        if value is not None:
            if name in named:
                msg = f"{name} is given twice, in both spellings"
                raise ValueError(msg)
            named[name] = value
    for name in known[:2]:
        if name not in named:
            msg = f"{name} is missing"
            raise ValueError(msg)
    return named
