"""ITEMS: everything the arguments name, read completely or not at all."""

from __future__ import annotations

import glob
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, cast

from cupel._wire import strict_decoder
from cupel.cli._conversations import chosen_of, conversation_of, refuse_choice
from cupel.cli._formats import SUFFIXES, Fault, Found, read_csv, read_json, read_jsonl, read_parquet, read_text
from cupel.cli._records import BadRecordError, Record, is_message, item_of
from cupel.errors import CupelError
from cupel.model import ContextItem

T = TypeVar("T")

_LARGE: Final = 4_000_000
"""Bytes from which reading shows a progress bar."""


class InputError(CupelError):
    """The input is not whole; `faults` says what is wrong with each bad record."""

    def __init__(self, faults: Sequence[Fault], remedy: str = "Leave them out with --skip-bad.") -> None:
        super().__init__(faults)
        self.faults = faults
        self._remedy = remedy

    def __str__(self) -> str:
        lines = "".join(f"\n  {fault.where}: {fault.message}" for fault in self.faults)
        count = f"{len(self.faults)} bad record" + ("s" if len(self.faults) != 1 else "")
        return f"{count}; nothing was written. {self._remedy}{lines}"


@dataclass(slots=True)
class Input:
    """The items that were read, and how many records were skipped or counted on the way."""

    items: list[ContextItem] = field(default_factory=list[ContextItem])
    messages: list[object] = field(default_factory=list[object])
    """The messages that the items stand for, if it was a chat history."""
    skipped: int = 0
    counted: int = 0


def read_items(
    sources: Sequence[str],
    counter: Callable[[], Callable[[str], int]],
    *,
    input_format: str = "auto",
    skip_bad: bool = False,
    conversation: str | None = None,
) -> Input:
    """Read every source; raises `InputError` with all bad records unless they are to be skipped.

    `counter` makes the token counter; it is called once, and only if some record has no token count. `conversation`
    names one of many, by its id or its number from 1.
    """
    result = Input()
    faults: list[Fault] = []
    made: list[Callable[[str], int]] = []

    def count(text: str) -> int:
        if not made:
            made.append(counter())
        result.counted += 1
        return made[0](text)

    records = _records(sources, input_format)
    first = next(records, None)
    found_all = records if first is None else chain((first,), records)
    if isinstance(first, Record) and is_message(first):
        refuse_choice(conversation, "one conversation")
        messages = _whole(found_all, "a message", _message_of, result, skip_bad=skip_bad)
        return _history(first.where.partition(":")[0], messages, count, result)
    if isinstance(first, Record) and conversation_of(first) is not None:
        one = chosen_of(_whole(found_all, "a conversation", conversation_of, result, skip_bad=skip_bad), conversation)
        return _history(one.where, one.messages, count, result)
    refuse_choice(conversation, "no conversations")
    for found in found_all:
        fault = found if isinstance(found, Fault) else _take(found, count, result.items)
        if fault is not None:
            faults.append(fault)
    if faults and not skip_bad:
        raise InputError(faults)
    result.skipped = len(faults)
    return result


def _message_of(record: Record) -> object:
    return record.fields if is_message(record) else None


def _whole(
    records: Iterable[Found], what: str, read: Callable[[Record], T | None], result: Input, *, skip_bad: bool
) -> list[T]:
    """Return what every record is read as; what is not of the kind of the first is bad."""
    taken: list[T] = []
    faults: list[Fault] = []
    for record in records:
        value = None if isinstance(record, Fault) else read(record)
        if value is not None:
            taken.append(value)
        else:
            faults.append(record if isinstance(record, Fault) else Fault(record.where, f"expected {what}"))
    if faults and not skip_bad:
        raise InputError(faults)
    result.skipped = len(faults)
    return taken


def _history(where: str, messages: Any, count: Callable[[str], int], result: Input) -> Input:
    """Read the messages of a chat history, in any format of `fit`: an item for what is sent or left out together."""
    from cupel.integrations.messages import to_items  # for those who have messages

    try:
        result.items = to_items(messages, Counting(count))
    except (CupelError, TypeError) as error:
        # Which of the others would go with a message cannot be told before it is read.
        remedy = "No message is left out of a history that cannot be read."
        raise InputError([Fault(where, str(error))], remedy) from None
    result.messages = list(messages)
    result.counted = len(result.items)
    return result


class Counting:
    """A counter of the command as the library takes it."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    def count(self, text: str, /) -> int:
        """Count the tokens of a text."""
        return self._count(text)


def _take(record: Record, count: Callable[[str], int], items: list[ContextItem]) -> Fault | None:
    try:
        items.append(item_of(record, count))
    except BadRecordError as error:
        return Fault(record.where, str(error))
    return None


def _records(sources: Sequence[str], input_format: str) -> Iterator[Found]:
    for source in sources:
        if source == "-":
            yield from _standard_input(input_format)
            continue
        paths, as_text = _paths(source)
        for path in paths:
            yield from _file(path, "text" if as_text and input_format == "auto" else input_format)


def _paths(source: str) -> tuple[list[Path], bool]:
    """Return the files a source names, and whether each of them is one document."""
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


def _file(path: Path, input_format: str) -> Iterator[Found]:
    chosen = SUFFIXES.get(path.suffix.lower(), "text") if input_format == "auto" else input_format
    if chosen == "parquet":
        yield from read_parquet(str(path), path)
        return
    with _opened(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
        yield from _decoded(str(path), stream, chosen)


def _standard_input(input_format: str) -> Iterator[Found]:
    if input_format == "parquet":
        yield Fault("-", "Parquet cannot be read from standard input; give a file")
        return
    stream = TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    try:
        yield from _decoded("-", stream, input_format)
    finally:
        stream.detach()


def _decoded(name: str, stream: TextIOWrapper, chosen: str) -> Iterator[Found]:
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


def _guessed(name: str, text: str) -> Iterator[Found]:
    """Tell JSON lines from one JSON document: by their first line, a whole record or a whole one of several lists."""
    line, _, rest = text.lstrip().partition("\n")
    try:
        first = strict_decoder().decode(line) if line[:1] == "{" or (line[:1] == "[" and rest.strip()) else None
    except (ValueError, RecursionError):
        first = None
    if isinstance(first, list) or (isinstance(first, dict) and ("content" in first or "messages" in first)):
        yield from read_jsonl(name, text.split("\n"))
    else:
        yield from read_json(name, text)


def _opened(path: Path) -> BinaryIO:
    """Open a file; a large one with a progress bar on standard error, if a person is at a terminal."""
    if path.stat().st_size < _LARGE or not sys.stderr.isatty():
        return path.open("rb")
    try:
        from rich.console import Console
        from rich.progress import open as watched
    except ImportError:
        return path.open("rb")
    bar = watched(path, "rb", description=f"reading {path.name}", console=Console(stderr=True), transient=True)
    return cast("BinaryIO", bar)
