"""The best selection, by trying every subset against the rules as they are written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from tests.oracle.records import Item, fold

INT64_MAX = 2**63 - 1

Scored = Sequence[tuple[Item, float]]


def form_value(item: Item, score: float) -> int:
    worth = item.metadata.get("cupel:worth", 1.0)
    scaled = score * worth * 10000 if worth else 0.0
    if math.isnan(scaled) or scaled == -math.inf:
        return 0
    return INT64_MAX if scaled >= INT64_MAX else max(0, math.floor(scaled))


def keeps_relations(items: Sequence[Item], everyone: Sequence[Item]) -> bool:
    """Whether a subset keeps forms and groups."""
    ids = [item.metadata["cupel:id"] for item in items if "cupel:id" in item.metadata]
    if len(ids) > len(set(ids)):
        return False
    return all(
        _entities(items, item.metadata["cupel:group"]) == _entities(everyone, item.metadata["cupel:group"])
        for item in items
        if "cupel:group" in item.metadata
    )


def _entities(items: Sequence[Item], group: str) -> set[object]:
    """The members of a group: by id, or by identity for those that have none."""
    return {item.metadata.get("cupel:id", id(item)) for item in items if item.metadata.get("cupel:group") == group}


def amounts(spec: Mapping[str, Any], items: Sequence[Item]) -> list[tuple[str, str, int, int]]:
    """Kind, what is counted, how much is wanted and how much there is, for each minimum in its order."""
    found = []
    for limit in spec.get("limits", ()):
        own = [item.tokens for item in items if fold(item.kind) == fold(limit["kind"])]
        for name, got in (("min_count", len(own)), ("min_tokens", sum(own))):
            if limit.get(name, 0):
                found.append((limit["kind"], name, limit[name], min(got, limit[name])))
    return found


def is_within_limits(spec: Mapping[str, Any], items: Sequence[Item]) -> bool:
    for limit in spec.get("limits", ()):
        own = [item.tokens for item in items if fold(item.kind) == fold(limit["kind"])]
        if len(own) > limit.get("max_count", math.inf) or sum(own) > limit.get("max_tokens", math.inf):
            return False
    return True


def _allowed_subsets(spec: Mapping[str, Any], scored: Scored, target: int) -> Iterator[list[int]]:
    everyone = [item for item, _ in scored]
    for taken in product((False, True), repeat=len(scored)):
        positions = [position for position, is_in in enumerate(taken) if is_in]
        items = [everyone[position] for position in positions]
        fits = sum(item.tokens for item in items) <= target
        if fits and is_within_limits(spec, items) and keeps_relations(items, everyone):
            yield positions


def best_positions(
    spec: Mapping[str, Any], scored: Scored, target: int
) -> tuple[list[int], list[tuple[str, int, int]]]:
    """Minima first, in their order, then the greatest value; counts that are short."""

    def goodness(positions: list[int]) -> tuple[list[int], int]:
        reached = [got for *_, got in amounts(spec, [scored[position][0] for position in positions])]
        return reached, sum(form_value(*scored[position]) for position in positions)

    best = max(_allowed_subsets(spec, scored, target), key=goodness)
    short = [
        (kind, wanted, got)
        for kind, name, wanted, got in amounts(spec, [scored[position][0] for position in best])
        if got < wanted and name == "min_count"
    ]
    return best, short
