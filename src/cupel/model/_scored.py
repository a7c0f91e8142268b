"""A scored item, and the overflow strategies."""

from __future__ import annotations

from enum import Enum

import msgspec
from msgspec.structs import force_setattr

from cupel._checks import as_instance, as_number
from cupel.errors import InvalidItemError
from cupel.model._item import ContextItem


class ScoredItem(msgspec.Struct, frozen=True):
    """An item and its score, as slicers and placers receive them.

    >>> ScoredItem(ContextItem("hello", 1), 0.5).score
    0.5
    """

    item: ContextItem
    score: float

    def __post_init__(self) -> None:
        as_instance("item", self.item, ContextItem)
        if type(self.score) is not float:
            force_setattr(self, "score", as_number("score", self.score, error=InvalidItemError))


class OverflowStrategy(Enum):
    """How to handle pinned and selected items that together exceed `target_tokens`."""

    THROW = "throw"
    """Raise `BudgetOverflowError`."""
    TRUNCATE = "truncate"
    """Walk the selection from the highest score down and keep items that still fit; pinned items always stay."""
    PROCEED = "proceed"
    """Keep everything and tell the pipeline's `on_overflow` callback."""
