"""The knapsack solver beside a row-wise NumPy table: the same choices, and how long each takes.

Run it with ``python -m benchmarks solver``. Token counts are uniform from 20 to 800; "sorted"
pools come best score first, as the pipeline hands them over. Times are the best of the repetitions, in milliseconds;
"cells" is the size of the table that the solver's reductions leave.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np

from cupel.slicers._knapsack import solve, table_cells

SIZES = ((100, 20_500, 100), (1_000, 128_000, 100), (5_000, 128_000, 100), (1_000, 8_000, 1), (500, 100_000, 1))
FIVE_LEVELS = (0.2, 0.4, 0.6, 0.8, 1.0)
ODD_LEVELS = (0.13, 0.37, 0.57, 0.69, 0.91)
DISTRIBUTIONS: dict[str, Callable[[random.Random, list[int]], list[float]]] = {
    "uniform": lambda rng, tokens: [rng.random() for _ in tokens],
    "five levels": lambda rng, tokens: rng.choices(FIVE_LEVELS, k=len(tokens)),
    "five odd levels": lambda rng, tokens: rng.choices(ODD_LEVELS, k=len(tokens)),
    "recency ranks": lambda _, tokens: [i / (len(tokens) - 1) for i in range(len(tokens))],
    "proportional to tokens": lambda _, tokens: [count / 800 for count in tokens],
    "nearly proportional": lambda rng, tokens: [min(1.0, count / 900 + rng.random() / 10) for count in tokens],
    "all equal": lambda _, tokens: [0.5] * len(tokens),
    "uniform, equal tokens": lambda rng, tokens: [rng.random() for _ in tokens],
    "five levels, equal tokens": lambda rng, tokens: rng.choices(FIVE_LEVELS, k=len(tokens)),
}


def numpy_table(values: list[int], weights: list[int], capacity: int) -> list[int]:
    """Compute the whole table, one row of the specification's loop at a time."""
    best = np.zeros(capacity + 1, np.int64)
    keep = np.zeros((len(values), capacity + 1), bool)
    for i, (value, weight) in enumerate(zip(values, weights, strict=True)):
        if weight <= capacity:
            with_item = best[: capacity + 1 - weight] + value
            np.greater(with_item, best[weight:], out=keep[i, weight:])
            np.maximum(best[weight:], with_item, out=best[weight:])
    chosen, room = [], capacity
    for i in range(len(values) - 1, -1, -1):
        if keep[i, room]:
            chosen.append(i)
            room -= weights[i]
    return chosen[::-1]


def pool(n: int, bucket: int, name: str, seed: int, *, ordered: bool) -> tuple[list[int], list[int]]:
    rng = random.Random(seed)
    tokens = [300 if name.endswith("equal tokens") else rng.randint(20, 800) for _ in range(n)]
    scored = list(zip(DISTRIBUTIONS[name](rng, tokens), tokens, strict=True))
    if ordered:
        scored.sort(key=lambda pair: -pair[0])
    return [int(score * 10_000) for score, _ in scored], [-(-count // bucket) for _, count in scored]


def best_of(repetitions: int, run: Callable[[], object]) -> float:
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main(repetitions: int) -> None:
    print(f"{'items × capacity':>17}  {'scores':<26} {'order':<7} {'table':>8} {'solver':>8} {'ratio':>6} {'cells':>9}")
    for n, target, bucket in SIZES:
        capacity = target // bucket
        for name in DISTRIBUTIONS:
            for ordered in (True, False):
                values, weights = pool(n, bucket, name, seed=n, ordered=ordered)
                assert solve(values, weights, capacity) == numpy_table(values, weights, capacity)
                table = best_of(repetitions, lambda: numpy_table(values, weights, capacity))  # noqa: B023
                solver = best_of(5 * repetitions, lambda: solve(values, weights, capacity))  # noqa: B023
                print(
                    f"{n:>7,} × {capacity:>7,}  {name:<26} {'sorted' if ordered else 'random':<7} {table:>8.2f}"
                    f" {solver:>8.2f} {table / solver:>5.0f}× {table_cells(values, weights, capacity):>9,}",
                    flush=True,
                )
