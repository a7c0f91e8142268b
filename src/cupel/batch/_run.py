"""A whole job, from a file of requests to a file of selections."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Literal, TypeAlias
from uuid import uuid4

import msgspec

from cupel._checks import as_integer, shown
from cupel._version import __version__
from cupel._wire import BUDGET
from cupel.batch._course import BatchProgress, Course, OnProgress
from cupel.batch._dask import load_distributed, run_dask
from cupel.batch._errors import BatchError
from cupel.batch._files import NOTHING
from cupel.batch._job import Job
from cupel.batch._local import check_can_start, cores, run_local
from cupel.batch._lock import locked
from cupel.batch._outputs import Finished, Outputs
from cupel.batch._selector import BatchSelector
from cupel.batch._shard import Shard, ShardResult
from cupel.batch._source import SPOOLED, Source, Watch, form_of
from cupel.batch._state import Manifest, Parts, current_instant, with_clock
from cupel.model import ContextBudget
from cupel.policy import Policy

Engine: TypeAlias = Literal["local", "dask"]


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """What a job did: every row of the input is either written or in the errors file."""

    rows: int
    written: int
    errors: int
    resumed: int
    """Rows that an earlier, interrupted run had done."""
    output: Path
    errors_file: Path | None
    """Where the bad rows are listed; None when there are none."""
    seconds: float = 0.0
    """How long this run took."""
    was_finished: bool = False
    """Whether an earlier run had finished the job, so that this one did nothing."""

    @property
    def rows_per_second(self) -> float:
        """How many rows this run did in a second."""
        return (self.rows - self.resumed) / self.seconds if self.seconds else 0.0


def run_batch(
    requests: str | Path,
    output: str | Path,
    policy: Policy,
    *,
    budget: ContextBudget | None = None,
    report: bool = False,
    engine: Engine = "local",
    workers: int | None = None,
    scheduler: str | None = None,
    resume: bool = False,
    restart: bool = False,
    shard_rows: int | None = None,
    max_errors: int | None = None,
    on_progress: OnProgress | None = None,
) -> BatchSummary:
    """Select for every request in a Parquet or JSON lines file, with bounded memory, and write the selections in order.

    While it runs, finished shards are kept in `OUTPUT.parts`; `output` appears, whole, at the end. Interrupted at any
    point, `resume=True` goes on where it stopped, and `restart=True` discards what there is; what stops a job on the
    way raises `BatchFailedError`. Bad rows are listed in `OUTPUT.errors.jsonl`; more than `max_errors` of them are a
    failure. JSON lines may be compressed (`.jsonl.gz`, `.jsonl.zst`) or come from standard input (`"-"`). `workers`
    defaults to the number of cores. `OUTPUT.job.json` says what made the output.

    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from cupel import ContextBudget, presets
    >>> request = {"items": [{"content": "hello", "tokens": 2}, {"content": "a long story", "tokens": 900}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     requests, output = Path(folder, "requests.jsonl"), Path(folder, "windows.jsonl")
    ...     _ = requests.write_text(json.dumps(request))
    ...     done = run_batch(requests, output, presets.chat(), budget=ContextBudget(100, 100))
    ...     print(done.rows, done.written, json.loads(output.read_text())["selected"])
    1 1 [0]
    """
    started = perf_counter()
    _check_options(engine, scheduler, workers, shard_rows, max_errors)
    source, outputs = Source.named(requests), Outputs.named(output)
    outputs.check(source)
    asked = Manifest(
        id=uuid4().hex,
        cupel=__version__,
        input=NOTHING,
        policy=policy.to_dict(),
        budget=None if budget is None else BUDGET.write(budget),
        report=report,
        output_form=form_of(Path(output)),
        now=current_instant(),
        shards=[],
    )
    selector = BatchSelector(policy, budget, report)
    with locked(outputs.output):
        found = _prepared(asked, selector, source, outputs, resume=resume, restart=restart, shard_rows=shard_rows)
        if isinstance(found, Course):
            engine_run = partial(_results, found.job, engine, workers or cores(), scheduler)
            resumed = found.run(engine_run, max_errors, on_progress or _silent)
            record = found.finish(outputs)
        else:
            record, resumed = found, found.written + found.errors
    return BatchSummary(
        rows=record.written + record.errors,
        written=record.written,
        errors=record.errors,
        resumed=resumed,
        output=Path(output),
        errors_file=Path(output).with_name(outputs.errors.name) if record.errors else None,
        seconds=perf_counter() - started,
        was_finished=record is found,
    )


def _prepared(
    asked: Manifest,
    selector: BatchSelector,
    source: Source,
    outputs: Outputs,
    *,
    resume: bool,
    restart: bool,
    shard_rows: int | None,
) -> Course | Finished:
    """Take up an interrupted run or begin a new one; return what is left to do, or the record of all being done."""
    parts = Parts(outputs.output)
    with parts.draft(asked.id) as draft:
        spooled = draft / SPOOLED
        watch = source.watch(spooled)
        asked = msgspec.structs.replace(asked, input=watch.mark)
        manifest = parts.take_up(asked, resume=resume, restart=restart)
        finished = outputs.finished(asked) if resume and manifest is None else None
        if finished is not None:
            return finished
        if manifest is None:
            source.unpack(spooled)
            job = _job(source.path if source.path and not source.packed else spooled, draft, asked, selector)
            job.check()
            manifest = msgspec.structs.replace(asked, shards=job.plan(shard_rows))
            watch.check()
            parts.begin(draft, manifest)
    requests = source.path
    if source.packed or requests is None:
        requests = parts.path / SPOOLED
        watch = Watch(requests)
    return Course(_job(requests, parts.path, manifest, selector), manifest, parts, watch)


def _job(requests: Path, parts: Path, manifest: Manifest, selector: BatchSelector) -> Job:
    settled = Policy.from_dict(with_clock(manifest.policy, manifest.now))
    # Absolute paths, because a worker on a cluster has a working directory of its own.
    return Job(
        manifest.id,
        requests,
        parts,
        replace(selector, policy=settled),
        manifest.output_form,
        requests.stat().st_mtime_ns,
    )


def _silent(_progress: BatchProgress) -> None:
    pass


def _results(
    job: Job, engine: Engine, workers: int, scheduler: str | None, shards: list[Shard]
) -> Generator[ShardResult, None, None]:
    if not shards:
        return
    if engine == "dask":
        yield from run_dask(job, shards, workers, scheduler)
    else:
        yield from run_local(job, shards, min(workers, len(shards)))


def _check_options(
    engine: object, scheduler: str | None, workers: int | None, shard_rows: int | None, max_errors: int | None
) -> None:
    if engine not in ("local", "dask"):
        raise BatchError(f"engine must be 'local' or 'dask', got {shown(engine)}")
    if scheduler is not None and engine != "dask":
        raise BatchError(f"scheduler={shown(scheduler)} goes with engine='dask' only")
    if engine == "dask":
        load_distributed()
    elif workers != 1:
        check_can_start()
    for name, value, least in (("workers", workers, 1), ("shard_rows", shard_rows, 1), ("max_errors", max_errors, 0)):
        if value is not None:
            as_integer(name, value, least=least, error=BatchError)
