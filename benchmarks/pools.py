"""Candidates to measure with, the same for every run: all randomness is seeded."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from cupel import ContextBudget, ContextItem

KINDS = ("Message", "Document", "ToolOutput", "Memory")
FIRST = datetime(2025, 1, 1, tzinfo=UTC)


def mixed_pool(count: int, *, tags: int = 0, seed: int = 1) -> list[ContextItem]:
    """Items of four kinds, 20 to 800 tokens each, with a hint, a priority, a time and, if asked for, tags out of 50."""
    rng = random.Random(seed)
    return [
        ContextItem(
            f"item {number}: {rng.random()}",
            rng.randint(20, 800),
            kind=rng.choice(KINDS),
            priority=rng.randrange(10),
            tags=[f"tag {rng.randrange(50)}" for _ in range(tags)],
            timestamp=FIRST + timedelta(seconds=rng.randrange(10_000_000)),
            future_relevance_hint=rng.random(),
        )
        for number in range(count)
    ]


def timeline(count: int) -> list[ContextItem]:
    """Items a second apart, oldest first, as a conversation or a log has them."""
    return [ContextItem(f"turn {number}", 10, timestamp=FIRST + timedelta(seconds=number)) for number in range(count)]


def budget_for(count: int, target: int | None = None) -> ContextBudget:
    """Half of the pool's tokens while it is small, a window of 128,000 when it is large."""
    tokens = min(128_000, max(2_500, 205 * count)) if target is None else target
    return ContextBudget(tokens, tokens)


def chat_pool(rng: random.Random, count: int) -> list[ContextItem]:
    """A conversation: many short turns, some long ones; later turns matter more, some early ones matter too."""
    return [
        ContextItem(
            f"turn {number}",
            max(3, round(rng.lognormvariate(3.4, 0.9))),
            timestamp=FIRST + timedelta(minutes=number),
            future_relevance_hint=min(1.0, 0.15 + 0.6 * number / count + rng.betavariate(1, 4)),
        )
        for number in range(count)
    ]


def rag_pool(rng: random.Random, count: int) -> list[ContextItem]:
    """Retrieved passages: chunks of 100 to 512 tokens whose similarities lie close together."""
    return [
        ContextItem(
            f"passage {number}",
            rng.choice((rng.randint(100, 512), rng.randint(380, 512))),
            kind="Document",
            source="Rag",
            future_relevance_hint=round(rng.betavariate(8, 4), 4),
        )
        for number in range(count)
    ]


def tool_pool(rng: random.Random, count: int) -> list[ContextItem]:
    """Tool outputs: mostly status lines, a few logs of thousands of tokens; relevance in five steps."""
    return [
        ContextItem(
            f"output {number}",
            rng.randint(2_000, 9_000) if rng.random() < 0.08 else max(4, round(rng.lognormvariate(4.6, 1.1))),
            kind="ToolOutput",
            source="Tool",
            future_relevance_hint=rng.choice((0.2, 0.4, 0.6, 0.8, 1.0)),
        )
        for number in range(count)
    ]
