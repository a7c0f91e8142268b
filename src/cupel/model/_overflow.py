"""What to do when the merged selection exceeds the target."""

from __future__ import annotations

from enum import Enum


class OverflowStrategy(Enum):
    """What happens when pinned and selected items together exceed `target_tokens`."""

    THROW = "throw"
    """Raise `BudgetOverflowError`."""
    TRUNCATE = "truncate"
    """Walk the selection from the highest score down and keep what still fits; pinned items always stay."""
    PROCEED = "proceed"
    """Keep everything and tell the pipeline's `on_overflow` callback."""
