"""Bytes: of an item, of a run at its peak; and how long `import cupel` takes."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

from benchmarks.pools import budget_for, mixed_pool
from benchmarks.rows import ROWS


def allocated(build: Callable[[], object]) -> tuple[int, int]:
    """The bytes that the result of `build` holds, and the most that were allocated on the way to it."""
    gc.collect()
    tracemalloc.start()
    kept = build()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return held, peak


def measure_memory(size: int = 10_000) -> dict[str, float]:
    """Bytes for each item: held by the pool itself, and at the peak of a run and of a run with its report."""
    held, _ = allocated(lambda: mixed_pool(size))
    pool, budget, pipeline = mixed_pool(size), budget_for(size), ROWS[0].pipeline
    pipeline.run(pool, budget)
    _, run_peak = allocated(lambda: pipeline.run(pool, budget))
    _, report_peak = allocated(lambda: pipeline.dry_run(pool, budget))
    return {
        "items": size,
        "item": round(held / size, 1),
        "run peak": round(run_peak / size, 1),
        "report peak": round(report_peak / size, 1),
    }


def measure_import(repetitions: int = 7) -> dict[str, float]:
    """Milliseconds that importing adds to an interpreter that starts and stops; best of several, taken in turn."""
    codes = {"interpreter": "pass", "import cupel": "import cupel", "import of a run": "from cupel import Pipeline"}
    rounds = [[_start(code) for code in codes.values()] for _ in range(repetitions)]
    empty, *others = map(min, *rounds)
    return dict(zip(codes, [round(empty, 1), *(round(max(0.0, one - empty), 1) for one in others)], strict=True))


def _start(code: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - begin) * 1_000
