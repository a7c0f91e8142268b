"""Scored items."""

from __future__ import annotations

import pytest

from cupel import ContextItem, ScoredItem

ITEM = ContextItem("x", 3)


@pytest.mark.parametrize(
    ("item", "score", "says"),
    [
        ("x", 0.5, "item must be a ContextItem, got str"),
        (ITEM, "0.5", "score must be a number, got str"),
        (ITEM, True, "score must be a number, got bool"),
        (ITEM, None, "score must be a number, got NoneType"),
    ],
)
def test_scored_items_refuse_wrong_types(item: object, score: object, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        ScoredItem(item, score)  # type: ignore[arg-type]


def test_scores_are_floats() -> None:
    assert type(ScoredItem(ITEM, 1).score) is float
