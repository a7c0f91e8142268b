"""Shards on the cores of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Final

from cupel.batch._errors import BatchError
from cupel.batch._interrupts import ignore_interrupts, interrupts_held
from cupel.batch._job import Job
from cupel.batch._shard import Shard, ShardResult

_ATTEMPTS: Final = 3
"""How often the pools are replaced when a process died and nothing was finished."""
_AHEAD: Final = 2
"""Shards a worker has at a time: one to work on, and one so that it need not wait for the next."""


def run_local(job: Job, shards: Iterable[Shard], workers: int) -> Iterator[ShardResult]:
    """Answer shards, giving each account as it is done; a process that dies is replaced and its shards are redone."""
    if workers == 1:
        yield from map(job.run, shards)
        return
    left = deque(shards)
    failures = 0
    while left:
        try:
            for result in _with_pools(job, left, workers):
                failures = 0
                yield result
        except BrokenProcessPool:
            failures += 1
            if failures == _ATTEMPTS:
                msg = f"worker processes died {_ATTEMPTS} times on the same shards, perhaps for want of memory"
                raise BatchError(msg) from None


def _with_pools(job: Job, left: deque[Shard], workers: int) -> Iterator[ShardResult]:
    """Work `left` off, with a pool for each process; a shard stays in it until its account is there."""
    context = multiprocessing.get_context("spawn")
    pools = [ProcessPoolExecutor(1, context, _start_worker, (job,)) for _ in range(workers)]
    waiting = Rota(left)
    running: dict[Future[ShardResult], tuple[int, Shard]] = {}
    try:
        while True:
            with interrupts_held():  # the first submissions start the processes
                for worker, pool in enumerate(pools):
                    busy = sum(owner == worker for owner, _ in running.values())
                    for shard in islice(waiting.shards_for(worker), _AHEAD - busy):
                        running[pool.submit(_work, shard)] = (worker, shard)
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                _, shard = running.pop(future)
                result = future.result()
                left.remove(shard)
                yield result
    finally:
        for future in running:
            future.cancel()
        for pool in pools:
            pool.shutdown(wait=True)  # until the shards being worked on are done


class Rota:
    """Who does what next: a worker stays in its row group as long as there is one, so that it is decoded only once."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self._groups: dict[int, deque[Shard]] = {}
        for shard in shards:
            self._groups.setdefault(shard.row_group, deque()).append(shard)
        self._group_of: dict[int, int] = {}

    def shards_for(self, worker: int) -> Iterator[Shard]:
        """Give the worker's next shards, each of them once."""
        while self._groups:
            group = self._group_of.get(worker)
            if group not in self._groups:
                group = self._group_of[worker] = self._another()
            shards = self._groups[group]
            shard = shards.popleft()
            if not shards:
                del self._groups[group]
            yield shard

    def _another(self) -> int:
        """Choose a group that nobody is at, or else help where most is left."""
        taken = set(self._group_of.values())
        free = next((group for group in self._groups if group not in taken), None)
        return max(self._groups, key=lambda group: len(self._groups[group])) if free is None else free


_job: Job | None = None


def _start_worker(job: Job) -> None:
    global _job  # noqa: PLW0603  (sent once a process, not once a shard)
    _job = job
    ignore_interrupts()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Do not outlive a parent that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(shard: Shard) -> ShardResult:
    assert _job is not None  # noqa: S101  (the initializer has run)
    return _job.run(shard)
