"""Stage 1: tell pinned, scoreable and unusable items apart."""

from __future__ import annotations

from operator import countOf
from typing import TYPE_CHECKING

import msgspec

from cupel._checks import as_tuple
from cupel.errors import PinnedExceedsBudgetError
from cupel.model import ContextItem
from cupel.pipeline._pins import pinned_positions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.model import ContextBudget
    from cupel.pipeline._pins import PinRule


class Classified(msgspec.Struct, frozen=True):
    """All items and the three groups, each in input order; `tokens` belong to the scoreable items."""

    items: list[ContextItem]
    pinned: list[ContextItem]
    scoreable: list[ContextItem]
    tokens: list[int]
    negative: list[ContextItem]

    def __len__(self) -> int:
        return len(self.pinned) + len(self.scoreable)


def classify(items: Iterable[ContextItem], rules: tuple[PinRule, ...] = ()) -> Classified:
    """Split the candidates; a negative count drops an item even when it is pinned (ruling 3.4).

    The input is copied: whatever its owner, a callback or another thread does to it later, the run goes on with what
    it was given (ruling 3.5).
    """
    everything = given = [*items] if isinstance(items, (list, tuple)) else [*as_tuple("items", items, ContextItem)]
    if countOf(map(type, everything), ContextItem) != len(everything):
        as_tuple("items", everything, ContextItem)  # which names what is no item; those of a subclass are
    tokens = [item.tokens for item in everything]
    if tokens and min(tokens) < 0:
        negative = [item for item in everything if item.tokens < 0]
        everything = [item for item in everything if item.tokens >= 0]
        tokens = [item.tokens for item in everything]
    else:
        negative = []
    if rules:
        chosen = pinned_positions(everything, rules)
        pinned = [item for position, item in enumerate(everything) if position in chosen]
        scoreable = [item for position, item in enumerate(everything) if position not in chosen]
        return Classified(given, pinned, scoreable, [item.tokens for item in scoreable], negative)
    pinned = [item for item in everything if item.pinned]
    if not pinned:
        return Classified(given, pinned, everything, tokens, negative)
    scoreable = [item for item in everything if not item.pinned]
    return Classified(given, pinned, scoreable, [item.tokens for item in scoreable], negative)


def check_pinned(pinned_tokens: int, budget: ContextBudget) -> None:
    """Raise when the pinned items alone exceed the window less the output reserve; slots do not count (ruling 3.1)."""
    available = budget.max_tokens - budget.output_reserve
    if pinned_tokens > available:
        raise PinnedExceedsBudgetError(pinned_tokens, available)
