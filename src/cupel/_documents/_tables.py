"""The fields of items and budgets: the one table that every reader, writer, schema and file format follows."""

from __future__ import annotations

from typing import Any, Final

from cupel._documents._fields import Field
from cupel._documents._form import WireForm
from cupel._documents._values import (
    CONTENT,
    COUNT,
    FLAG,
    INSTANT,
    INTEGER,
    INTEGERS,
    NAME,
    NUMBER,
    OBJECT,
    WORDS,
    Value,
)
from cupel._frozen import EMPTY
from cupel.errors import InvalidBudgetError, InvalidItemError
from cupel.model import ContextBudget, ContextItem, ContextKind, ContextSource

_PERCENTAGE: Final = Value(
    "a number from 0 to 100", {"type": "number", "minimum": 0, "maximum": 100}, NUMBER.read, NUMBER.cell, NUMBER.write
)

ITEM: Final = WireForm(
    "an item",
    ContextItem,
    (
        Field("content", CONTENT, required=True),
        Field("tokens", INTEGER, required=True),
        Field("kind", NAME, ContextKind.MESSAGE, always=True),  # ruling 7.29
        Field("source", NAME, ContextSource.CHAT),
        Field("priority", INTEGER),
        Field("tags", WORDS, ()),
        Field("metadata", OBJECT, EMPTY),
        Field("timestamp", INSTANT),
        Field("future_relevance_hint", NUMBER),
        Field("pinned", FLAG, default=False),
        Field("original_tokens", INTEGER),
    ),
    InvalidItemError,
)
BUDGET: Final = WireForm(
    "a budget",
    ContextBudget,
    (
        Field("max_tokens", COUNT, required=True),
        Field("target_tokens", COUNT, required=True),
        Field("output_reserve", COUNT, 0),
        Field("reserved_slots", INTEGERS, EMPTY),
        Field("estimation_safety_margin_percent", _PERCENTAGE, 0.0),
    ),
    InvalidBudgetError,
)


def budget_of(form: Any, *, error: type[Exception] = InvalidBudgetError) -> ContextBudget:
    """Read a budget from an object, or from a number of tokens that is both window and target."""
    if isinstance(form, int) and not isinstance(form, bool):
        form = {"max_tokens": form, "target_tokens": form}
    return BUDGET.read(form, error=error)
