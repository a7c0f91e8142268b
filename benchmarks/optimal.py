"""What `OptimalSlice` gains over greedy, and what it costs beside the solver on the whole problem.

`python -m benchmarks.optimal` prints a table. All pools are seeded. Times are processor time, medians over the pools;
compare them within one run only.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median
from typing import Any

from benchmarks.pools import KINDS
from benchmarks.tables import markdown
from cupel import ContextBudget, ContextItem, GreedySlice, KindLimit, OptimalSlice, ReflexiveScorer, ScoredItem
from cupel._internal.columns import Candidates, scaled_score
from cupel.slicers import Slicer
from cupel.slicers import _optimal as chooser_module
from cupel.slicers._optimal import Problem, run_solver

SIZES = (200, 500, 2_000)
SMALL = (30, 60, 200)
FAMILIES = ("none", "forms", "groups", "all, with limits")
POOLS = 5
SHARE = 0.3
"""Of all tokens, in the longest forms, that fit."""


def pool(rng: random.Random, count: int, family: str) -> list[ContextItem]:
    """About this many items; related ones come as calls with their results, in groups of two to four."""
    items: list[ContextItem] = []
    ids: list[str] = []
    while len(items) < count:
        first = len(ids)
        is_tied = family.startswith(("groups", "all"))
        size = rng.randint(2, 4) if is_tied and rng.random() < 0.2 else 1
        for _ in range(size):
            relations: dict[str, Any] = {"cupel:id": f"t{len(ids)}"} if family != "none" else {}
            if size > 1:
                relations["cupel:group"] = f"g{first}"
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


def measure_optimal(pools: int = POOLS) -> list[dict[str, Any]]:
    """A row for each kind of relations and number of items."""
    return [measure(family, count, pools) for family in FAMILIES for count in SIZES]


def measure(family: str, count: int, pools: int, *, whole: bool = False) -> dict[str, Any]:
    """Median milliseconds of each, the share of the best value that greedy misses, and the mean gap that is proved."""
    found: dict[str, list[float]] = {"greedy": [], "optimal": [], "whole": [], "gap": [], "lost": []}
    for candidates, budget in cases(family, count, pools, SHARE):
        slicer = OptimalSlice(limits(family, count))
        best, taken = _timed(slicer, candidates, budget)
        found["optimal"].append(taken)
        greedy, taken = _timed(GreedySlice(), candidates, budget)
        found["greedy"].append(taken)
        found["gap"].append(best.certificate.gap)
        found["lost"].append(1 - _value(candidates, greedy.chosen) / best.certificate.value)
        if whole:
            found["whole"].append(_whole(slicer, candidates, budget))
    means = {name: fmean(values) for name, values in found.items() if name in {"gap", "lost"}}
    return {
        "relations": family,
        "items": count,
        **{name: median(values) for name, values in found.items() if values and name not in means},
        **means,
        "worst": max(found["lost"]),
    }


def losses(family: str, count: int, pools: int, share: float) -> list[float]:
    """Which share of the best value greedy misses, in each pool."""
    found: list[float] = []
    for candidates, budget in cases(family, count, pools, share):
        best = OptimalSlice(gap=0.0).prepare(candidates)(budget).certificate
        greedy = _value(candidates, GreedySlice().prepare(candidates)(budget).chosen)
        found.append(1 - greedy / best.value if best is not None and best.value else 0.0)
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The Markdown table for the page about choosing a slicer."""
    return markdown(
        ["relations", "items", "greedy, ms", "optimal, ms", "greedy loses", "at most", "proved gap"],
        (
            [
                row["relations"],
                f"{row['items']:,}",
                f"{row['greedy']:.1f}",
                f"{row['optimal']:.1f}",
                # Greedy keeps no limits, so its total says nothing beside one that does.
                *(
                    "–" if row["relations"].startswith("all") else f"{100 * row[name]:.2f} %"
                    for name in ("lost", "worst")
                ),
                _percent(row["gap"]),
            ]
            for row in rows
        ),
    )


def _percent(share: float) -> str:
    return f"{round(100 * share, 2) + 0.0:.2f} %"  # minus nothing is nothing


def _timed(slicer: Slicer, candidates: Candidates, budget: ContextBudget) -> tuple[Any, float]:
    """The choice, and the best of three times that it took, seeing the candidates included."""
    taken: list[float] = []
    for _ in range(3):
        start = time.process_time()
        selection = slicer.prepare(candidates)(budget)
        taken.append((time.process_time() - start) * 1_000)
    return selection, min(taken)


def _value(candidates: Candidates, chosen: list[int]) -> int:
    worths = (candidates.items[position].metadata.get("cupel:worth", 1.0) for position in chosen)
    return sum(
        scaled_score(candidates.scores[position] * worth) for position, worth in zip(chosen, worths, strict=True)
    )


def _whole(slicer: OptimalSlice, candidates: Candidates, budget: ContextBudget) -> float:
    """Give the solver everything at once, to the same gap."""
    caught: list[Problem] = []
    chooser = slicer.prepare(candidates)
    solve: Callable[..., Any] = chooser_module.solve
    try:
        chooser_module.solve = lambda problem, slicer: caught.append(problem) or solve(problem, slicer)  # type: ignore[assignment]
        chooser(budget)
    finally:
        chooser_module.solve = solve
    (problem,) = caught
    start = time.process_time()
    run_solver(problem, [()] * len(problem.groups), slicer.gap)
    return (time.process_time() - start) * 1_000


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=int, default=9)
    parser.add_argument("--no-whole", action="store_true", help="do not give the solver the whole problem")
    options = parser.parse_args()
    rows = [measure(family, count, options.pools, whole=not options.no_whole) for family in FAMILIES for count in SIZES]
    print(table(rows))
    if not options.no_whole:
        print("\nthe solver alone, ms:", ", ".join(f"{row['whole']:.0f}" for row in rows))
    print("\n| relations | items | share that fits | greedy loses | at most |\n|---|--:|--:|--:|--:|")
    for family in FAMILIES[:-1]:  # greedy knows no limits
        for count in SMALL:
            for share in (0.1, SHARE):
                found = losses(family, count, options.pools * 4, share)
                print(f"| {family} | {count} | {share:.0%} | {fmean(found):.1%} | {max(found):.1%} |", flush=True)


if __name__ == "__main__":
    main()
