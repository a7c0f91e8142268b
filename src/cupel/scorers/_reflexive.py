"""The caller's own estimate."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from cupel.scorers._base import PeerlessScorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem


@dataclass(frozen=True, slots=True)
class ReflexiveScorer(PeerlessScorer):
    """Passes on `future_relevance_hint`, clamped to 0 to 1; a missing or non-finite hint scores 0.

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
