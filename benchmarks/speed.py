"""Times of whole runs: every row at every size, with the garbage collector off, on, and on while a trace listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from operator import itemgetter
from typing import Any

from benchmarks.measure import PASSES, garbage_collection, timed
from benchmarks.pools import budget_for, mixed_pool
from benchmarks.rows import ROWS, Row
from cupel import DiagnosticTraceCollector
from cupel.diagnostics import SelectionReport

MODES = ("gc off", "gc on", "traced")
TRACED_UP_TO = 100_000  # a report of a million entries says nothing that a tenth of it does not


def measure_rows(
    largest: int, *, seconds: float = 0.3, rows: Sequence[Row] = ROWS, tell: Callable[[str], object] = print
) -> list[dict[str, Any]]:
    """Measure every row up to `largest` items, in several passes; `tell` hears each line as it is known."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for _ in range(PASSES):
        for cell in _cells(largest, seconds / PASSES, rows):
            known = found.setdefault((cell["row"], cell["items"]), cell)
            for name in MODES:
                if name in cell:
                    known[name] = min(known[name], cell[name], key=itemgetter("best"))
            tell(line(known))
    return list(found.values())


def _cells(largest: int, seconds: float, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    for size in sorted({size for row in rows for size in row.sizes if size <= largest}):
        for tags in sorted({row.tags for row in rows if size in row.sizes}):
            pool = mixed_pool(size, tags=tags)
            for row in rows:
                if size in row.sizes and row.tags == tags:
                    yield {"row": row.name, "items": size, **_times(row, pool, seconds)}


def _times(row: Row, pool: list[Any], seconds: float) -> dict[str, Any]:
    budget, run = budget_for(len(pool), row.target), row.pipeline.run
    least = 1 if len(pool) > TRACED_UP_TO else 3
    found: dict[str, Any] = {}
    for name, enabled in (("gc off", False), ("gc on", True)):
        with garbage_collection(enabled=enabled):
            found[name] = timed(lambda: run(pool, budget), seconds=seconds, least=least)._asdict()
    if len(pool) <= TRACED_UP_TO:
        with garbage_collection(enabled=True):
            traced = timed(lambda: run(pool, budget, trace=DiagnosticTraceCollector()), seconds=seconds, least=least)
            found["traced"] = traced._asdict()
    return found


def line(cell: dict[str, Any]) -> str:
    """One cell for the screen."""
    times = "  ".join(f"{name} {cell[name]['best']:>12,.1f}" for name in MODES if name in cell)
    return f"{cell['row']:<58} {cell['items']:>9,}  {times}"


def measure_report(size: int = 10_000, *, seconds: float = 1.0) -> dict[str, float]:
    """What a report adds to a run, and what it costs to write it and read it back; milliseconds."""
    row = ROWS[0]
    pool = mixed_pool(size)
    budget = budget_for(size)
    report = row.pipeline.dry_run(pool, budget)
    text = report.to_json()
    tasks: dict[str, Callable[[], object]] = {
        "run": lambda: row.pipeline.run(pool, budget),
        "dry_run": lambda: row.pipeline.dry_run(pool, budget),
        "to_json": report.to_json,
        "from_json": lambda: SelectionReport.from_json(text),
    }
    best = dict.fromkeys(tasks, inf)
    with garbage_collection(enabled=True):
        for _ in range(PASSES):
            for name, task in tasks.items():
                best[name] = min(best[name], timed(task, seconds=seconds / PASSES).best / 1_000)
    return {"items": size, **best, "ratio": round(best["dry_run"] / best["run"], 2)}
