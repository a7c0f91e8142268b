"""An item with its score."""

from __future__ import annotations

import msgspec
from msgspec.structs import force_setattr

from cupel.model._item import ContextItem
from cupel.model._numbers import as_float


class ScoredItem(msgspec.Struct, frozen=True):
    """An item and its score, as slicers and placers receive them.

    >>> ScoredItem(ContextItem("hello", 1), 0.5).score
    0.5
    """

    item: ContextItem
    score: float

    def __post_init__(self) -> None:
        if not isinstance(self.item, ContextItem):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"item must be a ContextItem, got {type(self.item).__name__}: {self.item!r}"
            raise TypeError(msg)
        if type(self.score) is not float:
            force_setattr(self, "score", as_float("score", self.score))
