"""Best and median of several runs, in processor time: what other programs do meanwhile does not count."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time_ns
from typing import NamedTuple

import numpy as np  # noqa: F401 - loaded, as it is once a process has met a knapsack or a large pool

PASSES = 3  # a neighbour that slows a machine down does so for longer than one measurement lasts
SAMPLE_NS = 300_000  # a sample lasts at least this long, so that reading the clock does not show


class Timing(NamedTuple):
    """Microseconds of a single run."""

    best: float
    median: float
    samples: int


def timed(run: Callable[[], object], *, seconds: float = 0.3, least: int = 3, most: int = 1_000) -> Timing:
    """Call `run` for about so many seconds, but at least `least` times; short runs are timed in groups."""
    together = _together(run)
    samples: list[float] = []
    end = perf_counter() + seconds
    while len(samples) < least or (perf_counter() < end and len(samples) < most):
        start = process_time_ns()
        for _ in range(together):
            run()
        samples.append((process_time_ns() - start) / together / 1_000)
    return Timing(round(min(samples), 3), round(statistics.median(samples), 3), len(samples))


def _together(run: Callable[[], object]) -> int:
    """How many runs make one sample; finding out also warms up."""
    start = process_time_ns()
    run()
    return max(1, SAMPLE_NS // max(1, process_time_ns() - start))


@contextmanager
def garbage_collection(*, enabled: bool) -> Iterator[None]:
    """Switch the collector on or off, starting clean, and put it back afterwards."""
    before = gc.isenabled()
    gc.collect()
    (gc.enable if enabled else gc.disable)()
    try:
        yield
    finally:
        (gc.enable if before else gc.disable)()
