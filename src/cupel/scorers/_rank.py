"""Scoring by rank: how many peers have a strictly smaller value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def rank_score(value: Any, peers: Iterable[Any]) -> float:
    """Score one value among its peers, itself included; peers without a value do not take part."""
    if value is None:
        return 0.0
    present = [peer for peer in peers if peer is not None]
    if len(present) <= 1:
        return 1.0
    rank = sum(1 for peer in present if peer < value)
    return rank / (len(present) - 1)


def rank_scores(values: list[Any]) -> list[float]:
    """Score every value among all of them with one sort."""
    present = sorted([value for value in values if value is not None])
    if len(present) <= 1:
        return [0.0 if value is None else 1.0 for value in values]
    last = len(present) - 1
    # Written from the largest down, so that the first of equal values has the final say: ties share the lowest rank.
    score_of: dict[Any, float] = {present[rank]: rank / last for rank in range(last, -1, -1)}
    score_of[None] = 0.0
    return list(map(score_of.__getitem__, values))
