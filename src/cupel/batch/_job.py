"""The work on one shard, and the assembly of the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from cupel._internal.files import move, whole
from cupel.batch._jsonl import LineFile, answer_lines, answers_as_table, plan_jsonl, read_jsonl_shard
from cupel.batch._parquet import (
    ParquetOutput,
    PartWriter,
    answer_parquet,
    check_parquet,
    plan_parquet,
    schema_of_answers,
)
from cupel.batch._selector import BatchSelector
from cupel.batch._source import (
    FileFormat,
    Fingerprint,
    RowError,
    Shard,
    ShardResult,
    fingerprint,
    format_of,
)


@dataclass(frozen=True, slots=True)
class Job:
    """The source of the requests, the selector that answers them, and the directory of the parts."""

    id: str
    requests: Path
    parts: Path
    selector: BatchSelector
    output_format: FileFormat
    max_row_bytes: int

    def plan(self, shard_rows: int | None) -> list[Shard]:
        """Cut the input into shards."""
        if self._from_parquet:
            return plan_parquet(self.requests, shard_rows)
        return plan_jsonl(self.requests, shard_rows, self.max_row_bytes)

    def check(self) -> None:
        """Refuse an input whose columns cannot be requests."""
        if self._from_parquet:
            check_parquet(self.selector, self.requests)

    def run(self, shard: Shard) -> ShardResult:
        """Answer a shard; write the answers and the list of bad rows."""
        written = 0
        failed: list[RowError] = []
        with whole(self.part(shard.index)) as draft:
            with closing(self._part_writer(draft)) as part:
                for good, bad in self._answers(shard):
                    part.write(good)
                    written += len(good)
                    failed += bad
            answers = fingerprint(draft)
        first = failed[0].error if failed else None
        errors = self._list_errors(shard, failed)
        return ShardResult(shard.index, shard.rows, written, len(failed), answers, errors, first)

    def _answers(self, shard: Shard) -> Iterator[tuple[Any, list[RowError]]]:
        if self._from_parquet:
            return answer_parquet(self.selector, self.requests, shard, as_table=self._to_parquet)
        lines = read_jsonl_shard(self.requests, shard, self.max_row_bytes)
        return iter([answer_lines(self.selector, lines, as_table=self._to_parquet)])

    def is_whole(self, result: ShardResult) -> bool:
        """Return whether the files of a shard that was answered before are there and undamaged."""
        try:
            return fingerprint(self.part(result.index)) == result.answers and (
                result.error_list is None or fingerprint(self.error_list(result.index)) == result.error_list
            )
        except FileNotFoundError:
            return False

    def part(self, index: int) -> Path:
        """Return the path of a shard's answers."""
        return self._file(index, "arrow" if self._to_parquet else "jsonl")

    def error_list(self, index: int) -> Path:
        """Return the path of the list of a shard's bad rows, which exists if it has any."""
        return self._file(index, "errors.jsonl")

    def output(self, path: Path) -> ParquetOutput | LineFile:
        """Open the file in which the parts are put together."""
        return ParquetOutput(path, self._schema()) if self._to_parquet else LineFile(path)

    @property
    def _from_parquet(self) -> bool:
        return format_of(self.requests) == "parquet"

    @property
    def _to_parquet(self) -> bool:
        return self.output_format == "parquet"

    def _file(self, index: int, suffix: str) -> Path:
        return self.parts / f"{index:06}-{self.id}.{suffix}"

    def _part_writer(self, path: Path) -> PartWriter | LineFile:
        return PartWriter(path, self._schema()) if self._to_parquet else LineFile(path)

    def _schema(self) -> Any:
        if self._from_parquet:
            return schema_of_answers(self.selector, self.requests)
        return answers_as_table([], report=self.selector.report).schema

    def _list_errors(self, shard: Shard, failed: list[RowError]) -> Fingerprint | None:
        if not failed:
            return None
        with whole(self.error_list(shard.index)) as draft:
            draft.write_bytes(msgspec.json.Encoder(enc_hook=repr).encode_lines(failed))
            return fingerprint(draft)


class Assembly:
    """Drafts of the output file and the errors file, to which parts are appended in the order of the input.

    The drafts are not resumed: an interrupted run leaves the parts, and the next run assembles them again.
    """

    def __init__(self, job: Job, shards: Sequence[Shard]) -> None:
        self._job = job
        self._drafts = (job.parts / "output", job.parts / "errors")
        self._output = job.output(self._drafts[0])
        self._errors = LineFile(self._drafts[1])
        self._ready: dict[int, ShardResult] = {}
        self._next = 0
        self._shards = len(shards)
        self.written = 0
        self.errors = 0

    def add(self, result: ShardResult) -> None:
        """Accept the result of a shard."""
        self._ready[result.index] = result
        self.written += result.written
        self.errors += result.errors

    def advance(self, most: int | None = None) -> None:
        """Append the parts that are next in order, at most `most` of them, so that workers do not wait long."""
        while self._next in self._ready and (most is None or most > 0):
            result = self._ready.pop(self._next)
            self._output.add(self._job.part(self._next))
            if result.errors:
                self._errors.add(self._job.error_list(self._next))
            self._next += 1
            most = None if most is None else most - 1

    def close(self) -> None:
        """Close the drafts."""
        try:
            self._output.close()
        finally:
            self._errors.close()

    def finish(self, output: Path, errors_file: Path) -> None:
        """Move both files to their places, the output last; without errors there is no errors file."""
        assert self._next == self._shards  # noqa: S101  (every shard has been added)
        if self.errors:
            move(self._drafts[1], errors_file)
        else:
            errors_file.unlink(missing_ok=True)
        move(self._drafts[0], output)
