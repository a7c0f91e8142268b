"""Scoring by rank: how many peers have a strictly smaller value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from cupel._columns import ascending, shares_below

if TYPE_CHECKING:
    from collections.abc import Iterable

_FEW = 64  # below, a sort is as quick
_SAMPLED = 512


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
    """Score every value among all of them with one sort of their positions."""
    shares = shares_below(values)
    if shares is not None:
        return shares
    scores = [0.0] * len(values)
    present = ascending(values)
    if len(present) <= 1:
        for position in present:
            scores[position] = 1.0
        return scores
    last = len(present) - 1
    score, before = 0.0, None
    for rank, position in enumerate(present):
        value = values[position]
        if value != before:  # ties share the lowest rank
            score, before = rank / last, value
        scores[position] = score
    return scores


def level_scores(values: list[Any]) -> list[float]:
    """Score as `rank_scores` does, by counting where a sample says that many share few values."""
    sample = values[:: len(values) // _SAMPLED + 1]
    if len(values) < _FEW or len(set(sample)) * 4 > len(sample):
        return rank_scores(values)
    counts = Counter(values)
    last = len(values) - counts.pop(None, 0) - 1
    score_of: dict[Any, float] = {None: 0.0}
    rank = 0
    for level in sorted(counts):
        score_of[level] = rank / last if last else 1.0
        rank += counts[level]
    return [score_of[value] for value in values]
