"""A pool of tens of thousands is ordered by other means than a small one, and to the same end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf, nan
from random import Random
from typing import TYPE_CHECKING

import pytest

from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer, Scorer, UShapedPlacer
from cupel._internal import columns
from cupel._internal.columns import LARGE
from cupel.scorers import _fields

if TYPE_CHECKING:
    from collections.abc import Sequence

EPOCH = datetime(2025, 1, 1, tzinfo=UTC)


class ByPriority(Scorer):
    """Scores with many ties, infinite ones, and none at all for what has no priority."""

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        return (
            nan
            if item.priority is None
            else -inf
            if item.priority == 0
            else inf
            if item.priority == 9
            else item.priority / 9
        )


@pytest.fixture(scope="module")
def items() -> list[ContextItem]:
    random = Random(7)
    return [
        ContextItem(
            str(number),
            random.randrange(1, 9),
            priority=random.choice([None, *range(10)]),
            timestamp=random.choice([None, EPOCH + timedelta(microseconds=random.randrange(LARGE))]),
        )
        for number in range(LARGE + 5_000)
    ]


@pytest.mark.parametrize("scorer", [RecencyScorer(), ByPriority()], ids=lambda scorer: type(scorer).__name__)
def test_a_large_pool_is_run_as_a_small_one(
    scorer: Scorer, items: list[ContextItem], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(scorer=scorer, placer=UShapedPlacer())
    budget = ContextBudget(240_000, 240_000)
    large = pipeline.run(items, budget)
    for module in (columns, _fields):
        monkeypatch.setattr(module, "LARGE", len(items) + 1)
    small = pipeline.run(items, budget)
    assert LARGE <= len(large) < len(items)
    assert [item.content for item in large] == [item.content for item in small]
