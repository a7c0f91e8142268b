"""The policy of a conversation."""

from __future__ import annotations

from cupel._checks import wrong_type
from cupel.model import OverflowStrategy
from cupel.pipeline import Pipeline
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


def as_pipeline(policy: Policy | Pipeline | None) -> Pipeline:
    """Return the pipeline that a caller means."""
    if isinstance(policy, Pipeline):
        return policy
    if policy is not None and not isinstance(policy, Policy):
        raise wrong_type("policy", "a Policy or a Pipeline", policy)
    return (policy or newest_first()).pipeline()
