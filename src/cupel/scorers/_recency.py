"""Newer scores higher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel.scorers._base import PassScorer
from cupel.scorers._rank import time_scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem


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
