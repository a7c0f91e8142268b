"""A whole job, from a file of requests to a file of selections."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias
from uuid import uuid4

import msgspec

from cupel._checks import as_integer
from cupel.batch._assembly import Assembly
from cupel.batch._dask import load_distributed, run_dask
from cupel.batch._errors import BatchError
from cupel.batch._files import sync_directory
from cupel.batch._job import Job, form_of
from cupel.batch._local import run_local
from cupel.batch._selector import BatchSelector
from cupel.batch._shard import Shard, ShardResult
from cupel.batch._state import Manifest, Parts, budget_document, current_instant, fingerprint, with_clock
from cupel.model import ContextBudget
from cupel.policy import Policy

Engine: TypeAlias = Literal["local", "dask"]
OnProgress: TypeAlias = "Callable[[BatchProgress], object]"
_PARTS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a job has come, in rows; `resumed` of the `done` ones were there when it began."""

    done: int
    total: int
    resumed: int


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
    on_progress: OnProgress | None = None,
) -> BatchSummary:
    """Select for every request in a Parquet or JSON lines file, with bounded memory, and write the selections in order.

    While it runs, finished shards are kept in `OUTPUT.parts`; `output` appears, whole, at the end. Interrupted at any
    point, `resume=True` goes on where it stopped, and `restart=True` discards what there is. Bad rows are listed in
    `OUTPUT.errors.jsonl`. `workers` defaults to the number of cores.

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
    source, target = Path(requests), Path(output)
    _check_options(engine, scheduler, workers, shard_rows)
    _check_target(source, target)
    selector = BatchSelector(policy, budget, report)
    asked = Manifest(
        id=uuid4().hex,
        input=fingerprint(source),
        policy=policy.to_dict(),
        budget=budget_document(budget),
        report=report,
        output_form=form_of(target),
        now=current_instant(),
        shards=[],
    )
    parts = Parts(target)
    manifest = parts.take_up(asked, resume=resume, restart=restart)
    if manifest is None:
        job = _job(source, parts, asked, selector)
        job.check()
        manifest = msgspec.structs.replace(asked, shards=job.plan(shard_rows))
        parts.begin(manifest)
    job = _job(source, parts, manifest, selector)
    results_of = partial(_results, job, engine, workers or os.cpu_count() or 1, scheduler)
    return _carried_out(job, target, parts, manifest.shards, results_of=results_of, on_progress=on_progress or _silent)


def _carried_out(
    job: Job,
    target: Path,
    parts: Parts,
    shards: list[Shard],
    *,
    results_of: Callable[[list[Shard]], Generator[ShardResult, None, None]],
    on_progress: OnProgress,
) -> BatchSummary:
    """Answer the shards that are left, assemble all, and only then forget the parts."""
    with closing(Assembly(job, shards)) as assembly:
        finished: dict[int, int] = {}
        for result in parts.accounts(job, shards):
            finished[result.index] = result.rows
            assembly.add(result.index)
        resumed = sum(finished.values())
        progress = BatchProgress(resumed, sum(shard.rows for shard in shards), resumed)
        on_progress(progress)
        with closing(results_of([shard for shard in shards if shard.index not in finished])) as results:
            for result in results:
                assembly.add(result.index)
                assembly.advance(_PARTS_AT_ONCE)
                progress = replace(progress, done=progress.done + result.rows)
                on_progress(progress)
        assembly.advance()
    errors_file = target.with_name(f"{target.name}.errors.jsonl")
    assembly.finish(target, errors_file)
    sync_directory(target.absolute().parent)
    parts.remove()
    written, errors = assembly.written, assembly.errors
    return BatchSummary(written + errors, written, errors, resumed, target, errors_file if errors else None)


def _job(source: Path, parts: Parts, manifest: Manifest, selector: BatchSelector) -> Job:
    settled = Policy.from_dict(with_clock(manifest.policy, manifest.now))
    # Absolute paths, because a worker on a cluster has a working directory of its own.
    return Job(
        manifest.id,
        source.absolute(),
        parts.path.absolute(),
        replace(selector, policy=settled),
        manifest.output_form,
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


def _check_target(source: Path, target: Path) -> None:
    if target.is_dir():
        msg = f"{target} is a directory; name a file in it"
        raise BatchError(msg)
    if not target.absolute().parent.is_dir():
        msg = f"{target}: the directory {target.absolute().parent} does not exist"
        raise BatchError(msg)
    if target.exists() and target.samefile(source):
        msg = f"{target} is the input itself"
        raise BatchError(msg)


def _check_options(engine: object, scheduler: str | None, workers: int | None, shard_rows: int | None) -> None:
    if engine not in ("local", "dask"):
        msg = f"engine must be 'local' or 'dask', got {engine!r}"
        raise BatchError(msg)
    if scheduler is not None and engine != "dask":
        msg = f"scheduler={scheduler!r} goes with engine='dask' only"
        raise BatchError(msg)
    if engine == "dask":
        load_distributed()
    for name, value in (("workers", workers), ("shard_rows", shard_rows)):
        if value is not None:
            as_integer(name, value, least=1, error=BatchError)
