"""Random items and budgets, small and full of ties, each in the library's form and in the oracle's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from cupel import (
    BudgetOverflowError,
    ContextBudget,
    ContextItem,
    PinnedExceedsBudgetError,
    ScarcityError,
    SelectionError,
    TableTooLargeError,
)
from tests import oracle

ERROR_KINDS: dict[type[SelectionError], str] = {
    PinnedExceedsBudgetError: "pinned_exceeds_budget",
    BudgetOverflowError: "overflow",
    TableTooLargeError: "table_too_large",
    ScarcityError: "scarcity",
}

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
KINDS = [
    "Message",
    "message",
    "MESSAGE",
    "Tool",
    "tool",
    "Kit",
    "kit",
    "\u212ait",
    "Document",
    "TOOLOUTPUT",
    "ToolOutput",
    "SystemPrompt",
    "systemprompt",
]
TAGS = ["a", "A", "b", "k", "K", "\u212a", "é", "É", "e\u0301"]
SCORES = [0.0, -0.0, 0.1, 0.3, 0.5, 0.57, 0.5699, 0.9, 1.0, 1.5, -0.4, float("nan"), float("inf"), float("-inf")]
TRUST = [
    "0.85",
    ".5",
    "1.",
    "-1",
    "1e400",
    " 0.5",
    "1_0",
    "high",
    "nan",
    "",
    0.25,
    1,
    True,
    None,
    10**400,
    float("nan"),
]


def law(examples: int) -> settings:
    """Try this many examples in a repeatable run, and as many as its profile says in any other search."""
    current = settings.default
    return settings(
        max_examples=examples if current.derandomize else current.max_examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def _timestamps() -> st.SearchStrategy[datetime]:
    """Few instants, spelled in several time zones."""
    zones = st.sampled_from([UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-5, minutes=-30))])
    minutes = st.sampled_from([-3000, -1440, -60, -1, 0, 1, 60])
    return st.builds(lambda zone, offset: (NOW + timedelta(minutes=offset)).astimezone(zone), zones, minutes)


def reuses() -> st.SearchStrategy[dict[str, Any] | None]:
    """What `fit` and sessions write about a step; they leave out nothing, others may."""
    repeated = st.sampled_from([0, 0.0, 0.25, 1, 1.0])
    optional = {
        "uses": st.sampled_from([0, 1, 2, 9]),
        "repeated": repeated,
        "said": st.sampled_from([0, 1, 7, 90]),
        "more": st.just("ignored"),
    }
    return st.none() | st.fixed_dictionaries({"age": st.sampled_from([1, 2, 3, 4, 9, 10**9])}, optional=optional)


def _metadata() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "cupel:trust": st.sampled_from(TRUST),
            "stage": st.sampled_from(["final", "Final", "3", 3, 3.0, None]),
            "cupel:reuse": reuses(),
        },
    )


def _rows(tokens: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"content": st.sampled_from("abcdefgh"), "tokens": tokens},
        optional={
            "kind": st.sampled_from(KINDS),
            "priority": st.integers(-2, 2),
            "tags": st.lists(st.sampled_from(TAGS), max_size=3).map(tuple),
            "metadata": _metadata(),
            "timestamp": _timestamps(),
            "future_relevance_hint": st.sampled_from(SCORES) | st.floats(0, 1),
            "pinned": st.sampled_from([False, False, False, True]),
            "original_tokens": st.sampled_from([0, 5, 100]),
        },
    )


TOKENS = st.sampled_from([-2, 0, 1, 2, 3, 5, 5, 8, 10, 10, 15, 30])


@st.composite
def item_pairs(draw: st.DrawFn, tokens: st.SearchStrategy[int] = TOKENS, max_size: int = 10) -> Any:
    """Items and their oracle doubles; now and then one object stands at several positions."""
    rows = draw(st.lists(_rows(tokens), max_size=max_size))
    positions = list(range(len(rows)))
    if rows:
        positions += draw(st.lists(st.sampled_from(positions), max_size=2))
    items = [ContextItem(**row) for row in rows]
    doubles = [oracle.Item(**_in_utc(row)) for row in rows]
    return [items[p] for p in positions], [doubles[p] for p in positions]


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "timestamp": row["timestamp"].astimezone(UTC)} if "timestamp" in row else row


@st.composite
def budget_pairs(draw: st.DrawFn) -> Any:
    """A budget and its double, tight enough that pins, slots, margins and requirements collide."""
    maximum = draw(st.integers(0, 60))
    fields = {
        "max_tokens": maximum,
        "target_tokens": draw(st.integers(0, maximum)),
        "output_reserve": draw(st.sampled_from([0, 0, maximum // 4, maximum])),
        "reserved_slots": draw(st.sampled_from([{}, {}, {"Memory": 3}, {"Tool": 2, "Plan": 7}])),
        "estimation_safety_margin_percent": draw(st.sampled_from([0.0, 0.0, 7.0, 34.0, 100.0])),
    }
    return ContextBudget(**fields), oracle.Budget(**fields)
