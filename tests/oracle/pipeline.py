"""The six stages and the report, joined by the position of an item in the input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracle import relations
from tests.oracle.placers import place
from tests.oracle.records import Budget, Item, OracleError, descending, fold
from tests.oracle.scorers import score_all
from tests.oracle.slicers import Choice, choose

Reason = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """Everything a run may be asked about; items appear as positions in the input."""

    output: list[int]
    included: list[tuple[int, float, str]]
    excluded: list[tuple[int, float, str, dict[str, Any]]]
    events: list[tuple[str, int]]
    shortfalls: tuple[tuple[str, int, int], ...]
    total_candidates: int
    total_tokens_considered: int
    overflow: tuple[int, list[int]] | None


def run(policy: Mapping[str, Any], items: Sequence[Item], budget: Budget) -> Outcome:
    pinned, scoreable, excluded = _classify(items, budget, policy.get("pins", ()))
    scores = dict(zip(scoreable, score_all(policy["scorer"], [items[p] for p in scoreable]), strict=True))
    events = [("Classify", len(pinned) + len(scoreable)), ("Score", len(scoreable))]
    unique, twins = _deduplicate(items, scoreable, scores, policy.get("deduplication", True))
    excluded += twins
    events.append(("Deduplicate", len(unique)))
    ranked = [unique[i] for i in descending([scores[p] for p in unique])]
    sliced, choice, dropped = _slice(policy["slicer"], items, ranked, scores=scores, budget=budget, pinned=pinned)
    excluded += dropped
    events.append(("Slice", len(sliced)))
    scores.update(dict.fromkeys(pinned, 1.0))
    merged, truncated, overflow = _overflow(
        policy.get("overflow", "throw"), items, pinned=pinned, sliced=sliced, scores=scores, budget=budget
    )
    excluded += truncated
    placed = [merged[i] for i in place(policy["placer"], [(items[p], scores[p]) for p in merged])]
    events.append(("Place", len(placed)))
    return Outcome(
        output=placed,
        included=[(p, scores[p], "Pinned" if p in pinned else _inclusion(items[p])) for p in placed],
        excluded=[excluded[i] for i in descending([entry[1] for entry in excluded])],
        events=events,
        shortfalls=choice.shortfalls,
        total_candidates=len(items),
        total_tokens_considered=sum(item.tokens for item in items),
        overflow=overflow,
    )


def _inclusion(item: Item) -> str:
    return "ZeroToken" if item.tokens == 0 else "Scored"


def _classify(items: Sequence[Item], budget: Budget, rules: Sequence[Any]) -> tuple[list[int], list[int], list[Any]]:
    pinned, scoreable, excluded = [], [], []
    usable = [p for p, item in enumerate(items) if item.tokens >= 0]
    ruled = {p for rule in rules for p in _ruled(items, usable, rule)}
    for position, item in enumerate(items):
        if item.tokens < 0:
            excluded.append((position, 0.0, "NegativeTokens", {"tokens": item.tokens}))
        elif item.pinned or position in ruled:
            pinned.append(position)
        else:
            scoreable.append(position)
    required = sum(items[p].tokens for p in pinned)
    available = budget.max_tokens - budget.output_reserve
    if required > available:
        raise OracleError(
            "pinned_exceeds_budget", f"Pinned items require {required} tokens, but only {available} are available"
        )
    return pinned, scoreable, excluded


def _ruled(items: Sequence[Item], usable: list[int], rule: Mapping[str, Any]) -> list[int]:
    """The positions a pin rule names: every condition holds, and of these the newest, later places being newer."""
    found = []
    for p in usable:
        item = items[p]
        if "kind" in rule and fold(item.kind) != fold(rule["kind"]):
            continue
        if "source" in rule and fold(item.source) != fold(rule["source"]):
            continue
        if "tag" in rule and rule["tag"] not in item.tags:
            continue
        if any(item.metadata.get(key) != value for key, value in rule.get("metadata", {}).items()):
            continue
        found.append(p)
    if "newest" not in rule:
        return found
    undated = [p for p in found if items[p].timestamp is None]
    dated = sorted((p for p in found if items[p].timestamp is not None), key=lambda p: (items[p].timestamp, p))
    return (undated + dated)[-rule["newest"] :]


def _deduplicate(
    items: Sequence[Item], scoreable: list[int], scores: Mapping[int, float], enabled: bool
) -> tuple[list[int], list[Any]]:
    if not enabled:
        return scoreable, []
    best: dict[str, int] = {}
    for position in scoreable:
        content = items[position].content
        if content not in best or scores[position] > scores[best[content]]:
            best[content] = position
    survivors = [p for p in scoreable if best[items[p].content] == p]
    twins = [
        (p, scores[p], "Deduplicated", {"deduplicated_against": items[p].content})
        for p in scoreable
        if best[items[p].content] != p
    ]
    return survivors, twins


def effective_budget(budget: Budget, pinned_tokens: int) -> tuple[int, int]:
    reserved = sum(budget.reserved_slots.values())
    maximum = max(0, budget.max_tokens - budget.output_reserve - pinned_tokens - reserved)
    target = min(max(0, budget.target_tokens - pinned_tokens - reserved), maximum)
    if budget.estimation_safety_margin_percent > 0:
        multiplier = 1.0 - budget.estimation_safety_margin_percent / 100.0
        maximum = math.floor(maximum * multiplier)
        target = min(math.floor(target * multiplier), maximum)
    return maximum, target


def _slice(
    slicer: Mapping[str, Any],
    items: Sequence[Item],
    ranked: list[int],
    *,
    scores: Mapping[int, float],
    budget: Budget,
    pinned: list[int],
) -> tuple[list[int], Choice, list[Any]]:
    maximum, target = effective_budget(budget, sum(items[p].tokens for p in pinned))
    entries, fixed = [(items[p], scores[p]) for p in ranked], [items[p] for p in pinned]
    related = relations.are_related(items)
    negative = [item for item in items if item.tokens < 0]
    if related:
        choice = Choice(relations.choose(slicer["type"], entries, fixed, negative, target))
    else:
        choice = choose(slicer, entries, maximum, target)
    taken = set(choice.positions)
    sliced = [p for i, p in enumerate(ranked) if i in taken]  # sorted order, not the slicer's (ruling 3.15)
    excluded = []
    for i, p in enumerate(ranked):
        if i not in taken:
            facts = {"sliced": sliced, "budget": budget, "pinned": pinned, "target": target}
            name, fields = _slice_reason(slicer, items, items[p], **facts)
            if related:
                inside = fixed + [items[q] for q in sliced]
                found = relations.reason(items[p], inside, negative)
                name, fields = found or (name, fields)
                if name == "BudgetExceeded":
                    fields["item_tokens"] = relations.needs(items[p], [items[q] for q in ranked], inside)
            excluded.append((p, scores[p], name, fields))
    return sliced, choice, excluded


def _slice_reason(
    slicer: Mapping[str, Any],
    items: Sequence[Item],
    item: Item,
    *,
    sliced: list[int],
    budget: Budget,
    pinned: list[int],
    target: int,
) -> Reason:
    for entry in slicer.get("entries", ()):  # only the outermost slicer's own entries
        if fold(entry["kind"]) == fold(item.kind):
            count = sum(fold(items[p].kind) == fold(item.kind) for p in sliced)
            if count >= entry.get("cap_count", math.inf) and item.tokens <= target:
                return "CountCapExceeded", {"kind": item.kind, "cap": entry["cap_count"], "count": count}
    for entry in slicer.get("quotas", ()) if slicer.get("leftover") == "share" else ():
        if fold(entry["kind"]) == fold(item.kind):
            cap = math.floor(entry.get("cap", 100.0) / 100.0 * target)
            actual = item.tokens + sum(items[p].tokens for p in sliced if fold(items[p].kind) == fold(item.kind))
            if item.tokens <= target and cap < target and cap < actual:
                return "QuotaCapExceeded", {"kind": item.kind, "cap": cap, "actual": actual}
    heavy = [p for p in pinned if items[p].tokens > 0]
    if heavy and target < item.tokens <= effective_budget(budget, 0)[1]:
        return "PinnedOverride", {"displaced_by": items[heavy[0]].content}
    available = target - sum(items[p].tokens for p in sliced)
    return "BudgetExceeded", {"item_tokens": item.tokens, "available_tokens": available}


def _overflow(
    strategy: str,
    items: Sequence[Item],
    *,
    pinned: list[int],
    sliced: list[int],
    scores: Mapping[int, float],
    budget: Budget,
) -> tuple[list[int], list[Any], tuple[int, list[int]] | None]:
    merged = pinned + sliced
    total = sum(items[p].tokens for p in merged)
    over = total - budget.target_tokens
    if over <= 0:
        return merged, [], None
    if strategy == "throw":
        raise OracleError(
            "overflow", f"Selected items require {total} tokens, exceeding target budget of {budget.target_tokens}"
        )
    if strategy == "proceed":
        return merged, [], (over, merged)
    heavy = [p for p in pinned if items[p].tokens > 0]
    kept, used, unpinned, lost = [], 0, 0, []
    for p in merged:
        if p in pinned or used + items[p].tokens <= budget.target_tokens:
            kept.append(p)
            used += items[p].tokens
            unpinned += 0 if p in pinned else items[p].tokens
        else:
            lost.append((p, bool(heavy) and unpinned + items[p].tokens <= budget.target_tokens))
    excluded = []
    for p, displaced in lost:
        if displaced:
            excluded.append((p, scores[p], "PinnedOverride", {"displaced_by": items[heavy[0]].content}))
        else:
            fields = {"item_tokens": items[p].tokens, "available_tokens": budget.target_tokens - used}
            excluded.append((p, scores[p], "BudgetExceeded", fields))
    return kept, excluded, None
