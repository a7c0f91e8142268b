"""The order of the stages, for runs and streams alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cupel._columns import Candidates, descending
from cupel._relations import are_related, read_relations
from cupel.pipeline._deduplicate import find_copies

if TYPE_CHECKING:
    from collections.abc import Collection

    from cupel.pipeline._classify import Classified
    from cupel.pipeline._pipeline import Pipeline
    from cupel.pipeline._watch import Watch


def rank(pipeline: Pipeline, classified: Classified, watch: Watch, known: Collection[str] = ()) -> Candidates:
    """Score, deduplicate and sort what was classified; contents that are `known` count as copies."""
    scoreable = classified.scoreable
    # Without items the scorer is not called (ruling 3.7); it gets a list of its own, to do with as it likes.
    scores = pipeline.scorer.checked_scores([*scoreable]) if scoreable else []
    candidates = Candidates(scoreable, scores, classified.tokens)
    watch.scored(candidates)
    related = are_related(classified.pinned + classified.scoreable)
    copies = find_copies(candidates, known, related=related) if pipeline.deduplicate else None
    watch.deduplicated(candidates, copies)
    if copies is not None:
        candidates = candidates.at(copies.kept)
    candidates = candidates.at(descending(candidates.scores))  # equal scores keep their input order
    if related:
        relations = read_relations(candidates.items, candidates.scores, classified.pinned, classified.negative)
        candidates = msgspec.structs.replace(candidates, relations=relations)
    return candidates
