"""Budgets that grow from a base, by the same number of tokens in window and target."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from cupel.pipeline import effective_budget

if TYPE_CHECKING:
    from cupel.model import ContextBudget


@dataclass(frozen=True, slots=True)
class Extensions:
    """The budgets `base + extra` for every `extra` from 0 up, as the slicer sees them beside these pinned tokens."""

    base: ContextBudget
    pinned_tokens: int

    def at(self, extra: int) -> ContextBudget:
        """Return the budget with `extra` more tokens."""
        return self.base.extended(extra)

    def effective(self, extra: int) -> ContextBudget:
        """Return what that budget leaves to the slicer; the target never falls as `extra` grows."""
        return effective_budget(self.at(extra), self.pinned_tokens)

    def reaching(self, target: int) -> int | None:
        """Return the smallest `extra` whose effective target is at least `target`; None behind a full margin."""
        base = self.base
        if target <= 0:
            return 0
        unreserved = min(base.target_tokens, base.max_tokens - base.output_reserve)
        spare = unreserved - self.pinned_tokens - sum(base.reserved_slots.values())
        share = 1.0 - base.estimation_safety_margin_percent / 100.0
        if share <= 0.0:
            return None
        return max(0, target - spare) if share == 1.0 else self._behind_margin(target, Fraction(share), spare)

    def _behind_margin(self, target: int, share: Fraction, spare: int) -> int:
        """Search around the quotient: a product of floats may be off, by more the larger it is."""
        high, step = max(0, int(target / share) - spare), 1
        while self.effective(high).target_tokens < target:
            high, step = high + step, 2 * step
        low, step = high, 1
        while low >= 0 and self.effective(low).target_tokens >= target:
            low, step = low - step, 2 * step
        low = max(low, -1)
        while high - low > 1:
            middle = (low + high) // 2
            if self.effective(middle).target_tokens >= target:
                high = middle
            else:
                low = middle
        return high

    def holding_pins(self) -> int:
        """Return the smallest `extra` whose window holds the pinned items."""
        return max(0, self.pinned_tokens - (self.base.max_tokens - self.base.output_reserve))
