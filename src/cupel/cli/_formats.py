"""Reading records out of files, one format each; a record that cannot be read is yielded as a fault."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from json import JSONDecodeError
from pathlib import Path
from typing import Any, Final, TextIO

from cupel._documents import TOO_DEEP, strict_decoder
from cupel.cli._records import FileRecord
from cupel.errors import MissingExtraError

SUFFIXES: Final = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
NAMES: Final = ("auto", "json", "jsonl", "csv", "parquet", "text")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that could not be read, and where."""

    where: str
    message: str


Found = FileRecord | Fault


def read_jsonl(name: str, lines: Iterable[str]) -> Iterator[Found]:
    """One item a line; blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        if line.isspace() or not line:
            continue
        where = f"{name}:{number}"
        try:
            yield FileRecord(where, strict_decoder().decode(line))
        except (ValueError, RecursionError) as error:
            yield Fault(where, _json_message(error))


def read_json(name: str, text: str) -> Iterator[Found]:
    """A list of items or messages, or an object with it under `items` or `messages`; each is named by its line."""
    if text.lstrip()[:1] == "{":
        yield from _read_wrapped(name, text)
        return
    try:
        for line, value in _elements(text):
            yield FileRecord(f"{name}:{line}", value)
    except (ValueError, RecursionError) as error:
        yield _fault(name, error)


def _read_wrapped(name: str, text: str) -> Iterator[Found]:
    try:
        document = strict_decoder().decode(text)
    except (ValueError, RecursionError) as error:
        yield _fault(name, error)
        return
    key = "messages" if "messages" in document else "items"
    items: list[Any] | None = document.get(key)
    if not isinstance(items, list):
        yield Fault(name, "expected a list of items, or an object with the list under 'items' or 'messages'")
        return
    for number, value in enumerate(items):
        yield FileRecord(f"{name}: {key}[{number}]", value)


def _elements(text: str) -> Iterator[tuple[int, Any]]:
    """Decode the elements of a list one by one, with the line each starts on."""
    decoder = strict_decoder()
    position = _skip(text, 0)
    if text[position : position + 1] != "[":
        raise JSONDecodeError("expected a list of items", text, position)
    position = _skip(text, position + 1)
    line, counted = 1, 0
    if text[position : position + 1] == "]":
        position += 1
    else:
        while True:
            line += text.count("\n", counted, position)
            counted = position
            value, position = decoder.raw_decode(text, position)
            yield line, value
            position = _skip(text, position)
            mark = text[position : position + 1]
            position = _skip(text, position + 1)
            if mark == "]":
                break
            if mark != ",":
                raise JSONDecodeError("expected ',' or ']' after an item", text, position - 1)
    if text[_skip(text, position) :]:
        raise JSONDecodeError("unexpected text after the list", text, position)


def _skip(text: str, position: int) -> int:
    while text[position : position + 1] in {" ", "\t", "\n", "\r"}:
        position += 1
    return position


def read_csv(name: str, lines: Iterable[str]) -> Iterator[Found]:
    """One item a row under a header line with the field names."""
    rows = csv.reader(lines, strict=True)
    try:
        header = next(rows, None)
        if header is None:
            return
        header[0] = header[0].removeprefix("\ufeff")
        start = rows.line_num + 1
        for row in rows:
            where = f"{name}:{start}"
            start = rows.line_num + 1
            if not row:
                continue
            if len(row) != len(header):
                yield Fault(where, f"{len(row)} cells, but the header has {len(header)}")
            else:
                yield FileRecord(where, dict(zip(header, row, strict=True)), textual=True)
    except csv.Error as error:
        yield Fault(f"{name}:{rows.line_num}", f"not CSV: {error}")


def read_parquet(name: str, path: Path) -> Iterator[Found]:
    """One item a row; read a batch at a time."""
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError("pyarrow", "batch") from None
    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                yield FileRecord(f"{name}: row {number}", row)
                number += 1
    except arrow.ArrowException as error:
        yield Fault(name, f"not Parquet: {error}")


def read_text(name: str, stream: TextIO) -> Iterator[Found]:
    """A whole file as one document."""
    content = stream.read()
    if content:
        yield FileRecord(name, {"content": content, "kind": "Document", "source": "Rag", "metadata": {"path": name}})


def _fault(name: str, error: Exception) -> Fault:
    """Name the line of a syntax error, if the error is one."""
    where = f"{name}:{error.lineno}" if isinstance(error, JSONDecodeError) else name
    return Fault(where, _json_message(error))


def _json_message(error: Exception) -> str:
    if isinstance(error, JSONDecodeError):
        return f"not JSON: {error.msg} (column {error.colno})"
    return f"not JSON that can be read: {TOO_DEEP if isinstance(error, RecursionError) else error}"
