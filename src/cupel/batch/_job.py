"""A job: what to do with each shard. It pickles, so that any process that sees the files can do it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from cupel.batch._arrow import arrow
from cupel.batch._errors import BatchError
from cupel.batch._files import whole
from cupel.batch._jsonl import (
    JsonlOutput,
    answer_line,
    answers_as_table,
    fit_for_columns,
    plan_jsonl,
    read_jsonl_shard,
    write_jsonl,
)
from cupel.batch._parquet import ParquetOutput, as_rows, empty_requests, plan_parquet, read_parquet_shard, write_part
from cupel.batch._selector import BatchSelector
from cupel.batch._shard import RowError, Shard, ShardResult

Form = Literal["parquet", "jsonl"]


@dataclass(frozen=True, slots=True)
class Job:
    """Where requests come from, how they are answered, and where the parts of the answer go."""

    id: str
    requests: Path
    parts: Path
    selector: BatchSelector
    output_form: Form

    def plan(self, shard_rows: int | None) -> list[Shard]:
        """Cut the input into shards."""
        plan = plan_parquet if form_of(self.requests) == "parquet" else plan_jsonl
        return plan(self.requests, shard_rows)

    def check(self) -> None:
        """Refuse an input whose columns cannot be requests."""
        if form_of(self.requests) == "parquet":
            empty = empty_requests(self.requests)
            self.selector(empty)
            if "row" in empty.column_names:
                msg = "the requests have a column 'row', which the answer needs for itself: rename it"
                raise BatchError(msg)

    def run(self, shard: Shard) -> ShardResult:
        """Answer a shard and put its part in place: first the answers, then the account that says they are complete."""
        if form_of(self.requests) == "parquet":
            part, errors = self._answer_table(shard)
        else:
            part, errors = self._answer_lines(shard)
        with whole(self.part(shard.index)) as draft:
            if self.output_form == "parquet":
                write_part(draft, part)
            else:
                write_jsonl(draft, part)
        result = ShardResult(shard.index, shard.rows, len(part), errors)
        with whole(self.account(shard.index)) as draft:
            draft.write_bytes(msgspec.json.encode(result))
        return result

    def part(self, index: int) -> Path:
        """Say where a shard's answers are."""
        return self.parts / f"{index:06}-{self.id}.{'arrow' if self.output_form == 'parquet' else 'jsonl'}"

    def account(self, index: int) -> Path:
        """Say where a shard's account is."""
        return self.parts / f"{index:06}-{self.id}.done.json"

    def output(self, path: Path) -> ParquetOutput | JsonlOutput:
        """Open the file that the parts are put together in."""
        if self.output_form == "jsonl":
            return JsonlOutput(path)
        if form_of(self.requests) == "parquet":
            empty, _ = _split(self.selector(empty_requests(self.requests)), 0)
        else:
            empty = answers_as_table([], report=self.selector.report)
        return ParquetOutput(path, empty.schema)

    def _answer_table(self, shard: Shard) -> tuple[Any, list[RowError]]:
        good, errors = _split(self.selector(read_parquet_shard(self.requests, shard)), shard.first_row)
        if self.output_form == "parquet":
            return good, errors
        rows = as_rows(good)
        if self.selector.report:
            for row in rows:
                row["report"] = msgspec.Raw(row["report"].encode())
        return rows, errors

    def _answer_lines(self, shard: Shard) -> tuple[Any, list[RowError]]:
        answers = [answer_line(self.selector, row, line) for row, line in read_jsonl_shard(self.requests, shard)]
        if self.output_form == "parquet":
            answers = [fit_for_columns(answer) for answer in answers]
        errors = [
            RowError(answer.row, answer.choice.error, answer.kept.get("id"))
            for answer in answers
            if answer.choice.error is not None
        ]
        good = [answer for answer in answers if answer.choice.error is None]
        report = self.selector.report
        if self.output_form == "parquet":
            return answers_as_table(good, report=report), errors
        return [answer.to_dict(report=report) for answer in good], errors


def form_of(path: Path) -> Form:
    """Tell the form of a file by its name."""
    suffix = path.suffix.lower()
    if suffix in {".parquet", ".pq"}:
        return "parquet"
    if suffix in {".jsonl", ".ndjson"}:
        return "jsonl"
    msg = f"{path}: the name must end in .parquet or .jsonl, not {suffix!r}"
    raise BatchError(msg)


def _split(answer: Any, first_row: int) -> tuple[Any, list[RowError]]:
    """Number the rows, and take those that failed out of the answer."""
    pa = arrow()
    rows = pa.array(range(first_row, first_row + answer.num_rows), pa.int64())
    numbered = answer.add_column(0, "row", rows)
    if answer.column("error").null_count == answer.num_rows:
        return numbered.drop_columns(["error"]), []
    failed = numbered.filter(pa.compute.is_valid(numbered.column("error")))
    ids = failed.column("id").to_pylist() if "id" in failed.column_names else [None] * failed.num_rows
    errors = map(RowError, failed.column("row").to_pylist(), failed.column("error").to_pylist(), ids)
    return numbered.filter(pa.compute.is_null(numbered.column("error"))).drop_columns(["error"]), list(errors)
