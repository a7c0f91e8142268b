"""Shards on a Dask cluster."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack
from itertools import islice
from typing import Any, Final, cast

from cupel.batch._errors import BatchError
from cupel.batch._job import Job
from cupel.batch._local import ignore_interrupts
from cupel.batch._shard import Shard, ShardResult
from cupel.errors import MissingExtraError

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

    threads = sum(client.nthreads().values()) or 1
    running = distributed.as_completed([submit(shard) for shard in islice(shards, 4 * threads)])
    for future in running:
        try:
            result = future.result()
        except distributed.KilledWorker as error:
            raise BatchError(f"the cluster lost its workers again and again: {error}") from error
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
    """Return dask.distributed, or say which extra brings it."""
    try:
        import distributed  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise MissingExtraError("dask.distributed", "dask") from None
    return cast("Any", distributed)
