"""Scorers over one field of an item: recency, priority, the caller's hint, shared tags."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Final

from cupel._columns import LARGE, ascending
from cupel._folded import fold_ascii
from cupel.scorers._base import PassScorer, PeerlessScorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NEVER: Final = -(2**63)
"""Before any date, in microseconds."""


def time_scores(times: list[datetime | None]) -> list[float]:
    """Rank instants by sorting; few of them are equal."""
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
    """Rank the instants of a `LARGE` pool with NumPy."""
    import numpy as np

    instants = np.array([_NEVER if time is None else (time - _EPOCH) // _MICROSECOND for time in times])
    present = instants != _NEVER
    _, level, counts = np.unique(instants[present], return_inverse=True, return_counts=True)
    last = counts.sum() - 1
    scores = np.zeros(len(times))
    scores[present] = ((np.cumsum(counts) - counts) / last)[level] if last else 1.0
    return scores.tolist()


def level_scores(levels: list[int | None]) -> list[float]:
    """Rank integers by counting; many of them are equal."""
    counts = Counter(levels)
    last = len(levels) - counts.pop(None, 0) - 1
    score_of: dict[int | None, float] = {None: 0.0}
    below = 0
    for level in sorted(level for level in counts if level is not None):
        score_of[level] = below / last if last else 1.0
        below += counts[level]
    return [score_of[level] for level in levels]


@dataclass(frozen=True, slots=True)
class RecencyScorer(PassScorer):
    """Scores by rank in time: the newest item 1, the oldest 0, evenly spaced between; no timestamp scores 0.

    Items with one timestamp share a score; if all timestamps are equal, all score 0. A lone timestamped item scores 1.

    >>> from datetime import UTC, datetime
    >>> from cupel import ContextItem
    >>> days = [datetime(2024, 1, day, tzinfo=UTC) for day in (3, 1, 2)]
    >>> RecencyScorer().score_all([ContextItem("x", 1, timestamp=day) for day in days])
    [1.0, 0.0, 0.5]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return time_scores([item.timestamp for item in items])


@dataclass(frozen=True, slots=True)
class PriorityScorer(PassScorer):
    """Scores by rank of `priority`: the highest 1, the lowest 0; no priority scores 0. Ties as in `RecencyScorer`.

    >>> from cupel import ContextItem
    >>> PriorityScorer().score_all([ContextItem("x", 1, priority=priority) for priority in (10, None, 2)])
    [1.0, 0.0, 0.0]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return level_scores([item.priority for item in items])


@dataclass(frozen=True, slots=True)
class ReflexiveScorer(PeerlessScorer):
    """Scores by `future_relevance_hint`, clamped to 0 to 1; a missing or non-finite hint scores 0.

    >>> from cupel import ContextItem
    >>> hints = [0.4, 1.7, -0.3, float("inf"), None]
    >>> ReflexiveScorer().score_all([ContextItem("x", 1, future_relevance_hint=hint) for hint in hints])
    [0.4, 1.0, 0.0, 0.0, 0.0]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return [
            hint if (hint := item.future_relevance_hint) is not None and 0.0 <= hint <= 1.0 else _clamped(hint)
            for item in items
        ]


def _clamped(hint: float | None) -> float:
    if hint is None or not isfinite(hint):
        return 0.0
    return min(max(hint, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class FrequencyScorer(PassScorer):
    """Scores by shared tags: the share of the other items that have at least one tag in common with this one.

    Tags are compared without ASCII case. An item without tags, or without peers, scores 0.

    >>> from cupel import ContextItem
    >>> items = [ContextItem("a", 1, tags=["X"]), ContextItem("b", 1, tags=["x", "y"]), ContextItem("c", 1)]
    >>> FrequencyScorer().score_all(items)
    [0.5, 0.5, 0.0]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        # A tag is a bit set of positions and an item the union of its tags, so no two items are compared.
        if len(items) <= 1:
            return [0.0] * len(items)
        sharing = _Sharing(items)
        # Every position of an item shares its tags, and none of them is its peer (ruling 4.5).
        occurrences = Counter(map(id, items))
        peers = len(items) - 1
        return [(sharing.count(item.tags) - occurrences[id(item)]) / peers if item.tags else 0.0 for item in items]


class _Sharing:
    """Count the positions that share at least one of the given tags."""

    __slots__ = ("_counts", "_fold", "_positions")

    def __init__(self, items: Sequence[ContextItem]) -> None:
        self._fold: dict[str, str] = {}
        self._counts: dict[tuple[str, ...], int] = {}
        width = (len(items) + 7) // 8
        sets: dict[str, bytearray] = {}
        for position, item in enumerate(items):
            byte, bit = position >> 3, 1 << (position & 7)
            for tag in item.tags:
                key = self._folded(tag)
                positions = sets.get(key)
                if positions is None:
                    positions = sets[key] = bytearray(width)
                positions[byte] |= bit
        self._positions = {key: int.from_bytes(positions, "little") for key, positions in sets.items()}

    def count(self, tags: tuple[str, ...]) -> int:
        known = self._counts.get(tags)
        if known is None:
            union = 0
            for tag in tags:
                union |= self._positions[self._fold[tag]]
            known = self._counts[tags] = union.bit_count()
        return known

    def _folded(self, tag: str) -> str:
        key = self._fold.get(tag)
        if key is None:
            key = self._fold[tag] = fold_ascii(tag)
        return key
