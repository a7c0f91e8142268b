"""Reading and writing JSON lines a shard at a time."""

from __future__ import annotations

import shutil
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from cupel.batch._arrow import arrow
from cupel.batch._choice import LARGEST, Choice, Request, choose
from cupel.batch._errors import BatchError
from cupel.batch._requests import read_budget, read_item
from cupel.batch._selector import RESULT_COLUMNS, BatchSelector
from cupel.batch._shard import SHARD_BYTES, SHARD_ROWS, Shard
from cupel.model import ContextItem


def plan_jsonl(path: Path, shard_rows: int | None) -> list[Shard]:
    """Cut the file into shards at line ends; a row is a line, and blank lines count although they ask for nothing."""
    most = shard_rows or SHARD_ROWS
    shards: list[Shard] = []
    first_row = rows = start = stop = 0
    with path.open("rb") as stream:
        for line in stream:
            rows += 1
            stop += len(line)
            if rows == most or stop - start >= SHARD_BYTES:
                shards.append(Shard(len(shards), first_row, rows, start, stop))
                first_row, rows, start = first_row + rows, 0, stop
    if rows:
        shards.append(Shard(len(shards), first_row, rows, start, stop))
    return shards


def read_jsonl_shard(path: Path, shard: Shard) -> Iterator[tuple[int, bytes]]:
    """Give the lines of a shard with their rows."""
    with path.open("rb") as stream:
        stream.seek(shard.start)
        text = stream.read(shard.stop - shard.start)
    if len(text) != shard.stop - shard.start:
        msg = f"{path}: the file is shorter than when the job began"
        raise BatchError(msg)
    if shard.start == 0:
        text = text.removeprefix(BOM_UTF8)
    for row, line in enumerate(text.removesuffix(b"\n").split(b"\n"), shard.first_row):
        if line.strip():
            yield row, line


class JsonAnswer(msgspec.Struct, frozen=True):
    """One line's outcome: the request without its items and budget, the selected items in both forms, the choice."""

    row: int
    kept: dict[str, Any]
    forms: list[Any]
    items: list[ContextItem]
    choice: Choice

    def to_dict(self, *, report: bool) -> dict[str, Any]:
        """Give the answer as it is written to a line."""
        answer = {
            "row": self.row,
            **self.kept,
            "items": self.forms,
            "selected": self.choice.selected,
            "total_tokens": self.choice.total_tokens,
            "total_candidates": self.choice.total_candidates,
        }
        if report and self.choice.report is not None:
            answer["report"] = msgspec.Raw(self.choice.report.encode())
        return answer


def answer_line(selector: BatchSelector, row: int, line: bytes) -> JsonAnswer:
    """Select for one line."""
    kept: dict[str, Any] = {}
    forms: list[Any] = []
    items: list[ContextItem] = []

    def read() -> Request:
        request = _decoded(line)
        found = request.pop("items", None)
        budget = request.pop("budget", None)
        kept.update(request)
        for name in request:
            if name == "row" or name in RESULT_COLUMNS:
                msg = f"the request has a key {name!r}, which the answer needs for itself: rename it"
                raise ValueError(msg)
        if not isinstance(found, list):
            msg = (
                "items is missing"
                if found is None
                else f"items must be a list, got {type(found).__name__}: {found!r:.80}"
            )
            raise TypeError(msg)
        forms.extend(found)  # pyright: ignore[reportUnknownArgumentType]
        items.extend(read_item(form, position) for position, form in enumerate(forms))
        return Request(items, read_budget(budget, selector.budget))

    choice = choose(selector.policy.pipeline(), read, report=selector.report)
    selected = choice.selected
    return JsonAnswer(row, kept, [forms[place] for place in selected], [items[place] for place in selected], choice)


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        request = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"not JSON: {error}"
        raise ValueError(msg) from None
    if not isinstance(request, dict):
        msg = f"a request must be an object, got {type(request).__name__}"
        raise TypeError(msg)
    return cast("dict[str, Any]", request)


def write_jsonl(path: Path, answers: list[dict[str, Any]]) -> None:
    """Write one answer a line."""
    path.write_bytes(msgspec.json.Encoder().encode_lines(answers))


class JsonlOutput:
    """A file of lines that grows by one part at a time."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("wb")

    def add(self, part: Path) -> None:
        """Append a part."""
        with part.open("rb") as stream:
            shutil.copyfileobj(stream, self._stream, 1 << 20)

    def close(self) -> None:
        """Make sure that everything is in the file."""
        self._stream.close()


def fit_for_columns(answer: JsonAnswer) -> JsonAnswer:
    """Turn an answer into an error if some number of it is too large for a column."""
    for place, item in zip(answer.choice.selected, answer.items, strict=True):
        for name in ("tokens", "priority", "original_tokens"):
            value = getattr(item, name)
            if value is not None and not -LARGEST <= value <= LARGEST:
                error = f"items[{place}]: {name} is beyond 64 bits: {value}"
                return msgspec.structs.replace(answer, choice=Choice([], error=error))
    return answer


def answers_as_table(answers: list[JsonAnswer], *, report: bool) -> Any:
    """Give the answers to lines as a table with fixed columns; of a request's own keys only `id` has a place there."""
    pa = arrow()
    item_type = pa.struct(
        [
            ("content", pa.string()),
            ("tokens", pa.int64()),
            ("kind", pa.string()),
            ("source", pa.string()),
            ("priority", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("metadata", pa.string()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("future_relevance_hint", pa.float64()),
            ("pinned", pa.bool_()),
            ("original_tokens", pa.int64()),
        ]
    )
    columns: dict[str, Any] = {
        "row": pa.array([answer.row for answer in answers], pa.int64()),
        "id": pa.array([_text(answer.kept.get("id")) for answer in answers], pa.string()),
        "items": pa.array([[_cells(item) for item in answer.items] for answer in answers], pa.list_(item_type)),
        "selected": pa.array([answer.choice.selected for answer in answers], pa.list_(pa.int32())),
        "total_tokens": pa.array([answer.choice.total_tokens for answer in answers], pa.int64()),
        "total_candidates": pa.array([answer.choice.total_candidates for answer in answers], pa.int64()),
    }
    if report:
        columns["report"] = pa.array([answer.choice.report for answer in answers], pa.string())
    return pa.table(columns)


def _cells(item: ContextItem) -> dict[str, Any]:
    metadata = msgspec.json.encode(item.metadata).decode() if item.metadata else None
    cells = msgspec.structs.asdict(item)
    return {**cells, "kind": str(item.kind), "source": str(item.source), "metadata": metadata}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
