"""What `OptimalSlice` gains over greedy, and what it costs beside the solver on the whole problem.

`python -m benchmarks.optimal` prints a table. All pools are seeded. Times are processor time, medians over the pools;
compare them within one run only.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from statistics import fmean, median
from typing import Any

from benchmarks.pools import KINDS
from cupel import ContextBudget, ContextItem, GreedySlice, KindLimit, OptimalSlice, ReflexiveScorer, ScoredItem
from cupel._columns import Candidates
from cupel._optimum import Problem
from cupel._optimum._highs import branch
from cupel._optimum._model import Model
from cupel._optimum._problem import reduced
from cupel._optimum._rows import rows_of
from cupel.slicers import Chooser, scaled_score
from cupel.slicers import _optimal_chooser as chooser_module

SIZES = (200, 500, 2_000)
SMALL = (30, 60, 200)
FAMILIES = ("none", "forms", "groups and requires", "all, with limits")
SHARE = 0.3
"""Of all tokens, in the longest forms, that fit."""


def pool(rng: random.Random, count: int, family: str) -> list[ContextItem]:
    """About so many items; related ones come as calls with their results, files that need others, and rivals."""
    items: list[ContextItem] = []
    ids: list[str] = []
    while len(items) < count:
        first = len(ids)
        is_tied = family.startswith(("groups", "all"))
        size = rng.randint(2, 4) if is_tied and rng.random() < 0.2 else 1
        for _ in range(size):
            relations: dict[str, Any] = {"cupel:id": f"t{len(ids)}"} if family != "none" else {}
            if is_tied:
                if size > 1:
                    relations["cupel:group"] = f"g{first}"
                elif ids and rng.random() < 0.25:
                    relations["cupel:requires"] = [rng.choice(ids[-20:])]
                elif rng.random() < 0.05:
                    relations["cupel:exclusive"] = f"x{len(ids) // 40}"
            items += _forms(rng, relations, shortened=family.startswith(("forms", "all")) and rng.random() < 0.7)
            ids.append(f"t{len(ids)}")
    return items


def _forms(rng: random.Random, relations: dict[str, Any], *, shortened: bool) -> Iterator[ContextItem]:
    tokens, hint, kind = 5 + int(rng.lognormvariate(5.5, 1.0)), rng.random(), rng.choice(KINDS)
    for cost, worth in ((tokens, 1.0), (tokens // 3 + 1, 0.7), (12, 0.1)) if shortened else ((tokens, 1.0),):
        own = {"cupel:worth": worth} if worth < 1 else {}
        yield ContextItem(f"{rng.random()}", cost, kind=kind, future_relevance_hint=hint, metadata={**relations, **own})


def limits(family: str, count: int) -> list[KindLimit]:
    """Two limits from above and two from below."""
    if not family.startswith("all"):
        return []
    most, least = (KindLimit(KINDS[0], max_count=count // 20), KindLimit(KINDS[1], max_tokens=count * 20)), count // 20
    return [*most, KindLimit(KINDS[2], min_count=least), KindLimit(KINDS[3], min_tokens=count * 15)]


def cases(family: str, count: int, pools: int, share: float) -> Iterator[tuple[Candidates, ContextBudget]]:
    """Seeded pools as a slicer sees them, with a budget of a share of their tokens in the longest forms."""
    for seed in range(pools):
        items = pool(random.Random(seed), count, family)
        scored = sorted(map(ScoredItem, items, ReflexiveScorer().score_all(items)), key=lambda one: -one.score)
        target = int(share * sum(one.tokens for one in items if one.metadata.get("cupel:worth", 1.0) == 1.0))
        yield Candidates.of(scored), ContextBudget(target, target)


def measure(family: str, count: int, pools: int, *, whole: bool) -> dict[str, float]:
    """Median milliseconds of each, and the mean gap that is proved."""
    found: dict[str, list[float]] = {"greedy": [], "optimal": [], "whole": [], "gap": []}
    for candidates, budget in cases(family, count, pools, SHARE):
        slicer = OptimalSlice(limits(family, count))
        best, taken = _timed(slicer.fit(candidates), budget)
        found["optimal"].append(taken)
        found["greedy"].append(_timed(GreedySlice().fit(candidates), budget)[1])
        found["gap"].append(best.certificate.gap)
        if whole:
            found["whole"].append(_whole(slicer, candidates, budget))
    return {name: (fmean if name == "gap" else median)(values) for name, values in found.items() if values}


def losses(family: str, count: int, pools: int, share: float) -> list[float]:
    """Which share of the best value greedy misses, in each pool."""
    found: list[float] = []
    for candidates, budget in cases(family, count, pools, share):
        best = OptimalSlice(gap=0.0).fit(candidates)(budget).certificate
        greedy = _value(candidates, GreedySlice().fit(candidates)(budget).chosen)
        found.append(1 - greedy / best.value if best is not None and best.value else 0.0)
    return found


def _timed(chooser: Chooser, budget: ContextBudget) -> tuple[Any, float]:
    start = time.process_time()
    selection = chooser(budget)
    return selection, (time.process_time() - start) * 1_000


def _value(candidates: Candidates, chosen: list[int]) -> int:
    worths = (candidates.items[position].metadata.get("cupel:worth", 1.0) for position in chosen)
    return sum(
        scaled_score(candidates.scores[position] * worth) for position, worth in zip(chosen, worths, strict=True)
    )


def _whole(slicer: OptimalSlice, candidates: Candidates, budget: ContextBudget) -> float:
    """Give the solver everything at once, to the same gap."""
    caught: list[Problem] = []
    chooser = slicer.fit(candidates)
    solve: Callable[..., Any] = chooser_module.solve
    try:
        chooser_module.solve = lambda problem, effort: caught.append(problem) or solve(problem, effort)  # type: ignore[assignment]
        chooser(budget)
    finally:
        chooser_module.solve = solve
    problem = reduced(caught[0])
    start = time.process_time()
    model = Model(problem, rows_of(problem))
    branch(model, [0.0] * len(model.values), slicer.gap)
    return (time.process_time() - start) * 1_000


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=int, default=9)
    parser.add_argument("--no-whole", action="store_true", help="do not give the solver the whole problem")
    options = parser.parse_args()
    print("| relations | items | greedy, ms | optimal, ms | solver alone, ms | mean gap |")
    print("|---|--:|--:|--:|--:|--:|")
    for family in FAMILIES:
        for count in SIZES:
            row = measure(family, count, options.pools, whole=not options.no_whole)
            whole = f"{row['whole']:.0f}" if "whole" in row else "–"
            times = f"{row['greedy']:.1f} | {row['optimal']:.1f} | {whole}"
            print(f"| {family} | {count:,} | {times} | {row['gap']:.2%} |", flush=True)
    print("\n| relations | items | share that fits | greedy loses | at most |\n|---|--:|--:|--:|--:|")
    for family in FAMILIES[:-1]:  # greedy knows no limits
        for count in SMALL:
            for share in (0.1, SHARE):
                found = losses(family, count, options.pools * 4, share)
                print(f"| {family} | {count} | {share:.0%} | {fmean(found):.1%} | {max(found):.1%} |", flush=True)


if __name__ == "__main__":
    main()
