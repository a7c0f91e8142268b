"""The documents of items and budgets."""

from __future__ import annotations

from typing import Any, Final

from cupel._documents._codecs import Codec, MapOf
from cupel._documents._record import REQUIRED, Field, PackedRecord
from cupel._documents._scalars import ANY_NUMBER, FLAG, METADATA, NAME, WORDS, Instant, Integer, Number, Text
from cupel._frozen import EMPTY
from cupel.errors import InvalidBudgetError, InvalidItemError
from cupel.model import ContextBudget, ContextItem, ContextKind, ContextSource


def _field(name: str, codec: Codec[Any], default: Any = REQUIRED, *, always: bool = False) -> Field:
    first, *rest = name.split("_")
    return Field(name, codec, default, key=first + "".join(word.capitalize() for word in rest), always=always)


_INTEGER: Final = Integer()
_COUNT: Final = Integer(least=0)

ITEM: Final = PackedRecord(
    "an item",
    ContextItem,
    (
        _field("content", Text(can_be_empty=False)),
        _field("tokens", _INTEGER),
        _field("kind", NAME, ContextKind.MESSAGE, always=True),  # ruling 7.29
        _field("source", NAME, ContextSource.CHAT),
        _field("priority", _INTEGER, None),
        _field("tags", WORDS, ()),
        _field("metadata", METADATA, EMPTY),
        _field("timestamp", Instant(), None),
        _field("future_relevance_hint", ANY_NUMBER, None),
        _field("pinned", FLAG, default=False),
        _field("original_tokens", _INTEGER, None),
    ),
    InvalidItemError,
)
BUDGET: Final = PackedRecord(
    "a budget",
    ContextBudget,
    (
        _field("max_tokens", _COUNT),
        _field("target_tokens", _COUNT),
        _field("output_reserve", _COUNT, 0),
        _field("reserved_slots", MapOf(_COUNT, NAME), EMPTY),
        _field("estimation_safety_margin_percent", Number(least=0, most=100), 0.0),
    ),
    InvalidBudgetError,
)


def budget_of(fields: Any, *, error: type[Exception] = InvalidBudgetError) -> ContextBudget:
    """Read a budget from an object, or from a number of tokens that is both window and target."""
    if isinstance(fields, int) and not isinstance(fields, bool):
        fields = {"max_tokens": fields, "target_tokens": fields}
    return BUDGET.read(fields, error=error)
