"""What each scorer of a weighted average contributes, for the page's bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cupel._wire import plain_number
from cupel.model import ContextItem
from cupel.pipeline import PreparedSelection

_DIGITS: Final = 4


def score_parts(prepared: PreparedSelection, items: Sequence[ContextItem]) -> list[dict[str, Any]]:
    """Return name, weight and scores of each scorer, by the items' positions; nothing for a scorer that stands alone.

    >>> from cupel import CompositeScorer, Pipeline, PriorityScorer, ReflexiveScorer
    >>> items = [ContextItem("x", 1, future_relevance_hint=0.5)]
    >>> both = CompositeScorer([(ReflexiveScorer(), 3), (PriorityScorer(), 1)])
    >>> score_parts(Pipeline(scorer=both).prepare(items), items)[0]
    {'name': 'Reflexive', 'weight': 0.75, 'scores': [0.5]}
    """
    found = [None if one is None else one.part.parts for one in prepared.breakdowns(items)]
    first = next((parts for parts in found if parts), ())
    whole = sum(part.weight or 0.0 for part in first)
    return [
        {
            "name": part.scorer.removesuffix("Scorer"),
            "weight": (part.weight or 0.0) / whole if whole else 0.0,
            "scores": [plain_number(round(parts[at].score, _DIGITS)) if parts else None for parts in found],
        }
        for at, part in enumerate(first)
    ]
