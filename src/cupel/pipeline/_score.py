"""Stage 2: score every scoreable item."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel._columns import Candidates
from cupel.scorers import checked_scores

if TYPE_CHECKING:
    from cupel.pipeline._classify import Classified
    from cupel.scorers import Scorer


def score(classified: Classified, scorer: Scorer) -> Candidates:
    """Score the whole pass at once; without items the scorer is not called (ruling 3.7)."""
    scoreable = classified.scoreable
    return Candidates(scoreable, checked_scores(scorer, list(scoreable)) if scoreable else [], classified.tokens)
