"""The budgets behind the slider."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from cupel._ratios import ceil_quotient
from cupel.model import ContextBudget, ContextItem


@dataclass(frozen=True, slots=True)
class Probes:
    """The budgets a page covers: targets from `lowest` to `highest`, under a fixed window or with it moving along."""

    budget: ContextBudget
    fixed_window: bool
    lowest: int
    highest: int

    @classmethod
    def covering(
        cls, items: Sequence[ContextItem], budget: ContextBudget, buckets: Iterable[int], *, fixed_window: bool
    ) -> Probes:
        """Reach up to the window, or without a fixed one to where everything fits, counted in the coarsest buckets."""
        if fixed_window:
            return cls(budget, fixed_window, 0, budget.max_tokens)
        sizes = [item.tokens for item in items if item.tokens > 0]
        everything = max(sum(-(-size // bucket) * bucket for size in sizes) for bucket in {1, *buckets})
        share = 1.0 - budget.estimation_safety_margin_percent / 100.0
        needed = ceil_quotient(everything, share) if share > 0 else everything
        needed = max(needed + budget.total_reserved, budget.target_tokens, 100)
        step = 10 ** max(0, len(str(needed)) - 2)  # a round number reads better at the end of a scale
        return cls(budget, fixed_window, budget.output_reserve, -(-needed // step) * step)

    def settings(self) -> dict[str, Any]:
        """Return what the page's script makes its budgets from."""
        return {
            "target": self.budget.target_tokens,
            "max": self.budget.max_tokens,
            "max_follows": not self.fixed_window,
            "reserve": self.budget.output_reserve,
            "slots": sum(self.budget.reserved_slots.values()),
            "margin": self.budget.estimation_safety_margin_percent,
        }

    def at(self, target: int) -> ContextBudget:
        """Return the budget that stands behind a position of the slider."""
        window = self.budget.max_tokens if self.fixed_window else target
        return msgspec.structs.replace(self.budget, max_tokens=window, target_tokens=target)

    def spread(self, count: int) -> list[ContextBudget]:
        """Return about `count` budgets over the whole slider, the opening one among them."""
        span = self.highest - self.lowest
        targets = {self.lowest + span * number // (count - 1) for number in range(count)}
        return [self.at(target) for target in sorted(targets | {self.budget.target_tokens})]
