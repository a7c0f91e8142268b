"""What callers mean by a policy."""

from __future__ import annotations

from cupel._checks import wrong_type
from cupel.pipeline import Pipeline
from cupel.policy import Policy


def as_pipeline(policy: object) -> Pipeline:
    """Return the pipeline of a policy, or a pipeline as it is."""
    if isinstance(policy, Policy):
        return policy.pipeline()
    if not isinstance(policy, Pipeline):
        raise wrong_type("policy", "a Policy or a Pipeline", policy)
    return policy
