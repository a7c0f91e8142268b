"""Stage 1: tell pinned, scoreable and unusable items apart."""

from __future__ import annotations

from operator import countOf
from typing import TYPE_CHECKING

import msgspec

from cupel.errors import PinnedExceedsBudgetError
from cupel.model import ContextItem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.model import ContextBudget


class Classified(msgspec.Struct, frozen=True):
    """The three groups, each in input order; `tokens` belong to the scoreable items."""

    pinned: list[ContextItem]
    scoreable: list[ContextItem]
    tokens: list[int]
    negative: list[ContextItem]


def classify(items: Iterable[ContextItem]) -> Classified:
    """Split the candidates; a negative count drops an item even when it is pinned (ruling 3.4)."""
    everything = items if isinstance(items, list) else list(items)
    if countOf(map(type, everything), ContextItem) != len(everything):
        _require_items(everything)
    tokens = [item.tokens for item in everything]
    if min(tokens, default=0) < 0:
        negative = [item for item in everything if item.tokens < 0]
        everything = [item for item in everything if item.tokens >= 0]
        tokens = [item.tokens for item in everything]
    else:
        negative = []
    pinned = [item for item in everything if item.pinned]
    if not pinned:
        return Classified(pinned, everything, tokens, negative)
    scoreable = [item for item in everything if not item.pinned]
    return Classified(pinned, scoreable, [item.tokens for item in scoreable], negative)


def check_pinned(pinned_tokens: int, budget: ContextBudget) -> None:
    """Raise when the pinned items alone exceed the window less the output reserve; slots do not count (ruling 3.1)."""
    available = budget.max_tokens - budget.output_reserve
    if pinned_tokens > available:
        raise PinnedExceedsBudgetError(pinned_tokens, available)


def _require_items(everything: list[ContextItem]) -> None:
    for position, item in enumerate(everything):
        if not isinstance(item, ContextItem):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"items[{position}] must be a ContextItem, got {type(item).__name__}: {item!r}"
            raise TypeError(msg)
