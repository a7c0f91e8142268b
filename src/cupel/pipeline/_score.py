"""Stage 2: score every scoreable item."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.scorers import checked_scores

if TYPE_CHECKING:
    from cupel.model import ContextItem
    from cupel.scorers import Scorer


def score(scoreable: list[ContextItem], scorer: Scorer) -> list[float]:
    """Score the whole pass at once; without items the scorer is not called (ruling 3.7)."""
    return checked_scores(scorer, scoreable) if scoreable else []
