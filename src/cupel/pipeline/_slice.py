"""What a budget leaves to be chosen."""

from __future__ import annotations

from cupel._ratios import floor_share
from cupel.model import ContextBudget


def effective_budget(budget: ContextBudget, pinned_tokens: int) -> ContextBudget:
    """Return what is left for the slicer after the output reserve, pinned items, reserved slots and safety margin."""
    margin = budget.estimation_safety_margin_percent
    if not (pinned_tokens or budget.output_reserve or budget.reserved_slots or margin):
        return budget  # most budgets hold nothing back, and in a small run another one is worth sparing
    committed = pinned_tokens + sum(budget.reserved_slots.values())
    maximum = max(0, budget.max_tokens - budget.output_reserve - committed)
    target = min(max(0, budget.target_tokens - committed), maximum)
    if margin > 0:
        share = 1.0 - margin / 100.0
        maximum = floor_share(maximum, share)
        target = min(floor_share(target, share), maximum)
    return ContextBudget(maximum, target)
