"""Budgets that grow from a base, by the same number of tokens in window and target."""

from __future__ import annotations

from dataclasses import dataclass

from cupel._ratios import ceil_quotient
from cupel.model import ContextBudget
from cupel.pipeline._slice import effective_budget


@dataclass(frozen=True, slots=True)
class Extensions:
    """The budgets `base + extra` for every `extra` from 0 up, as the slicer sees them beside these pinned tokens."""

    base: ContextBudget
    pinned_tokens: int

    def at(self, extra: int) -> ContextBudget:
        """The budget with `extra` more tokens."""
        return self.base.extended(extra)

    def effective(self, extra: int) -> ContextBudget:
        """What that budget leaves to the slicer; the target never falls as `extra` grows."""
        return effective_budget(self.at(extra), self.pinned_tokens)

    def reaching(self, target: int) -> int | None:
        """The smallest `extra` whose effective target is at least `target`; None if a full margin leaves nothing."""
        base = self.base
        share = 1.0 - base.estimation_safety_margin_percent / 100.0
        if target <= 0:
            return 0
        if share <= 0.0:
            return None
        unreserved = min(base.target_tokens, base.max_tokens - base.output_reserve)
        spare = unreserved - self.pinned_tokens - sum(base.reserved_slots.values())
        extra = max(0, (target if share == 1.0 else ceil_quotient(target, share)) - spare)
        while self.effective(extra).target_tokens < target:  # a float product may be off by one
            extra += 1
        while extra and self.effective(extra - 1).target_tokens >= target:
            extra -= 1
        return extra

    def holding_pins(self) -> int:
        """The smallest `extra` whose window holds the pinned items."""
        return max(0, self.pinned_tokens - (self.base.max_tokens - self.base.output_reserve))
