"""Hypothesis strategies for items, budgets, pipelines and their parts; they need `cupel-context[testing]`.

Values are small, ties are frequent, and failing examples shrink towards plain items with short contents.
"""

from cupel.testing._contracts import require_hypothesis

require_hypothesis()

from cupel.testing.strategies._items import (  # noqa: E402  (the missing package is named first)
    budgets,
    item_lists,
    items,
    kinds,
    related_lists,
    scored_items,
    scored_lists,
    scores,
)
from cupel.testing.strategies._pipelines import pipelines, placers, scorers, slicers  # noqa: E402

__all__ = [
    "budgets",
    "item_lists",
    "items",
    "kinds",
    "pipelines",
    "placers",
    "related_lists",
    "scored_items",
    "scored_lists",
    "scorers",
    "scores",
    "slicers",
]
