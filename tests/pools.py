"""Items, budgets, slicers and pipelines that tests of several packages share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from cupel import (
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    Slicer,
)

REFLEXIVE = Pipeline(scorer=ReflexiveScorer())
START = datetime(2024, 1, 1, tzinfo=UTC)


def hinted(content: str, tokens: int, hint: float, **fields: Any) -> ContextItem:
    return ContextItem(content, tokens, future_relevance_hint=hint, **fields)


def budget(target: int, **fields: Any) -> ContextBudget:
    return ContextBudget(fields.pop("max_tokens", target), target, **fields)


def contents(items: list[ContextItem]) -> list[str]:
    return [item.content for item in items]


# --- for questions about every budget ---


class Alternating(Slicer):
    """Selects everything under every third target and nothing else: as far from monotonic as can be."""

    def slice(self, scored, budget):
        return [entry.item for entry in scored] if budget.target_tokens % 3 == 2 else []


class FarAway(Slicer):
    """Selects everything from a million tokens on: too far to be found budget by budget."""

    def slice(self, scored, budget):
        return [entry.item for entry in scored] if budget.target_tokens >= 1_000_000 else []


small_items = st.lists(
    st.builds(
        ContextItem,
        st.sampled_from("abcdefgh"),
        st.integers(-1, 9),
        kind=st.sampled_from(["Message", "Document"]),
        future_relevance_hint=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5, 0.9, 1.0]),
        pinned=st.sampled_from([False] * 5 + [True]),
    ),
    min_size=1,
    max_size=7,
)
_counts = st.sampled_from(
    [
        [CountQuotaEntry("Message", 1, 2)],
        [CountQuotaEntry("Message", 0, 1), CountQuotaEntry("Document", 2, 3)],
        [CountQuotaEntry("Document", 0, 0)],
    ]
)
# What commits within what commits is asked budget by budget, up to where it says that it stops: too long for a law.
_caps = st.sampled_from(
    [[CountQuotaEntry("Message", 0, 1)], [CountQuotaEntry("Message", 0, 2), CountQuotaEntry("Document", 0, 1)]]
)
_shares = st.sampled_from(
    [
        [QuotaEntry("Message", 20, 60)],
        [QuotaEntry("Document", cap=30)],
        [QuotaEntry("Document", cap=0)],
        [QuotaEntry("Message", 50), QuotaEntry("Document", 25)],
    ]
)
knapsacks = st.builds(KnapsackSlice, st.sampled_from([1, 2, 3, 4, "auto"]))
small_slicers = st.one_of(
    st.just(GreedySlice()),
    knapsacks,
    st.just(Alternating()),
    st.builds(QuotaSlice, _shares, st.just(GreedySlice()) | knapsacks),
    st.builds(CountQuotaSlice, _counts, st.just(GreedySlice()) | st.builds(QuotaSlice, _shares)),
    st.builds(CountConstrainedKnapsackSlice, _counts, knapsacks),
    st.builds(QuotaSlice, _shares, st.builds(CountQuotaSlice, _counts)),
    st.builds(CountQuotaSlice, _counts, st.builds(CountConstrainedKnapsackSlice, _caps, knapsacks)),
)


# --- with forms and groups, many ties among them ---

SCORES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
WORTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
KINDS = ("Message", "ToolOutput")


@st.composite
def related_items(draw, *, pinned=False, max_size=9):
    """Items of up to six entities, with forms, groups and, if wanted, pins."""
    items = []
    count = draw(st.integers(1, 6))
    for number in range(count):
        shared = {"cupel:id": f"entity {number}"}
        if draw(st.integers(0, 2)) == 0:
            shared["cupel:group"] = draw(st.sampled_from(("g", "h")))
        kind, hint = draw(st.sampled_from(KINDS)), draw(st.sampled_from(SCORES))
        for form in range(draw(st.integers(1, 3)) if len(items) < max_size - count else 1):
            worth = {"cupel:worth": draw(st.sampled_from(WORTHS))} if form else {}
            items.append(
                ContextItem(
                    f"{number}.{form}",
                    draw(st.integers(0, 12)),
                    kind=kind,
                    metadata={**shared, **worth},
                    future_relevance_hint=hint,
                    pinned=pinned and form == 0 and draw(st.integers(0, 4)) == 0,
                )
            )
    return draw(st.permutations(items))
