"""The slicers; each returns positions into the list it was given, in the order the pseudocode emits them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracle.optimal import best_positions
from tests.oracle.records import Item, OracleError, descending, fold

Spec = Mapping[str, Any]
Scored = Sequence[tuple[Item, float]]

CELL_LIMIT = 50_000_000
INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class Choice:
    """What a slicer picked; `dropped` are positions the inner slicer picked and a count cap threw out."""

    positions: list[int]
    shortfalls: tuple[tuple[str, int, int], ...] = ()
    dropped: tuple[int, ...] = ()


def choose(spec: Spec, scored: Scored, max_tokens: int, target_tokens: int) -> Choice:
    usable = [p for p, (item, _) in enumerate(scored) if item.tokens >= 0]  # ruling 5.4
    if not scored or target_tokens <= 0:
        return Choice([])
    choice = SLICERS[spec["type"]](spec, [scored[p] for p in usable], max_tokens, target_tokens)
    return Choice([usable[p] for p in choice.positions], choice.shortfalls, tuple(usable[p] for p in choice.dropped))


def _greedy(spec: Spec, scored: Scored, max_tokens: int, target_tokens: int) -> Choice:
    densities = [sys.float_info.max if item.tokens == 0 else score / item.tokens for item, score in scored]
    remaining, chosen = target_tokens, []
    for position in descending(densities):
        tokens = scored[position][0].tokens
        if tokens == 0:
            chosen.append(position)
        elif tokens <= remaining:
            chosen.append(position)
            remaining -= tokens
    return Choice(chosen)


def _best_first(spec: Spec, scored: Scored, max_tokens: int, target_tokens: int) -> Choice:
    remaining, chosen = target_tokens, []
    for position in descending([score for _, score in scored]):
        if scored[position][0].tokens <= remaining:
            chosen.append(position)
            remaining -= scored[position][0].tokens
    return Choice(chosen)


def _stream(spec: Spec, scored: Scored, max_tokens: int, target_tokens: int) -> Choice:
    """The streaming slicer on a stream that holds exactly these items (ruling 14.9)."""
    size, remaining, chosen = spec.get("batch_size", 32), target_tokens, []
    for start in range(0, len(scored), size):
        if remaining <= 0:
            break
        batch = list(range(start, min(start + size, len(scored))))
        for i in descending([scored[p][1] for p in batch]):
            if scored[batch[i]][0].tokens <= max(0, remaining):
                chosen.append(batch[i])
                remaining -= scored[batch[i]][0].tokens
    return Choice(chosen)


def _value(score: float) -> int:
    scaled = score * 10000
    if math.isnan(scaled) or scaled == -math.inf:
        return 0
    return INT64_MAX if scaled >= INT64_MAX else max(0, math.floor(scaled))


def _knapsack(spec: Spec, scored: Scored, max_tokens: int, target_tokens: int) -> Choice:
    bucket = spec.get("bucket_size", 100)
    free = [p for p, (item, _) in enumerate(scored) if item.tokens == 0]
    candidates = [p for p, (item, _) in enumerate(scored) if item.tokens > 0]
    capacity = target_tokens // bucket
    if not candidates or capacity == 0:
        return Choice(free)
    limit = spec.get("max_cells", CELL_LIMIT)
    if limit is not None and len(candidates) * (capacity + 1) > limit:
        raise OracleError("table_too_large")
    weights = [-(-scored[p][0].tokens // bucket) for p in candidates]
    values = [_value(scored[p][1]) for p in candidates]
    best = [0] * (capacity + 1)
    keep = [[False] * (capacity + 1) for _ in candidates]
    for i in range(len(candidates)):
        for w in range(capacity, weights[i] - 1, -1):
            with_item = best[w - weights[i]] + values[i]
            if with_item > best[w]:
                best[w] = with_item
                keep[i][w] = True
    picked, left = [], capacity
    for i in range(len(candidates) - 1, -1, -1):
        if keep[i][left]:
            picked.append(candidates[i])
            left -= weights[i]
    return Choice(free + picked)


def _partitions(scored: Scored) -> dict[str, list[int]]:
    partitions: dict[str, list[int]] = {}
    for position, (item, _) in enumerate(scored):
        partitions.setdefault(fold(item.kind), []).append(position)
    return partitions


def _inner(spec: Spec, scored: Scored, positions: list[int], max_tokens: int, target_tokens: int) -> list[int]:
    inner = choose(spec, [scored[p] for p in positions], max_tokens, target_tokens)
    return [positions[p] for p in inner.positions]


def _quota(spec: Spec, scored: Scored, max_tokens: int, target_tokens: int) -> Choice:
    partitions = _partitions(scored)
    mass = {kind: sum(scored[p][0].tokens for p in positions) for kind, positions in partitions.items()}
    require: dict[str, int] = {}
    cap: dict[str, int] = {}
    for entry in spec["quotas"]:
        require[fold(entry["kind"])] = math.floor(entry.get("require", 0.0) / 100.0 * target_tokens)
        cap[fold(entry["kind"])] = math.floor(entry.get("cap", 100.0) / 100.0 * target_tokens)
    unassigned = max(0, target_tokens - sum(require.values()))
    growing = [kind for kind in partitions if cap.get(kind, target_tokens) > require.get(kind, 0)]
    total_mass = sum(mass[kind] for kind in growing)
    chosen: dict[str, list[int]] = {}
    inner = spec.get("inner", {"type": "greedy"})
    budgets: dict[str, int] = {}
    for kind, positions in partitions.items():
        share = unassigned * mass[kind] // total_mass if kind in growing and total_mass > 0 else 0
        ceiling = cap.get(kind, target_tokens)
        budgets[kind] = min(require.get(kind, 0) + share, ceiling)
        chosen[kind] = _inner(inner, scored, positions, ceiling, budgets[kind]) if budgets[kind] > 0 else []
    if spec.get("leftover") == "share":
        _hand_on(inner, scored, partitions, chosen, budgets, cap, target_tokens)
    return Choice([position for positions in chosen.values() for position in positions])


def _hand_on(inner, scored, partitions, chosen, budgets, cap, target_tokens) -> None:
    """Offer what is left to the kinds, the one whose first candidate left out comes first in the list first."""
    waiting = {
        kind: min(position for position in positions if position not in chosen[kind])
        for kind, positions in partitions.items()
        if set(positions) != set(chosen[kind])
    }
    for kind in sorted(waiting, key=waiting.__getitem__):
        left = target_tokens - sum(scored[p][0].tokens for positions in chosen.values() for p in positions)
        used = sum(scored[p][0].tokens for p in chosen[kind])
        ceiling = cap.get(kind, target_tokens)
        if min(used + left, ceiling) > budgets[kind]:
            chosen[kind] = _inner(inner, scored, partitions[kind], ceiling, min(used + left, ceiling))


def _commit(spec: Spec, scored: Scored) -> tuple[list[int], dict[str, int], tuple[tuple[str, int, int], ...]]:
    """Phase 1 of both count slicers: the best `require_count` of each entry's kind, whatever they cost."""
    partitions = _partitions(scored)
    committed: list[int] = []
    counts: dict[str, int] = {}
    shortfalls = []
    for entry in spec["entries"]:
        wanted = entry.get("require_count", 0)
        if wanted <= 0:
            continue
        pool = partitions.get(fold(entry["kind"]), [])
        best = [pool[i] for i in descending([scored[p][1] for p in pool])][:wanted]
        committed += best
        counts[fold(entry["kind"])] = len(best)
        if len(best) < wanted:
            if spec.get("scarcity", "degrade") == "throw":
                message = f"kind '{entry['kind']}' has {len(best)} items but RequireCount is {wanted}."
                raise OracleError("scarcity", message)
            shortfalls.append((entry["kind"], wanted, len(best)))
    return committed, counts, tuple(shortfalls)


def _count_phases(
    spec: Spec, inner: Spec, scored: Scored, max_tokens: int, target_tokens: int, *, resort: bool
) -> Choice:
    committed, counts, shortfalls = _commit(spec, scored)
    caps = {fold(entry["kind"]): entry["cap_count"] for entry in spec["entries"] if "cap_count" in entry}
    residual = [p for p in range(len(scored)) if p not in committed]
    left = max(0, target_tokens - sum(scored[p][0].tokens for p in committed))
    first: Choice | None = None
    while True:
        picked = _inner(inner, scored, residual, max_tokens, min(left, max_tokens))
        if resort:
            picked = [picked[i] for i in descending([scored[p][1] for p in picked])]
        kept, full, dropped, used = list(committed), set(), [], dict(counts)
        for position in picked:
            kind = fold(scored[position][0].kind)
            if kind in caps and used.get(kind, 0) >= caps[kind]:
                if not dropped:
                    reached = {capped for capped in caps if used.get(capped, 0) >= caps[capped]}
                    full = {p for p in residual if fold(scored[p][0].kind) in reached and p not in kept}
                dropped.append(position)
            else:
                kept.append(position)
                used[kind] = used.get(kind, 0) + 1
        first = first or Choice(kept, shortfalls, tuple(dropped))
        if spec.get("leftover", "unused") != "share" or not dropped:
            return Choice(kept, shortfalls, first.dropped)
        residual = [p for p in residual if p not in full]


def _count_quota(spec: Spec, scored: Scored, max_tokens: int, target_tokens: int) -> Choice:
    return _count_phases(spec, spec.get("inner", {"type": "greedy"}), scored, max_tokens, target_tokens, resort=False)


def _count_constrained_knapsack(spec: Spec, scored: Scored, max_tokens: int, target_tokens: int) -> Choice:
    knapsack = {"type": "knapsack", "bucket_size": spec.get("bucket_size", 100)}
    return _count_phases(spec, knapsack, scored, max_tokens, target_tokens, resort=True)


def _optimal(spec: Spec, scored: Scored, max_tokens: int, target_tokens: int) -> Choice:
    """One of the best subsets; which one is open, so tests compare what it is worth."""
    positions, shortfalls = best_positions(spec, scored, target_tokens)
    if shortfalls and spec.get("scarcity", "degrade") == "throw":
        raise OracleError("scarcity", f"of kind '{shortfalls[0][0]}'")
    return Choice(positions, tuple(shortfalls))


SLICERS = {
    "greedy": _greedy,
    "best_first": _best_first,
    "knapsack": _knapsack,
    "quota": _quota,
    "count_quota": _count_quota,
    "count_constrained_knapsack": _count_constrained_knapsack,
    "optimal": _optimal,
    "stream": _stream,
}
