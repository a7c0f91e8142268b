"""Read the records of files and of standard input: JSON, JSON lines, CSV, Parquet and text."""

from __future__ import annotations

import csv
import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO, TextIOWrapper
from json import JSONDecodeError
from pathlib import Path
from typing import Any, Final, TextIO

from cupel._internal.documents import MESSAGES_KEYS, TOO_DEEP, is_list, is_object, strict_decoder
from cupel._internal.files import is_packed, read_bytes, standard_input
from cupel.errors import ConfigurationError, MissingExtraError


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The location of a record, and its fields: values of JSON, or cells of text."""

    where: str
    fields: object
    textual: bool = False


SUFFIXES: Final = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that could not be read: its location and the reason."""

    where: str
    message: str


ReadRecord = FileRecord | Fault


def read_jsonl(name: str, lines: Iterable[str]) -> Iterator[ReadRecord]:
    """Read one record from each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.isspace() or not line:
            continue
        where = f"{name}:{number}"
        try:
            yield FileRecord(where, strict_decoder().decode(line))
        except (ValueError, RecursionError) as error:
            yield Fault(where, _json_message(error))


def read_json(name: str, text: str) -> Iterator[ReadRecord]:
    """Read a list of items or messages, or an object: one with the list under `items`, a conversation, or an item."""
    try:
        document = strict_decoder().decode(text)
    except (ValueError, RecursionError) as error:
        where = f"{name}:{error.lineno}" if isinstance(error, JSONDecodeError) else name
        yield Fault(where, _json_message(error))
        return
    if is_object(document) and not document.keys().isdisjoint(("content", *MESSAGES_KEYS)):
        yield FileRecord(name, document)
        return
    items = document.get("items") if is_object(document) else document
    if not is_list(items):
        yield Fault(
            name,
            "expected a list of items, or an object with the list under 'items', 'messages', 'input' or 'contents'",
        )
        return
    for number, value in enumerate(items):
        yield FileRecord(f"{name}: [{number}]", value)


def read_csv(name: str, lines: Iterable[str]) -> Iterator[ReadRecord]:
    """Read one item from each row under a header line with the field names."""
    rows = csv.reader(lines, strict=True)
    try:
        header = next((row for row in rows if row), None)  # blank lines before it are skipped
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


def read_parquet(name: str, path: Path) -> Iterator[ReadRecord]:
    """Read one item from each row, a batch at a time."""
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


def read_text(name: str, stream: TextIO) -> Iterator[ReadRecord]:
    """Read a whole file as one document."""
    content = stream.read()
    if content:
        yield FileRecord(name, {"content": content, "kind": "Document", "source": "Rag", "metadata": {"path": name}})


def _json_message(error: Exception) -> str:
    if isinstance(error, JSONDecodeError):
        if not error.doc.strip():
            return "not JSON: there is nothing in it"
        return f"not JSON: {error.msg} (column {error.colno})"
    return f"not JSON that can be read: {TOO_DEEP if isinstance(error, RecursionError) else error}"


_BEGINNING: Final = 10_000
"""Bytes in which a log shows what it is."""


def records_of(sources: Sequence[str], input_format: str, max_unpacked: int) -> Iterator[ReadRecord]:
    """Yield the records of every source, in order."""
    for source in sources:
        if source == "-":
            yield from _standard_input(input_format)
            continue
        paths, as_text = _paths(source)
        for path in paths:
            yield from _file(path, "text" if as_text and input_format == "auto" else input_format, max_unpacked)


def title_of(sources: Sequence[str]) -> str:
    """Return the title of a page about the sources."""
    return ", ".join(Path(source).name if source != "-" else "standard input" for source in sources[:3])


def _paths(source: str) -> tuple[list[Path], bool]:
    """Return the files a source names, and whether each of them is one document."""
    if not source.strip():
        raise ConfigurationError("ITEMS is empty: name a file, a directory (. is this one), or - for standard input")
    path = Path(source)
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        return [file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)], True
    if path.exists():
        return [path], False
    matches = sorted(Path(match) for match in glob.glob(source, recursive=True))  # noqa: PTH207  (absolute patterns)
    files = [match for match in matches if match.is_file()]
    if not files:
        raise FileNotFoundError(f"{source}: no such file, directory or glob match")
    return files, False


def read_log(path: Path) -> list[Any]:
    """Return the conversations of a log of Claude Code's or of Codex; none for another file."""
    with path.open("rb") as file:
        if not (b'"payload"' in (begins := file.read(_BEGINNING)) or b'"sessionId"' in begins):
            return []
    from cupel.evaluation import EvaluationError, read_recordings  # only for logs

    try:
        return [one for one in read_recordings(path) if one.calls]
    except EvaluationError:  # it only looks like one
        return []


def _file(path: Path, input_format: str, max_unpacked: int) -> Iterator[ReadRecord]:
    packed = is_packed(path.name)
    named = path.with_suffix("") if packed else path
    chosen = SUFFIXES.get(named.suffix.lower(), "text") if input_format == "auto" else input_format
    if chosen == "jsonl" and (log := read_log(path)):
        for one in log:
            yield FileRecord(str(path), {"id": one.name, "messages": list(one.messages), "system": one.system})
        return
    if chosen == "parquet":
        yield from read_parquet(str(path), path)
        return
    opened = BytesIO(read_bytes(str(path), max_unpacked=max_unpacked)) if packed else path.open("rb")
    with opened as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
        yield from _decoded(str(path), stream, chosen)


def _standard_input(input_format: str) -> Iterator[ReadRecord]:
    if input_format == "parquet":
        yield Fault("-", "Parquet cannot be read from standard input; give a file")
        return
    stream = TextIOWrapper(standard_input(), encoding="utf-8-sig", newline="")
    try:
        yield from _decoded("-", stream, input_format)
    finally:
        stream.detach()


def _decoded(name: str, stream: TextIOWrapper, chosen: str) -> Iterator[ReadRecord]:
    try:
        if chosen == "jsonl":
            yield from read_jsonl(name, stream)
        elif chosen == "csv":
            yield from read_csv(name, stream)
        elif chosen == "text":
            yield from read_text(name, stream)
        elif chosen == "json":
            yield from read_json(name, stream.read())
        else:
            yield from _guessed(name, stream.read())
    except UnicodeDecodeError as error:
        yield Fault(name, f"not UTF-8 text: {error.reason} at byte {error.start}")


def _guessed(name: str, text: str) -> Iterator[ReadRecord]:
    """Tell JSON lines from one JSON document: at least half of the lines are records, of which the first may be bad."""
    lines = [line for line in text.split("\n") if line.strip()]
    is_lines = not lines
    if len(lines) > 1 and _decoded_line(text) is None:
        is_lines = 2 * sum(isinstance(_decoded_line(line), (dict, list)) for line in lines) >= len(lines)
    yield from read_jsonl(name, text.split("\n")) if is_lines else read_json(name, text)


def _decoded_line(line: str) -> Any:
    try:
        return strict_decoder().decode(line)
    except (ValueError, RecursionError):
        return None
