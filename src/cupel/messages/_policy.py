"""The policy for conversations that name none."""

from __future__ import annotations

from cupel.model import OverflowStrategy
from cupel.policy import Policy
from cupel.scorers import RecencyScorer
from cupel.slicers import BestFirstSlice


def newest_first() -> Policy:
    """Return the default for `fit`: the newest units first, whole, skipping what does not fit; nothing is deduplicated.

    Saying the same thing twice in a conversation is not a mistake to clean up, so equal messages all stay candidates.

    >>> newest_first().to_dict()["slicer"]
    'best_first'
    """
    return Policy(
        RecencyScorer(),
        BestFirstSlice(),
        deduplicate=False,
        overflow=OverflowStrategy.TRUNCATE,
        name="newest-first",
    )
