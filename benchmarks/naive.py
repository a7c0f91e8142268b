"""The specification's pseudocode, loop for loop, beside the library: the same selections, and what each costs."""

from __future__ import annotations

from typing import Any

import cupel.policy
from benchmarks.measure import garbage_collection, timed
from benchmarks.pools import budget_for, mixed_pool
from benchmarks.rows import ROWS
from cupel import ContextItem, KnapsackSlice, Pipeline
from tests import oracle

MOST_SECONDS = 20.0  # the next size, ten times the items, is left out if cubic growth could take it beyond this


def measure_naive(largest: int = 1_000, *, seconds: float = 0.3) -> list[dict[str, Any]]:
    """Run both on the same pools; raises if they ever select differently."""
    cells: list[dict[str, Any]] = []
    for row in ROWS:
        if row.pipeline.slicer == KnapsackSlice("auto"):
            continue  # not in the specification
        policy = _spelled_out(row.pipeline)
        for size in (size for size in row.sizes if size <= largest):
            pool, budget = mixed_pool(size, tags=row.tags), budget_for(size, row.target)
            doubles = [_double(item) for item in pool]
            limits = oracle.Budget(budget.max_tokens, budget.target_tokens)
            if [pool[p].content for p in oracle.run(policy, doubles, limits).output] != [
                item.content for item in row.pipeline.run(pool, budget)
            ]:
                msg = f"{row.name} selects differently from the pseudocode at {size} items"
                raise AssertionError(msg)
            with garbage_collection(enabled=True):
                naive = timed(lambda: oracle.run(policy, doubles, limits), seconds=seconds, least=1)  # noqa: B023
                own = timed(lambda: row.pipeline.run(pool, budget), seconds=seconds)  # noqa: B023
            cells.append(
                {
                    "row": row.name,
                    "items": size,
                    "naive": naive.best,
                    "cupel": own.best,
                    "ratio": round(naive.best / own.best, 1),
                }
            )
            if naive.best * 1e-6 * 1_000 > MOST_SECONDS:
                break
    return cells


def _spelled_out(pipeline: Pipeline) -> dict[str, Any]:
    """The policy document without its abbreviations."""
    document = cupel.policy.to_dict(Pipeline(scorer=pipeline.scorer, slicer=pipeline.slicer, placer=pipeline.placer))
    return {
        "scorer": _object(document["scorer"]),
        "slicer": _object(document.get("slicer", "greedy")),
        "placer": document.get("placer", "chronological"),
    }


def _object(form: Any) -> Any:
    if isinstance(form, str):
        return {"type": form}
    full = {key: _object(value) if key in {"inner", "scorer"} else value for key, value in form.items()}
    if "scorers" in full:
        full["scorers"] = [_object(entry) for entry in full["scorers"]]
    if full.get("type") in {"quota", "count_quota"}:
        full.setdefault("inner", {"type": "greedy"})
    return full


def _double(item: ContextItem) -> oracle.Item:
    return oracle.Item(
        item.content,
        item.tokens,
        kind=item.kind.value,
        source=item.source.value,
        priority=item.priority,
        tags=item.tags,
        timestamp=item.timestamp,
        future_relevance_hint=item.future_relevance_hint,
    )
