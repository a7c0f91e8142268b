"""Read, answer and write JSON lines, a shard at a time."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from typing import Any, Final, NamedTuple

import msgspec

from cupel._internal.checks import shown, wrong_type
from cupel._internal.documents import ITEM, ChatRequest, chat_request
from cupel.batch._requests import (
    LARGEST,
    Chosen,
    choice_columns,
    decoded,
    guarded,
    read_budget,
    read_items,
    select_items,
    select_messages,
)
from cupel.batch._selector import RESULT_COLUMNS, BatchSelector
from cupel.batch._source import SHARD_BYTES, SHARD_ROWS, BatchError, RowError, Shard, arrow, bounded_lines
from cupel.model import ContextItem
from cupel.pipeline import Pipeline

_ENCODER: Final = msgspec.json.Encoder()


class JsonAnswer(NamedTuple):
    """The outcome of one line: the fields to copy from the request, the selected entries and the choice."""

    row: int
    kept: dict[str, Any]
    key: str
    """`items`, or `messages` for a conversation."""
    entries: list[msgspec.Raw]
    """The selected items or messages as they were written."""
    items: list[ContextItem]
    choice: Chosen

    def to_line(self) -> bytes:
        """Return the answer as a line of JSON."""
        choice = self.choice
        answer = {
            "row": self.row,
            **self.kept,
            self.key: self.entries,
            "selected": choice.selected,
            "total_tokens": choice.total_tokens,
            "total_candidates": choice.total_candidates,
        }
        if choice.report is not None:
            answer["report"] = msgspec.Raw(choice.report.encode())
        return _ENCODER.encode(answer)


def unfit_for_columns(answer: JsonAnswer) -> str | None:
    """Return why an answer cannot be a row of a table, if it cannot."""
    if answer.key != "items":
        return "messages cannot be written as Parquet: name an output that ends in .jsonl"
    for place, item in zip(answer.choice.selected, answer.items, strict=True):
        for field in ITEM.fields:
            value = getattr(item, field.name)
            if field.codec.python_type is int and value is not None and not -LARGEST <= value <= LARGEST:
                return f"items[{place}]: {field.name} is beyond 64 bits: {value}"
    return None


def answers_as_table(answers: list[JsonAnswer], *, report: bool) -> Any:
    """Return the answers to lines as a table with fixed columns; of the keys copied from a request it has only `id`."""
    pa = arrow()
    types: dict[Any, Any] = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", "UTC"),
        tuple[str, ...]: pa.list_(pa.string()),
        dict[str, Any]: pa.string(),  # metadata, as JSON
    }
    item_type = pa.struct([(field.name, types[field.codec.python_type]) for field in ITEM.fields])
    columns = {
        "row": pa.array([answer.row for answer in answers], pa.int64()),
        "id": pa.array([_text(answer.kept.get("id")) for answer in answers], pa.string()),
        "items": pa.array([[_cells(item) for item in answer.items] for answer in answers], pa.list_(item_type)),
        **choice_columns([answer.choice for answer in answers], report=report),
    }
    return pa.table(columns)


def _cells(item: ContextItem) -> dict[str, Any]:
    metadata = msgspec.json.encode(item.metadata).decode() if item.metadata else None
    cells = msgspec.structs.asdict(item)
    return {**cells, "kind": str(item.kind), "source": str(item.source), "metadata": metadata}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


_KEYS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRIES: Final = msgspec.json.Decoder(list[msgspec.Raw])


def plan_jsonl(path: Path, shard_rows: int | None, max_row_bytes: int) -> list[Shard]:
    """Cut the file into shards at line ends; every line is a row, blank ones too."""
    most = shard_rows or SHARD_ROWS
    shards: list[Shard] = []
    first_row = rows = start = stop = 0
    with path.open("rb") as stream:
        for size, _ in bounded_lines(stream, max_row_bytes):
            rows += 1
            stop += size
            if rows == most or stop - start >= SHARD_BYTES:
                shards.append(Shard(len(shards), first_row, rows, start, stop))
                first_row, rows, start = first_row + rows, 0, stop
    if rows:
        shards.append(Shard(len(shards), first_row, rows, start, stop))
    return shards


Line = tuple[int, bytes | RowError]
"""A row and its text, or its error if the line is too long to be read."""


def read_jsonl_shard(path: Path, shard: Shard, max_row_bytes: int) -> Iterator[Line]:
    """Yield the lines of a shard with their rows."""
    left = shard.stop - shard.start
    with path.open("rb") as stream:
        stream.seek(shard.start)
        for row, (size, line) in enumerate(islice(bounded_lines(stream, max_row_bytes), shard.rows), shard.first_row):
            left -= size
            if line is None:
                limit = f"{max_row_bytes:,}; allow more with --max-row-bytes (max_row_bytes=)"
                yield row, RowError(row, f"the line has {size:,} bytes, more than the limit of {limit}")
                continue
            text = (line if row else line.removeprefix(BOM_UTF8)).removesuffix(b"\n")
            if text and not text.isspace():
                yield row, text
    if left:
        raise BatchError(f"{path} has changed since the job began")


def answer_lines(selector: BatchSelector, lines: Iterator[Line], *, as_table: bool) -> tuple[Any, list[RowError]]:
    """Select for each line; return the answers, as lines or as a table, and the rows without one."""
    pipeline = selector.policy
    good: list[Any] = []
    bad: list[RowError] = []
    for row, line in lines:
        if isinstance(line, RowError):
            bad.append(line)
            continue
        answer = _answer(pipeline, selector, row, line)
        error = answer.choice.error or (unfit_for_columns(answer) if as_table else None)
        if error is not None:
            bad.append(RowError(row, error, answer.kept.get("id"), _request(line)))
        else:
            good.append(answer if as_table else answer.to_line())
    return answers_as_table(good, report=selector.report) if as_table else good, bad


def _answer(pipeline: Pipeline, selector: BatchSelector, row: int, line: bytes) -> JsonAnswer:
    kept: dict[str, Any] = {}
    entries: list[msgspec.Raw] = []
    items: list[ContextItem] = []
    key = "items"

    def select() -> Chosen:
        nonlocal key
        key, found, tokens = _split(line, kept)
        for name in kept:
            if name == "row" or name in RESULT_COLUMNS:
                raise ValueError(f"the request has a key {shown(name)}, which the answer has too: rename it")
        query = kept.get("query")
        if key != "items":
            request = chat_request({**kept, key: _messages(found)}) or ChatRequest(None)
            entries.extend(_ENTRIES.decode(found))
            budget = read_budget(tokens, selector.budget)
            return select_messages(pipeline, request, budget, query, report=selector.report)
        items.extend(read_items(found))
        entries.extend(_ENTRIES.decode(found))
        return select_items(pipeline, items, read_budget(tokens, selector.budget), query, report=selector.report)

    choice = guarded(select)
    selected = choice.selected
    taken = [items[place] for place in selected] if items else []
    return JsonAnswer(row, kept, key, [entries[place] for place in selected], taken, choice)


def _split(line: bytes, kept: dict[str, Any]) -> tuple[str, msgspec.Raw, Any]:
    """Return `items` or the messages, undecoded, with their key, and the budget; put the rest into `kept`."""
    text = line
    try:
        request = _members(text)
        if "request" in request and "error" in request:  # a line of an errors file
            text = bytes(request["request"])
            request = _members(text)
        budget = request.pop("budget", None)
        given = request.keys() & {"items", "messages", "contents"} or request.keys() & {"input"}
        found = {key: request.pop(key) for key in given}
        kept.update({key: msgspec.json.decode(value) for key, value in request.items()})
        budget = None if budget is None else msgspec.json.decode(budget)
    except msgspec.ValidationError:
        raise TypeError(
            f"a request must be an object, or a list of messages, got {type(decoded(text)).__name__}"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if len(found) != 1:
        raise TypeError("items is missing" if not found else "a request has items or messages, not both")
    return (*found.popitem(), budget)


def _members(text: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of a request; a bare list is a conversation."""
    return {"messages": msgspec.Raw(text)} if text.lstrip()[:1] == b"[" else _KEYS.decode(text)


def _messages(text: msgspec.Raw) -> list[Any]:
    messages = decoded(text)
    if not isinstance(messages, list):
        raise wrong_type("messages", "a list", messages)
    return messages  # pyright: ignore[reportUnknownVariableType]


def _request(line: bytes) -> msgspec.Raw | str:
    """Return a failed line so that it can be run again: unchanged if it is JSON, else as text."""
    try:
        request = decoded(line)
    except ValueError:
        return line.decode(errors="replace")
    if isinstance(request, dict) and "request" in request and "error" in request:
        return _KEYS.decode(line)["request"]
    return msgspec.Raw(line.strip())


class LineFile:
    """A file of lines, to which lines or whole files of them are appended."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("wb")

    def write(self, lines: list[bytes]) -> None:
        """Append lines."""
        self._stream.writelines(line + b"\n" for line in lines)

    def add(self, part: Path) -> None:
        """Append a file."""
        with part.open("rb") as stream:
            copyfileobj(stream, self._stream)

    def close(self) -> None:
        """Flush and close the file."""
        self._stream.close()
