"""Prints a fixed set of reports: the same bytes on every Python, or equal input has not given an equal selection.

`make same-reports` runs it on every supported Python that is found and compares what they print. Weights and hints are
tenths and thirds, whose sums no two ways of adding round alike.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import cupel
from cupel import ContextBudget, ContextItem, OverflowStrategy, Pipeline, Scorer, Slicer
from cupel import CountQuotaEntry as Count
from cupel import QuotaEntry as Quota

POOLS = 6
START = datetime(2025, 1, 1, tzinfo=UTC)
KINDS = ("Message", "Document", "ToolOutput", "Memory")
TAGS = ("alpha", "beta", "gamma", "delta", "epsilon")
TENTHS = {tag: (place + 1) / 10 for place, tag in enumerate(TAGS)}
SCORERS: dict[str, Scorer] = {
    "hint": cupel.ReflexiveScorer(),
    "tags": cupel.TagScorer(TENTHS),
    "large tags": cupel.TagScorer({tag: weight * 1e308 for tag, weight in TENTHS.items()} | {"zeta": 0.9e308}),
    "composite": cupel.CompositeScorer(
        [
            (cupel.ReflexiveScorer(), 0.7),
            (cupel.ScaledScorer(cupel.TagScorer(TENTHS)), 0.1),
            (cupel.FrequencyScorer(), 1 / 3),
            (cupel.RecencyScorer(), 0.2),
            (cupel.KindScorer(), 0.1),
        ]
    ),
}
SLICERS: dict[str, Slicer] = {
    "greedy": cupel.GreedySlice(),
    "best first": cupel.BestFirstSlice(),
    "knapsack": cupel.KnapsackSlice(7),
    "quota": cupel.QuotaSlice([Quota("Document", 11.1, 37.7), Quota("Memory", 3.3)], cupel.KnapsackSlice(5)),
    "shared quota": cupel.QuotaSlice([Quota("Document", cap=21.7), Quota("Message", 9.1)], leftover="share"),
    "count quota": cupel.CountQuotaSlice([Count("ToolOutput", 1, 2), Count("Document", 2, 9)]),
    "counted knapsack": cupel.CountConstrainedKnapsackSlice([Count("Memory", 1, 3)], cupel.KnapsackSlice(3)),
}


def pool(seed: int) -> list[ContextItem]:
    """Draw items, a third of them in groups and a third with forms."""
    draw = Random(seed).random
    items: list[ContextItem] = []
    for number in range(40):
        metadata: dict[str, Any] = {}
        if number % 3 == 0:
            metadata["cupel:group"] = f"group {number // 12}"
        if number % 3 == 1:
            metadata["cupel:id"] = f"entity {number}"
        shared: dict[str, Any] = {
            "kind": KINDS[int(draw() * 4)],
            "tags": [tag for tag in TAGS if draw() < 0.5],
            "future_relevance_hint": int(draw() * 21) / 20,
            "timestamp": START + timedelta(minutes=int(draw() * 30)) if draw() < 0.8 else None,
        }
        tokens = 5 * int(1 + draw() * 12)
        items.append(ContextItem(f"item {number}", tokens, metadata=metadata, pinned=number == 38, **shared))
        if "cupel:id" in metadata:
            short = {**metadata, "cupel:worth": int(draw() * 10) / 10}
            items.append(ContextItem(f"item {number}, shortened", tokens // 3, metadata=short, **shared))
    return items


def tie(alone: float, *hints: float) -> list[ContextItem]:
    """Return a group between single items of its tokens and score: only its rounding errors put it before or after."""
    group = {"cupel:group": "all or none"}
    members = [
        ContextItem(f"member {place}", 10, future_relevance_hint=hint, metadata=group)
        for place, hint in enumerate(hints)
    ]
    first, last = (ContextItem(f"{place} single", 30, future_relevance_hint=alone) for place in ("first", "last"))
    return [first, *members, last]


def selections() -> Iterator[tuple[str, Any]]:
    """Yield the report of each pool, scorer and slicer at two budgets, without its durations."""
    pools = {f"pool {seed}": pool(seed) for seed in range(POOLS)}
    pools |= {"tie above": tie(0.6, 0.5, 0.05, 0.05), "tie below": tie(0.65, 0.05, 0.3, 0.3)}
    for name, items in pools.items():
        everything = sum(item.tokens for item in items)
        for scorer_name, scorer in SCORERS.items():
            for slicer_name, slicer in SLICERS.items():
                pipeline = Pipeline(scorer=scorer, slicer=slicer, overflow=OverflowStrategy.TRUNCATE)
                for target in (everything // 7, everything // 3, everything // 2):
                    report = pipeline.dry_run(items, ContextBudget(everything, target)).to_dict()
                    del report["events"]
                    yield f"{name}, {scorer_name}, {slicer_name}, {target}", report


def conversations() -> Iterator[tuple[str, Any]]:
    """Yield the request that `fit` makes of a chat with tools, for several budgets."""
    draw = Random(0).random
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You repair a billing service."}]
    for number in range(12):
        function = {"name": "read_file", "arguments": json.dumps({"path": f"src/file{number}.py"})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        lines = [f"line {line}: value {int(draw() * 1000)}" for line in range(int(5 + draw() * 40))]
        messages += [
            {"role": "user", "content": f"What does file{number}.py do, and why does it fail?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": "\n".join(lines)},
            {"role": "assistant", "content": f"It computes value {int(draw() * 1000)}; line {number} is wrong."},
        ]
    messages.append({"role": "user", "content": "Summarise the faults."})
    for budget in (400, 900, 2000, 10_000):
        yield f"conversation, {budget}", cupel.fit(messages, budget, provider="openai").messages


def main() -> None:
    for name, outcome in (*selections(), *conversations()):
        print(json.dumps({"name": name, "outcome": outcome}, sort_keys=True))


if __name__ == "__main__":
    main()
