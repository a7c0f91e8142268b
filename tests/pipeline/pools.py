"""Items, budgets and a pipeline for tests of the run path."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cupel import (
    ContextBudget,
    ContextItem,
    Pipeline,
    ReflexiveScorer,
)

REFLEXIVE = Pipeline(scorer=ReflexiveScorer())
START = datetime(2024, 1, 1, tzinfo=UTC)


def hinted(content: str, tokens: int, hint: float, **fields: Any) -> ContextItem:
    return ContextItem(content, tokens, future_relevance_hint=hint, **fields)


def budget(target: int, **fields: Any) -> ContextBudget:
    return ContextBudget(fields.pop("max_tokens", target), target, **fields)


def contents(items: list[ContextItem]) -> list[str]:
    return [item.content for item in items]
