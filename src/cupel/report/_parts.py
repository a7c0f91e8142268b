"""What each scorer of a weighted average contributes, for the page's bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cupel._wire import plain_number
from cupel.model import ContextItem
from cupel.scorers import CompositeScorer, Scorer

_DIGITS = 4


def score_parts(scorer: Scorer, items: Sequence[ContextItem]) -> list[dict[str, Any]]:
    """Return name, weight and scores of each child, by the items' positions; nothing for a scorer that stands alone.

    >>> from cupel import PriorityScorer, ReflexiveScorer
    >>> both = CompositeScorer([(ReflexiveScorer(), 3), (PriorityScorer(), 1)])
    >>> score_parts(both, [ContextItem("x", 1, future_relevance_hint=0.5)])[0]
    {'name': 'Reflexive', 'weight': 0.75, 'scores': [0.5]}
    """
    if type(scorer) is not CompositeScorer:
        return []
    scored = [position for position, item in enumerate(items) if item.tokens >= 0 and not item.pinned]
    peers = [items[position] for position in scored]
    parts: list[dict[str, Any]] = []
    for (child, _), weight in zip(scorer.entries, scorer.normalized_weights, strict=True):
        scores: list[Any] = [None] * len(items)
        for position, score in zip(scored, child.score_all(peers), strict=True):
            scores[position] = plain_number(round(score, _DIGITS))
        name = type(child).__name__.removesuffix("Scorer")
        parts.append({"name": name, "weight": weight, "scores": scores})
    return parts
