"""Stage 6: merge, handle overflow, put in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cupel._columns import Candidates
from cupel._relations import lawful
from cupel.diagnostics import OverflowEvent
from cupel.errors import BudgetOverflowError
from cupel.model import OverflowStrategy

if TYPE_CHECKING:
    from cupel.model import ContextBudget, ContextItem
    from cupel.pipeline._pipeline import Pipeline

PINNED_SCORE = 1.0


class Settled(msgspec.Struct, frozen=True):
    """The merged selection after overflow handling."""

    pinned: list[ContextItem]
    chosen: Candidates
    """What the slicer chose, by score."""
    merged: Candidates
    """Pinned items in input order, then the chosen ones by score."""
    selected: Candidates
    """What stays of `merged`."""
    truncated: list[int]
    """Positions in `merged` that truncation removed."""
    excess: int
    """By how many tokens `merged` exceeds the target; not positive when it fits."""


class Placed(msgspec.Struct, frozen=True):
    """A selection in its final order."""

    settled: Settled
    order: list[int]
    """Positions in `settled.selected`."""
    items: list[ContextItem]


def place(
    pipeline: Pipeline, pinned: list[ContextItem], chosen: Candidates, budget: ContextBudget, *, notify: bool = True
) -> Placed:
    """Merge pinned and chosen items, apply the overflow strategy, and let the placer order what stays."""
    settled = settle(pinned, chosen, budget.target_tokens, pipeline.overflow)
    selected = settled.selected
    if settled.excess > 0 and notify and pipeline.on_overflow is not None:
        pipeline.on_overflow(OverflowEvent(settled.excess, tuple(selected.items), budget))
    order = pipeline.placer.arrange(selected)
    return Placed(settled, order, [selected.items[position] for position in order])


def settle(pinned: list[ContextItem], chosen: Candidates, target_tokens: int, overflow: OverflowStrategy) -> Settled:
    """Merge pinned and chosen items and apply the overflow strategy; only the original target counts (ruling 3.18)."""
    merged = _merged(pinned, chosen) if pinned else chosen
    total = sum(merged.tokens)
    excess = total - target_tokens
    if excess > 0:
        if overflow is OverflowStrategy.THROW:
            raise BudgetOverflowError(total, target_tokens)
        if overflow is OverflowStrategy.TRUNCATE:
            kept, truncated = _truncated(merged, chosen, target_tokens)
            return Settled(pinned, chosen, merged, merged.at(kept), truncated, excess)
    return Settled(pinned, chosen, merged, merged, [], excess)


def _merged(pinned: list[ContextItem], chosen: Candidates) -> Candidates:
    """Put the pinned items, with score 1, before the chosen ones."""
    return Candidates(
        [*pinned, *chosen.items],
        [PINNED_SCORE] * len(pinned) + chosen.scores,
        [item.tokens for item in pinned] + chosen.tokens,
    )


def _truncated(merged: Candidates, chosen: Candidates, target_tokens: int) -> tuple[list[int], list[int]]:
    """Keep pinned items and then, from the highest score down, whatever still fits (ruling 3.19).

    What depends on something that does not fit goes as well.
    """
    pinned_count = len(merged) - len(chosen)
    used = 0
    kept: list[int] = []
    for position, cost in enumerate(merged.tokens):
        if position < pinned_count or used + cost <= target_tokens:
            kept.append(position)
            used += cost
    if chosen.relations is not None:
        staying = lawful(chosen.relations, [position - pinned_count for position in kept[pinned_count:]])
        kept = [*range(pinned_count), *(position + pinned_count for position in staying)]
    remaining = set(kept)
    return kept, [position for position in range(len(merged)) if position not in remaining]
