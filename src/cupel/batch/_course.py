"""The course of a job, from the shards that are left to the output in its place."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from cupel._files import sync_directory
from cupel.batch._assembly import Assembly
from cupel.batch._errors import BatchError, BatchFailedError, explained
from cupel.batch._job import Job
from cupel.batch._outputs import Finished, Outputs
from cupel.batch._shard import Shard, ShardResult
from cupel.batch._source import FileGuard
from cupel.batch._state import Manifest, Parts

OnProgress: TypeAlias = "Callable[[BatchProgress], object]"
Runner: TypeAlias = Callable[[Job, list[Shard], int], Generator[ShardResult, None, None]]
_PARTS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a job has come, in rows; `resumed` of the `done` ones were there when it began."""

    done: int
    total: int
    resumed: int


class Course:
    """A job that has begun, and may end at any moment: what is done by then is kept."""

    def __init__(self, job: Job, manifest: Manifest, parts: Parts, watch: FileGuard) -> None:
        self._job = job
        self._manifest = manifest
        self._parts = parts
        self._watch = watch
        with self._kept():
            self._assembly = Assembly(job, manifest.shards)

    def run(self, runner: Runner, workers: int, max_errors: int | None, on_progress: OnProgress | None) -> int:
        """Answer the shards that are left; return the rows that an earlier run has answered."""
        shards = self._manifest.shards
        try:
            with self._kept():
                found = {shard.index: result for shard in shards if (result := self._job.finished(shard)) is not None}
                for result in found.values():
                    self._add(result, max_errors)
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
            with suppress(Exception):  # on a full disk, nor can the drafts be closed in order
                self._assembly.close()
            raise
        return sum(result.written + result.errors for result in found.values())

    def _next(self, results: Iterator[ShardResult], max_errors: int | None) -> ShardResult | None:
        with self._kept():
            result = next(results, None)
            if result is not None:
                self._add(result, max_errors)
                self._assembly.advance(_PARTS_AT_ONCE)
            return result

    def finish(self, outputs: Outputs) -> Finished:
        """Put the files in their places, and only then forget the parts."""
        assembly = self._assembly
        with self._kept():
            assembly.advance()
            assembly.close()
            self._watch.check()
            assembly.finish(outputs.output, outputs.errors)
            record = outputs.keep_record(self._manifest, assembly.written, assembly.errors)
            sync_directory(outputs.output.parent)
            self._parts.remove()
        return record

    def _add(self, result: ShardResult, max_errors: int | None) -> None:
        self._watch.check()
        self._assembly.add(result)
        errors = self._assembly.errors
        if max_errors is not None and errors > max_errors:
            raise BatchError(
                f"{errors:,} rows failed, more than max_errors={max_errors}; one of them: {result.first_error}"
            )

    @contextmanager
    def _kept(self) -> Generator[None, None, None]:
        """Turn whatever goes wrong into a failure that can be resumed, unless the input is no longer what it was."""
        try:
            yield
        except Exception as error:
            if self._watch.has_changed():
                self._parts.remove()
                raise BatchError(
                    "the input has changed while it was read, so what was done is discarded: start again"
                ) from error
            raise BatchFailedError(
                f"{explained(error)}; what is done is kept in {self._parts.path}: go on with --resume"
            ) from error
