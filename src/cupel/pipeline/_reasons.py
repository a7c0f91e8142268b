"""What each stage says about the items it drops; called only when somebody listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.diagnostics import (
    BudgetExceeded,
    Deduplicated,
    ExcludedItem,
    IncludedItem,
    InclusionReason,
    NegativeTokens,
    PinnedOverride,
)
from cupel.pipeline._relation_reasons import RelationReasons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel._columns import Candidates
    from cupel.diagnostics import ExclusionReason
    from cupel.model import ContextItem
    from cupel.pipeline._place import Placed
    from cupel.slicers import Selection


def classified_out(negative: list[ContextItem]) -> list[ExcludedItem]:
    """Explain items with a negative count; they were never scored, so their score is 0."""
    return [ExcludedItem(item, 0.0, NegativeTokens(item.tokens)) for item in negative]


def deduplicated_out(candidates: Candidates, dropped: list[int]) -> list[ExcludedItem]:
    """Explain items whose content another item has; both contents are the same string (ruling 3.10)."""
    items, scores = candidates.items, candidates.scores
    return [
        ExcludedItem(items[position], scores[position], Deduplicated(items[position].content)) for position in dropped
    ]


def sliced_out(
    candidates: Candidates,
    chosen: list[int],
    selection: Selection,
    pinned: Sequence[ContextItem],
    targets: tuple[int, int],
) -> list[ExcludedItem]:
    """Explain the candidates the slicer left, from the highest score down.

    `targets` are what the slicer had to fill, and what it would have had without the pinned items.
    """
    items, scores, tokens = candidates.items, candidates.scores, candidates.tokens
    target, target_without_pins = targets
    # One number for the whole run: what the complete selection leaves, not what was left at some moment (ruling 7.19).
    available = target - sum(tokens[position] for position in chosen)
    explain = selection.explain
    related = _related(candidates, chosen)
    taken = set(chosen)
    excluded: list[ExcludedItem] = []
    for position, cost in enumerate(tokens):
        if position in taken:
            continue
        reason: ExclusionReason | None = None
        if related is not None:
            reason, cost = related.reason(position), related.needs(position)  # noqa: PLW2901
        if reason is None and explain is not None:
            reason = explain(position)
        if reason is None and target < cost <= target_without_pins:
            reason = displaced_by(pinned)
        if reason is None:
            reason = BudgetExceeded(cost, available)
        excluded.append(ExcludedItem(items[position], scores[position], reason))
    return excluded


def truncated_out(placed: Placed, target_tokens: int) -> list[ExcludedItem]:
    """Explain the items truncation removed: by the pins if each would have stayed without them (ruling 7.17)."""
    settled = placed.settled
    if not settled.truncated:
        return []
    merged = settled.merged
    available = target_tokens - sum(settled.selected.tokens)
    removed = set(settled.truncated)
    first = len(settled.pinned)
    kept = [position - first for position in range(first, len(merged)) if position not in removed]
    related = _related(settled.chosen, kept)
    pins_cost = any(item.tokens > 0 for item in settled.pinned)
    kept_beside_pins = 0
    excluded: list[ExcludedItem] = []
    for position in range(len(settled.pinned), len(merged)):
        cost = merged.tokens[position]
        if position not in removed:
            kept_beside_pins += cost
            continue
        reason = None if related is None else related.reason(position - first)
        if reason is None and pins_cost and kept_beside_pins + cost <= target_tokens:
            reason = displaced_by(settled.pinned)
        if reason is None:
            reason = BudgetExceeded(cost if related is None else related.needs(position - first), available)
        excluded.append(ExcludedItem(merged.items[position], merged.scores[position], reason))
    return excluded


def _related(candidates: Candidates, chosen: list[int]) -> RelationReasons | None:
    relations = candidates.relations
    return None if relations is None else RelationReasons(candidates, relations, chosen)


def placed_in(placed: Placed) -> list[IncludedItem]:
    """Explain the selected items in their final order."""
    selected, pinned_count = placed.settled.selected, len(placed.settled.pinned)
    items, scores, tokens = selected.items, selected.scores, selected.tokens
    pinned, free, scored = InclusionReason.PINNED, InclusionReason.ZERO_TOKEN, InclusionReason.SCORED
    return [
        IncludedItem(
            items[position],
            scores[position],
            pinned if position < pinned_count else scored if tokens[position] else free,
        )
        for position in placed.order
    ]


def displaced_by(pinned: Sequence[ContextItem]) -> PinnedOverride:
    """Blame the first pinned item that takes any room."""
    return PinnedOverride(next(item.content for item in pinned if item.tokens > 0))
