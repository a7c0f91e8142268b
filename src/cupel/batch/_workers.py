"""Run shards on the cores of this machine or on a Dask cluster."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any, Final, cast

from cupel.batch._job import Job
from cupel.batch._source import BatchError, Shard, ShardResult, explained
from cupel.errors import CupelError, MissingExtraError

_log = logging.getLogger("cupel")
_ATTEMPTS: Final = 3
"""The most processes in a row that may die without a shard finished in between."""
_AHEAD: Final = 2
"""Shards a worker has at a time: one to work on and the next."""
_PATIENCE: Final = 5.0
"""Seconds that an idle worker has to end by itself."""
_UNGUARDED: Final = (
    "the worker processes could not begin. They import the program that calls run_batch: put the call under "
    "`if __name__ == '__main__':` in a file (standard input cannot be imported), or ask for workers=1"
)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_can_start() -> None:
    """Refuse where processes cannot be started, before anything is written."""
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):  # a worker is importing the program that started it
        raise BatchError(_UNGUARDED)
    if process.daemon:
        raise BatchError(
            "a daemonic process cannot start workers: ask for workers=1, or call run_batch in another process"
        )


def run_local(job: Job, shards: Sequence[Shard], workers: int) -> Generator[ShardResult, None, None]:
    """Answer shards, yielding each result; a process that dies is replaced and its shards are run again."""
    workers = min(workers, len(shards))
    if workers == 1:
        yield from map(job.run, shards)
        return
    queue = ShardQueue(shards)
    staff: list[_BatchWorker] = []
    failures = 0
    try:
        resource_tracker.ensure_running()  # before the first process starts it with interrupts unblocked
        with interrupts_held():  # inherited by the processes
            while len(staff) < workers:
                staff.append(_BatchWorker(job, len(staff)))
        while busy := [worker for worker in staff if worker.work(queue)]:
            ready = wait([worker.pipe for worker in busy])
            for worker in busy:
                if worker.pipe not in ready:
                    continue
                result = worker.answer()
                if isinstance(result, ShardResult):
                    failures = 0
                    yield result
                elif worker.has_died:
                    failures += 1
                    _check_why(failures, has_begun=any(one.has_begun for one in staff))
                    queue.put_back(worker.shards)
                    with interrupts_held():
                        staff[worker.place] = _BatchWorker(job, worker.place)
    finally:
        with interrupts_held():
            for worker in staff:
                worker.end()


@contextmanager
def interrupts_held() -> Generator[None, None, None]:
    """Delay Ctrl-C until the end of the block; processes and threads started in it never receive it.

    The terminal sends it to the whole process group, but only the process that directs the job handles it.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _check_why(failures: int, *, has_begun: bool) -> None:
    """Raise if the replacement of a worker that died would die as well; one that has begun shows that others can."""
    if not has_begun:
        raise BatchError(_UNGUARDED)
    if failures == _ATTEMPTS:
        raise BatchError(f"worker processes died {_ATTEMPTS} times on the same shards, perhaps for want of memory")


class _BatchWorker:
    """A process that receives shards through a pipe and answers them in order."""

    def __init__(self, job: Job, place: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.place = place
        self.shards: deque[Shard] = deque()
        self.has_died = False
        self.has_begun = False
        self.pipe, end = context.Pipe()
        # Daemonic, so that no interrupt leaves the interpreter waiting for it at exit.
        self._process = context.Process(target=_serve, args=(job, end), daemon=True)
        self._process.start()
        end.close()

    def work(self, queue: ShardQueue) -> bool:
        """Take shards from the queue; return whether the worker has any."""
        for shard in islice(queue.shards_for(self.place), _AHEAD - len(self.shards)):
            self.shards.append(shard)
            with suppress(OSError):  # it has died, which `answer` notices
                self.pipe.send(shard)
        return bool(self.shards)

    def answer(self) -> ShardResult | None:
        """Receive the next result; None when the worker has started, or has died."""
        try:
            message: Any = self.pipe.recv()
        except (EOFError, OSError):
            self.has_died = True
            return None
        self.has_begun = True
        if isinstance(message, Exception):
            raise message
        if message is not None:
            self.shards.popleft()
        return message  # type: ignore[no-any-return]

    def end(self) -> None:
        """End the process; one that is at work is killed, since unfinished shards leave no trace."""
        self.pipe.close()
        if not self.shards:
            self._process.join(_PATIENCE)
        self._process.kill()
        self._process.join()


class ShardQueue:
    """Shards by row group; a worker stays in its row group to the end, so that the group is decoded only once."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self._groups: dict[int, deque[Shard]] = {}
        for shard in shards:
            self._groups.setdefault(shard.row_group, deque()).append(shard)
        self._group_of: dict[int, int] = {}

    def shards_for(self, worker: int) -> Iterator[Shard]:
        """Yield the worker's next shards and remove them from the queue."""
        while self._groups:
            group = self._group_of.get(worker)
            if group not in self._groups:
                group = self._group_of[worker] = self._another()
            shards = self._groups[group]
            shard = shards.popleft()
            if not shards:
                del self._groups[group]
            yield shard

    def put_back(self, shards: Iterable[Shard]) -> None:
        """Return the unfinished shards of a worker to the front of their groups."""
        for shard in reversed(list(shards)):
            self._groups.setdefault(shard.row_group, deque()).appendleft(shard)

    def _another(self) -> int:
        """Choose a group without a worker, or the one with the most shards left."""
        taken = set(self._group_of.values())
        free = next((group for group in self._groups if group not in taken), None)
        return max(self._groups, key=lambda group: len(self._groups[group])) if free is None else free


def _serve(job: Job, pipe: Any) -> None:
    ignore_interrupts()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # the directing process has ended
        pipe.send(None)
        while True:
            shard = pipe.recv()
            try:
                answer: Any = job.run(shard)
            except Exception as error:  # noqa: BLE001  (the process that directs the job decides)
                answer = _portable(error)
            pipe.send(answer)


def _portable(error: Exception) -> Exception:
    """Return an error that can be pickled, which an error of a library may not be."""
    if isinstance(error, CupelError):
        return error
    portable = OSError(*error.args[:2]) if isinstance(error, OSError) else BatchError(explained(error))
    portable.add_note(traceback.format_exc())
    return portable


def _end_with_parent() -> None:
    """End this process when its parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


_RETRIES: Final = 3


def run_dask(
    job: Job, shards: Iterable[Shard], workers: int, scheduler: str | None = None
) -> Generator[ShardResult, None, None]:
    """Answer shards on the cluster at an address, or on one started for the job.

    A shard is a pure task with atomic output: when its worker is lost the scheduler runs it again elsewhere, and
    running it twice writes the same part twice.
    """
    distributed = load_distributed()
    with ExitStack() as stack:
        if scheduler is None:
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
            )
            stack.enter_context(cluster)
            client = stack.enter_context(distributed.Client(cluster))
            client.run(ignore_interrupts)
        else:
            client = stack.enter_context(_connected(distributed, scheduler))
        yield from _submitted(distributed, client, job, iter(shards))


def _submitted(distributed: Any, client: Any, job: Job, shards: Iterator[Shard]) -> Iterator[ShardResult]:
    """Keep every thread of the cluster busy without holding a future for each shard of a large job."""

    def submit(shard: Shard) -> Any:
        # The job goes with each task: kept on the workers, it would be lost when all of them are.
        return client.submit(Job.run, job, shard, key=f"cupel-{job.id}-{shard.index}", retries=_RETRIES)

    workers: dict[str, int] = client.nthreads()
    threads = sum(workers.values())
    if not threads:
        _log.warning("the Dask cluster at %s has no workers: the job waits for the first", client.scheduler.address)
        threads = 1
    running = distributed.as_completed([submit(shard) for shard in islice(shards, 4 * threads)])
    for future in running:
        try:
            result = future.result()
        except distributed.KilledWorker as error:
            raise BatchError(f"the cluster repeatedly lost its workers: {error}") from error
        except (CancelledError, distributed.CancelledError, distributed.comm.CommClosedError) as error:
            raise BatchError(f"lost the scheduler at {client.scheduler.address}") from error
        future.release()
        for shard in islice(shards, 1):
            running.add(submit(shard))
        yield result


def _connected(distributed: Any, scheduler: str) -> Any:
    try:
        return distributed.Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise BatchError(f"--scheduler {scheduler}: {error}") from None


def load_distributed() -> Any:
    """Return dask.distributed, or say which extra installs it."""
    try:
        import distributed  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise MissingExtraError("dask.distributed", "dask") from None
    return cast("Any", distributed)
