"""The work on one shard, and the assembly of the output."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from cupel._files import move, whole
from cupel.batch._jsonl import LineFile, answer_jsonl, answers_as_table, plan_jsonl
from cupel.batch._parquet import (
    ParquetOutput,
    PartWriter,
    answer_parquet,
    check_parquet,
    plan_parquet,
    schema_of_answers,
)
from cupel.batch._selector import BatchSelector
from cupel.batch._source import BatchError, FileFormat, Mark, RowError, Shard, ShardResult, form_of, mark_of


@dataclass(frozen=True, slots=True)
class Job:
    """Where requests come from, how they are answered, and where the parts of the answer go."""

    id: str
    requests: Path
    parts: Path
    selector: BatchSelector
    output_form: FileFormat
    written_at: int
    """When the requests were last written to: nothing is answered after that has changed."""

    def plan(self, shard_rows: int | None) -> list[Shard]:
        """Cut the input into shards."""
        plan = plan_parquet if self._from_parquet else plan_jsonl
        return plan(self.requests, shard_rows)

    def check(self) -> None:
        """Refuse an input whose columns cannot be requests."""
        if self._from_parquet:
            check_parquet(self.selector, self.requests)

    def run(self, shard: Shard) -> ShardResult:
        """Answer a shard and put its part in place: first the answers, then the account that says they are complete."""
        written = 0
        faults: list[RowError] = []
        answer = answer_parquet if self._from_parquet else answer_jsonl
        with whole(self.part(shard.index)) as draft:
            with closing(self._part_writer(draft)) as part:
                for good, bad in answer(self.selector, self.requests, shard, as_table=self._to_parquet):
                    part.write(good)
                    written += len(good)
                    faults += bad
            marked = mark_of(draft)
        if self.requests.stat().st_mtime_ns != self.written_at:
            raise BatchError(f"{self.requests} has been written to since the job began")
        first = faults[0].error if faults else None
        result = ShardResult(shard.index, shard.rows, written, len(faults), marked, self._list(shard, faults), first)
        with whole(self.account(shard.index)) as draft:
            draft.write_bytes(_sealed(msgspec.json.encode(result)))
        return result

    def finished(self, shard: Shard) -> ShardResult | None:
        """Return the account of a shard that was answered before, unless a file of it is not what it was."""
        try:
            result = msgspec.json.decode(_unsealed(self.account(shard.index).read_bytes()), type=ShardResult)
            whole_answers = mark_of(self.part(shard.index)) == result.answers
            whole_faults = result.faults is None or mark_of(self.faults(shard.index)) == result.faults
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        return result if whole_answers and whole_faults else None

    def part(self, index: int) -> Path:
        """Say where a shard's answers are."""
        return self._file(index, "arrow" if self._to_parquet else "jsonl")

    def faults(self, index: int) -> Path:
        """Say where the list of a shard's bad rows is, if it has any."""
        return self._file(index, "errors.jsonl")

    def account(self, index: int) -> Path:
        """Say where a shard's account is."""
        return self._file(index, "done.json")

    def output(self, path: Path) -> ParquetOutput | LineFile:
        """Open the file that the parts are put together in."""
        return ParquetOutput(path, self._schema()) if self._to_parquet else LineFile(path)

    @property
    def _from_parquet(self) -> bool:
        return form_of(self.requests) == "parquet"

    @property
    def _to_parquet(self) -> bool:
        return self.output_form == "parquet"

    def _file(self, index: int, suffix: str) -> Path:
        return self.parts / f"{index:06}-{self.id}.{suffix}"

    def _part_writer(self, path: Path) -> PartWriter | LineFile:
        return PartWriter(path, self._schema()) if self._to_parquet else LineFile(path)

    def _schema(self) -> Any:
        if self._from_parquet:
            return schema_of_answers(self.selector, self.requests)
        return answers_as_table([], report=self.selector.report).schema

    def _list(self, shard: Shard, faults: list[RowError]) -> Mark | None:
        if not faults:
            return None
        with whole(self.faults(shard.index)) as draft:
            draft.write_bytes(msgspec.json.Encoder(enc_hook=repr).encode_lines(faults))
            return mark_of(draft)


def _sealed(account: bytes) -> bytes:
    """Put a digest before an account: one that a full disk or a power cut has cut short is none."""
    return sha256(account).hexdigest().encode() + b" " + account


def _unsealed(sealed: bytes) -> bytes:
    digest, _, account = sealed.partition(b" ")
    if digest != sha256(account).hexdigest().encode():
        raise msgspec.ValidationError("the account is damaged")
    return account


class Assembly:
    """The output file and the errors file as drafts, which grow part by part in the order of the input.

    The drafts are no state: an interrupted run leaves the parts, and the next one assembles them again.
    """

    def __init__(self, job: Job, shards: Sequence[Shard]) -> None:
        self._job = job
        self._drafts = (job.parts / "output.draft", job.parts / "errors.draft")
        self._output = job.output(self._drafts[0])
        self._errors = LineFile(self._drafts[1])
        self._ready: dict[int, ShardResult] = {}
        self._next = 0
        self._shards = len(shards)
        self.written = 0
        self.errors = 0

    def add(self, result: ShardResult) -> None:
        """Learn that a shard is done."""
        self._ready[result.index] = result
        self.written += result.written
        self.errors += result.errors

    def advance(self, most: int | None = None) -> None:
        """Append the parts whose turn has come; no more than `most`, so that nobody waits long for this process."""
        while self._next in self._ready and (most is None or most > 0):
            result = self._ready.pop(self._next)
            self._output.add(self._job.part(self._next))
            if result.errors:
                self._errors.add(self._job.faults(self._next))
            self._next += 1
            most = None if most is None else most - 1

    def close(self) -> None:
        """Close the drafts."""
        try:
            self._output.close()
        finally:
            self._errors.close()

    def finish(self, output: Path, errors_file: Path) -> None:
        """Put both files in their places, the output last; without errors there is no file of them."""
        assert self._next == self._shards  # noqa: S101  (every shard has been added)
        if self.errors:
            move(self._drafts[1], errors_file)
        else:
            errors_file.unlink(missing_ok=True)
        move(self._drafts[0], output)
