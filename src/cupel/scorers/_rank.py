"""Scoring by rank: how many peers have a strictly smaller value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cupel._columns import ascending

if TYPE_CHECKING:
    from datetime import datetime


def time_scores(times: list[datetime | None]) -> list[float]:
    """Rank instants, of which few are equal, by sorting them."""
    scores = [0.0] * len(times)
    present = ascending(times)
    last = len(present) - 1
    score, before = 1.0, None
    for rank, position in enumerate(present):
        time = times[position]
        if last and time != before:  # ties share the lowest rank
            score, before = rank / last, time
        scores[position] = score
    return scores


def level_scores(levels: list[int | None]) -> list[float]:
    """Rank integers, of which many are equal, by counting each."""
    counts = Counter(levels)
    last = len(levels) - counts.pop(None, 0) - 1
    score_of: dict[int | None, float] = {None: 0.0}
    below = 0
    for level in sorted(level for level in counts if level is not None):
        score_of[level] = below / last if last else 1.0
        below += counts[level]
    return [score_of[level] for level in levels]
