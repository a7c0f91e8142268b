"""Scoring by rank: how many peers have a strictly smaller value."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

from cupel._columns import LARGE, ascending

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NEVER: Final = -(2**63)
"""Before any date, in microseconds."""


def time_scores(times: list[datetime | None]) -> list[float]:
    """Rank instants, of which few are equal, by sorting them."""
    if len(times) >= LARGE:
        return _many_time_scores(times)
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


def _many_time_scores(times: list[datetime | None]) -> list[float]:
    """Do the same with NumPy, for pools that are `LARGE`."""
    import numpy as np

    instants = np.array([_NEVER if time is None else (time - _EPOCH) // _MICROSECOND for time in times])
    present = instants != _NEVER
    _, level, counts = np.unique(instants[present], return_inverse=True, return_counts=True)
    last = counts.sum() - 1
    scores = np.zeros(len(times))
    scores[present] = ((np.cumsum(counts) - counts) / last)[level] if last else 1.0
    return scores.tolist()


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
