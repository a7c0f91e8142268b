"""Run a whole job, from a file of requests to a file of selections."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import structs

from cupel._internal.checks import as_integer, shown
from cupel._internal.files import sync_directory
from cupel.batch._job import Assembly, Job
from cupel.batch._selector import BatchSelector
from cupel.batch._source import (
    MAX_ROW_BYTES,
    BatchError,
    BatchFailedError,
    FileGuard,
    Shard,
    ShardResult,
    Source,
    explained,
    format_of,
)
from cupel.batch._state import Finished, Manifest, Outputs, Parts, locked
from cupel.batch._workers import check_can_start, cores, load_distributed, run_dask, run_local
from cupel.model import ContextBudget
from cupel.pipeline import Pipeline

OnProgress: TypeAlias = "Callable[[BatchProgress], object]"
Runner: TypeAlias = Callable[[Job, list[Shard], int], Generator[ShardResult, None, None]]
_PARTS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a job has come, in rows; `resumed` of the `done` ones are an earlier run's."""

    done: int
    total: int
    resumed: int


class JobRun:
    """A job that has begun; however it ends, its finished shards are kept."""

    def __init__(self, job: Job, manifest: Manifest, parts: Parts, guard: FileGuard) -> None:
        self._job = job
        self._manifest = manifest
        self._parts = parts
        self._guard = guard
        with self._kept():
            self._assembly = Assembly(job, manifest.shards)
            self._journal = parts.journal.open("ab")
            if self._journal.tell():
                self._journal.write(b"\n")  # the last line of a killed run may lack its end

    def run(self, runner: Runner, workers: int, max_errors: int | None, on_progress: OnProgress | None) -> int:
        """Answer the remaining shards; return the number of rows that an earlier run answered."""
        shards = self._manifest.shards
        try:
            with self._kept():
                found = self._finished()
                for earlier in found.values():
                    self._add(earlier, max_errors)
            left = [shard for shard in shards if shard.index not in found]
            before = sum(result.rows for result in found.values())
            progress = BatchProgress(before, sum(shard.rows for shard in shards), before)
            tell: OnProgress = on_progress or (lambda _progress: None)
            tell(progress)
            if left:
                with closing(runner(self._job, left, workers)) as results:
                    while (result := self._next(results, max_errors)) is not None:
                        progress = replace(progress, done=progress.done + result.rows)
                        tell(progress)
        except BaseException:
            with suppress(Exception):  # on a full disk, closing the files fails too
                self._journal.close()
                self._assembly.close()
            raise
        return sum(result.written + result.errors for result in found.values())

    def _finished(self) -> dict[int, ShardResult]:
        """Return the results of earlier runs whose files are whole."""
        found: dict[int, ShardResult] = {}
        for line in self._parts.journal.read_bytes().split(b"\n"):
            with suppress(msgspec.MsgspecError):
                result = msgspec.json.decode(line, type=ShardResult)
                found[result.index] = result
        return {index: result for index, result in found.items() if self._job.is_whole(result)}

    def _next(self, results: Iterator[ShardResult], max_errors: int | None) -> ShardResult | None:
        with self._kept():
            result = next(results, None)
            if result is not None:
                self._guard.check()
                self._journal.write(msgspec.json.encode(result) + b"\n")
                self._journal.flush()
                self._add(result, max_errors)
                self._assembly.advance(_PARTS_AT_ONCE)
            return result

    def finish(self, outputs: Outputs) -> Finished:
        """Move the files to their places, and only then delete the parts."""
        assembly = self._assembly
        with self._kept():
            self._journal.close()
            assembly.advance()
            assembly.close()
            self._guard.check()
            assembly.finish(outputs.output, outputs.errors)
            record = outputs.keep_record(self._manifest, assembly.written, assembly.errors, self._parts.path / "record")
            sync_directory(outputs.output.parent)
            self._parts.remove()
        return record

    def _add(self, result: ShardResult, max_errors: int | None) -> None:
        self._assembly.add(result)
        _check_errors(self._assembly.errors, max_errors, f"; one of them: {result.first_error}")

    @contextmanager
    def _kept(self) -> Generator[None, None, None]:
        """Turn any error into a failure that can be resumed, unless the input has changed."""
        try:
            yield
        except Exception as error:
            if self._guard.has_changed():
                self._parts.remove()
                raise BatchError(
                    "the input has changed while it was read, so the finished shards are discarded: start again"
                ) from error
            raise BatchFailedError(
                f"{explained(error)}; finished shards are kept in {self._parts.path}: continue with --resume"
            ) from error


def _check_errors(errors: int, max_errors: int | None, example: str = "") -> None:
    if max_errors is not None and errors > max_errors:
        raise BatchFailedError(f"{errors:,} rows failed, more than max_errors={max_errors}{example}")


Engine: TypeAlias = Literal["local", "dask"]


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """The outcome of a job: every row of the input is either written or in the errors file."""

    rows: int
    written: int
    errors: int
    resumed: int
    """Rows that an earlier, interrupted run answered."""
    output: Path
    errors_file: Path | None
    """The list of bad rows; None without any."""
    seconds: float = 0.0
    """How long this run took."""
    was_finished: bool = False
    """Whether an earlier run had finished the job, so that this one did nothing."""

    @property
    def rows_per_second(self) -> float:
        """Rows that this run answered in a second."""
        return (self.rows - self.resumed) / self.seconds if self.seconds else 0.0


def run_batch(
    requests: str | Path,
    output: str | Path,
    policy: Pipeline,
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
    max_row_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> BatchSummary:
    """Select for every request in a Parquet or JSON lines file, with bounded memory, and write the selections in order.

    While the job runs, finished shards are kept in `OUTPUT.parts`; `output` appears as a whole at the end, with
    `OUTPUT.job.json`, the record of the job. JSON lines may be compressed (`.jsonl.gz`, `.jsonl.zst`) or come from
    standard input (`"-"`). An error that stops a job before its end is a `BatchFailedError`.

    Args:
        requests: The file of requests.
        output: The file to write, `.parquet` or `.jsonl`.
        policy: The policy of every selection.
        budget: The budget of requests without one.
        report: Write the report of every selection too.
        engine: Processes of this machine, or a Dask cluster.
        workers: Processes to start; by default one for each core.
        scheduler: The address of a Dask scheduler; by default the job starts a local cluster.
        resume: Continue an interrupted run where it stopped.
        restart: Discard an interrupted run.
        shard_rows: Rows in a shard; by default their size decides.
        max_errors: Fail when more rows than this are bad. Bad rows are listed in `OUTPUT.errors.jsonl`.
        max_row_bytes: Longer lines of JSON are bad rows, since a line is read into memory whole; by default 100 MB.
        on_progress: Called with a `BatchProgress` after every shard.

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
    _check_options(engine, scheduler, workers)
    for name, value, least in (
        ("workers", workers, 1),
        ("shard_rows", shard_rows, 1),
        ("max_errors", max_errors, 0),
        ("max_row_bytes", max_row_bytes, 1),
    ):
        if value is not None:
            as_integer(name, value, least=least, error=BatchError)
    source, outputs = Source.named(requests), Outputs.named(output)
    outputs.check(source)
    asked = Manifest.asking(
        BatchSelector(policy, budget, report), format_of(Path(output)), max_row_bytes or MAX_ROW_BYTES
    )
    runner = partial(run_dask, scheduler=scheduler) if engine == "dask" else run_local
    resumed = None
    with locked(outputs.output):
        found = _prepared(asked, source, outputs, resume=resume, restart=restart, shard_rows=shard_rows)
        if isinstance(found, JobRun):
            resumed = found.run(runner, workers or cores(), max_errors, on_progress)
            found = found.finish(outputs)
    _check_errors(found.errors, max_errors)
    rows = found.written + found.errors
    return BatchSummary(
        rows=rows,
        written=found.written,
        errors=found.errors,
        resumed=rows if resumed is None else resumed,
        output=Path(output),
        errors_file=_errors_file(Path(output), outputs) if found.errors else None,
        seconds=perf_counter() - started,
        was_finished=resumed is None,
    )


def _errors_file(output: Path, outputs: Outputs) -> Path:
    """Return the path of the errors file, which is beside the file that a symbolic link leads to."""
    return outputs.errors if output.is_symlink() else output.with_name(outputs.errors.name)


def _prepared(
    asked: Manifest, source: Source, outputs: Outputs, *, resume: bool, restart: bool, shard_rows: int | None
) -> JobRun | Finished:
    """Continue an interrupted run or begin a new one; return the record instead if the job is finished already."""
    parts = Parts(outputs)
    manifest = parts.take_up(resume=resume, restart=restart)
    with parts.removed_without_manifest():
        requests = source.readable(parts.path)
        guard = FileGuard(requests)
        asked = structs.replace(asked, input=guard.fingerprint)
        if manifest is not None:
            asked.check_same(manifest, parts.path)
        elif resume and (finished := outputs.finished(asked)) is not None:
            return finished
        else:
            job = _job(requests, parts, asked)
            job.check()
            manifest = structs.replace(asked, shards=job.plan(shard_rows))
            guard.check()
            parts.begin(manifest)
        return JobRun(_job(requests, parts, manifest), manifest, parts, guard)


def _job(requests: Path, parts: Parts, manifest: Manifest) -> Job:
    # Absolute paths, because a worker on a cluster has another working directory.
    selector, output_format, most = manifest.selector(), manifest.output_format, manifest.max_row_bytes
    return Job(manifest.id, requests, parts.path, selector, output_format, most)


def _check_options(engine: object, scheduler: str | None, workers: int | None) -> None:
    if engine not in ("local", "dask"):
        raise BatchError(f"engine must be 'local' or 'dask', got {shown(engine)}")
    if scheduler is not None and engine != "dask":
        raise BatchError(f"scheduler={shown(scheduler)} needs engine='dask'")
    if engine == "dask":
        load_distributed()
    elif workers != 1:
        check_can_start()
