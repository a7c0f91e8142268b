"""Read items, messages and conversations from files or standard input."""

from __future__ import annotations

import argparse
import csv
import glob
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from io import BytesIO, TextIOWrapper
from itertools import chain
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO, TypeVar, cast

from msgspec import structs

from cupel._checks import did_you_mean, shown
from cupel._counter import count_tokens
from cupel._documents import ITEM, TOO_DEEP, is_list, is_object, strict_decoder
from cupel._files import MAX_UNPACKED, is_packed, read_bytes, standard_input
from cupel._text import plural
from cupel.cli._output import say
from cupel.errors import ConfigurationError, CupelError, InvalidItemError, MissingExtraError
from cupel.model import ContextItem

if TYPE_CHECKING:
    from cupel.tokens import TokenCounter


_METADATA: Final = "metadata."


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The location of a record, and its fields: values of JSON, or cells of text."""

    where: str
    fields: object
    textual: bool = False


class BadRecordError(Exception):
    """A record that cannot be read; the message names the field."""


def item_of(record: FileRecord, count: Callable[[str], int]) -> ContextItem:
    """Build the item of a record; a record without a token count gets the counter's."""
    fields = _row(cast("Mapping[str, str]", record.fields)) if record.textual else record.fields
    if is_object(fields) and fields.get("tokens") is None and isinstance(content := fields.get("content"), str):
        try:
            fields = {**fields, "tokens": count(content) if content else 0}
        except InvalidItemError as error:
            raise BadRecordError(str(error)) from error
    return ITEM.read(fields, error=BadRecordError)


def _row(cells: Mapping[str, str]) -> dict[str, Any]:
    """Read a row of text; a column `metadata.NAME` holds one entry of the metadata."""
    own = {key: text for key, text in cells.items() if not key.startswith(_METADATA)}
    fields = ITEM.read_cells(own, error=BadRecordError)
    entries = {key.removeprefix(_METADATA): text for key, text in cells.items() if key not in own and text}
    if entries:
        fields["metadata"] = {**fields.get("metadata", {}), **entries}
    return fields


def is_message(record: FileRecord) -> bool:
    """Tell whether a record is a message of a chat history: no item has a role or a type."""
    fields = record.fields
    if not is_object(fields) or record.textual or "tokens" in fields:
        return False
    return "role" in fields or "type" in fields


def message_of(record: FileRecord) -> object:
    """Return the record as a message."""
    if not is_message(record):
        raise BadRecordError("expected a message")
    return record.fields


@dataclass(frozen=True, slots=True)
class NamedConversation:
    """One of many conversations in a file, and the id it goes by."""

    where: str
    messages: Any
    id: object = None


def is_conversation(record: FileRecord) -> bool:
    """Tell whether a record is a list of messages, or an object that has one under `messages`."""
    fields = record.fields
    is_named = is_object(fields) and not record.textual and "tokens" not in fields and "messages" in fields
    return is_named or is_list(fields)


def is_item(record: FileRecord) -> bool:
    """Tell whether a record is meant to be an item: it has a content."""
    return is_object(record.fields) and "content" in record.fields


def conversation_of(record: FileRecord) -> NamedConversation:
    """Return the record as a conversation."""
    if not is_conversation(record):
        raise BadRecordError("expected a conversation")
    fields = record.fields
    if is_object(fields):
        return NamedConversation(record.where, fields["messages"], fields.get("id"))
    return NamedConversation(record.where, fields)


def chosen_of(conversations: Sequence[NamedConversation], wanted: str | None) -> NamedConversation:
    """Return the wanted conversation, or the only one."""
    count = len(conversations)
    if not count:
        raise ConfigurationError("ITEMS has no conversation that can be read")
    if wanted is None:
        if count > 1:
            raise ConfigurationError(
                f"ITEMS has {count:,} conversations: choose one with --conversation, by its id or its number from 1, "
                "or select for all of them with cupel batch"
            )
        return conversations[0]
    by_id = [one for one in conversations if one.id is not None and str(one.id) == wanted]
    if len(by_id) > 1:
        raise ConfigurationError(f"--conversation {shown(wanted)}: {len(by_id)} conversations have this id")
    by_number = [one for number, one in enumerate(conversations, 1) if str(number) == wanted]
    for one in by_id or by_number:
        return one
    raise ConfigurationError(
        f"--conversation {shown(wanted)}: neither an id nor a number from 1 to {count:,}, the conversations in ITEMS"
    )


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


Found = FileRecord | Fault


def read_jsonl(name: str, lines: Iterable[str]) -> Iterator[Found]:
    """Read one record from each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.isspace() or not line:
            continue
        where = f"{name}:{number}"
        try:
            yield FileRecord(where, strict_decoder().decode(line))
        except (ValueError, RecursionError) as error:
            yield Fault(where, _json_message(error))


def read_json(name: str, text: str) -> Iterator[Found]:
    """Read a list of items or messages, or an object with it under `items` or `messages`; name each by its line."""
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
    """Read one item from each row under a header line with the field names."""
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


def read_text(name: str, stream: TextIO) -> Iterator[Found]:
    """Read a whole file as one document."""
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


_LARGE: Final = 4_000_000
"""Bytes from which reading shows a progress bar."""


def records_of(sources: Sequence[str], input_format: str, max_unpacked: int) -> Iterator[Found]:
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


def _file(path: Path, input_format: str, max_unpacked: int) -> Iterator[Found]:
    named = path.with_suffix("") if is_packed(path.name) else path
    chosen = SUFFIXES.get(named.suffix.lower(), "text") if input_format == "auto" else input_format
    if chosen == "parquet":
        yield from read_parquet(str(path), path)
        return
    with _opened(path, max_unpacked) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
        yield from _decoded(str(path), stream, chosen)


def _opened(path: Path, max_unpacked: int) -> BinaryIO:
    """Open a file; a large one with a progress bar if standard error is a terminal."""
    if is_packed(path.name):
        return BytesIO(read_bytes(str(path), max_unpacked=max_unpacked))
    if path.stat().st_size < _LARGE or not sys.stderr.isatty():
        return path.open("rb")
    try:
        from rich.console import Console
        from rich.progress import open as watched
    except ImportError:
        return path.open("rb")
    bar = watched(path, "rb", description=f"reading {path.name}", console=Console(stderr=True), transient=True)
    return cast("BinaryIO", bar)


def _standard_input(input_format: str) -> Iterator[Found]:
    if input_format == "parquet":
        yield Fault("-", "Parquet cannot be read from standard input; give a file")
        return
    stream = TextIOWrapper(standard_input(), encoding="utf-8-sig", newline="")
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
    """Tell JSON lines from one JSON document.

    A first line that is a whole record, or a whole list with lines after it, means JSON lines. So do lines of which
    at least half are whole records or lists, in a text that is no JSON document: its first line may be a bad record.
    """
    first, _, rest = text.lstrip().partition("\n")
    found = _decoded_line(first) if first[:1] == "{" or (first[:1] == "[" and rest.strip()) else None
    is_lines = isinstance(found, list) or (isinstance(found, dict) and ("content" in found or "messages" in found))
    if not is_lines and rest.strip() and _decoded_line(text) is None:
        lines = [line for line in text.split("\n") if line.strip()]
        is_lines = 2 * sum(isinstance(_decoded_line(line), (dict, list)) for line in lines) >= len(lines)
    yield from read_jsonl(name, text.split("\n")) if is_lines else read_json(name, text)


def _decoded_line(line: str) -> Any:
    try:
        return strict_decoder().decode(line)
    except (ValueError, RecursionError):
        return None


T = TypeVar("T")
_COUNTERS: Final = ("chars", "tiktoken:o200k_base", "tiktoken:cl100k_base")


class InputError(CupelError):
    """Some records cannot be read; `faults` has the reason of each."""

    def __init__(self, faults: Sequence[Fault], remedy: str = "Leave them out with --skip-bad.") -> None:
        super().__init__(faults)
        self.faults = faults
        self._remedy = remedy

    def __str__(self) -> str:
        lines = "".join(f"\n  {fault.where}: {fault.message}" for fault in self.faults)
        return f"{plural(len(self.faults), 'bad record')}; nothing was written. {self._remedy}{lines}"


@dataclass(slots=True)
class Input:
    """The items that were read, and the number of records that were skipped or counted."""

    items: list[ContextItem] = field(default_factory=list[ContextItem])
    messages: list[object] = field(default_factory=list[object])
    """The messages of the items, if the input is a chat history."""
    skipped: int = 0
    counted: int = 0


def read_input(args: argparse.Namespace) -> Input:
    """Read ITEMS as the arguments say; report skipped and counted records on standard error."""
    counter = NamedCounter(args.tokens)
    found = read_items(
        args.items,
        counter,
        input_format=args.input_format,
        skip_bad=args.skip_bad,
        conversation=args.conversation,
        max_unpacked=args.max_unpacked,
    )
    if found.skipped:
        say(f"skipped {plural(found.skipped, 'bad record')}", error=True)
    if found.counted:
        say(f"counted the tokens of {plural(found.counted, 'item')} with {counter}", error=True)
    pins: list[tuple[int, bool]] = args.pins
    for number, pinned in pins:
        if not 1 <= number <= len(found.items):
            flag = "--pin" if pinned else "--unpin"
            raise ConfigurationError(f"{flag} {number}: there are {len(found.items)} items, counted from 1")
        found.items[number - 1] = structs.replace(found.items[number - 1], pinned=pinned)
    return found


def reading_flags(args: argparse.Namespace) -> list[str]:
    """Return the arguments that read the same items again, for the same query."""
    named = {"--input-format": args.input_format, "--tokens": args.tokens, "--conversation": args.conversation}
    flags = [word for flag, value in named.items() if value not in {None, "auto"} for word in (flag, str(value))]
    flags += ["--skip-bad"] if args.skip_bad else []
    flags += [] if args.max_unpacked == MAX_UNPACKED else ["--max-unpacked", str(args.max_unpacked)]
    for module in args.modules:
        flags += ["--import", module]
    for number, pinned in args.pins:
        flags += ["--pin" if pinned else "--unpin", str(number)]
    return flags if args.query is None else [*flags, "--query", args.query]


class NamedCounter:
    """The counter that `--tokens` names, or the best one installed; loaded for the first count."""

    def __init__(self, name: str | None = None) -> None:
        if name is not None and name != "chars" and not name.startswith("tiktoken:"):
            *others, last = _COUNTERS
            likely = did_you_mean(name, _COUNTERS)
            raise ConfigurationError(f"--tokens {name}: expected {', '.join(others)} or {last}{likely}")
        self._name = name

    @cached_property
    def _counter(self) -> TokenCounter:
        from cupel import tokens

        if self._name is None:
            return tokens.default_counter()
        _, _, encoding = self._name.partition(":")
        return tokens.TiktokenCounter(encoding) if encoding else tokens.CharacterEstimate()

    def count(self, text: str, /) -> int:
        """Count the tokens of a text."""
        return self._counter.count(text)

    def __str__(self) -> str:
        encoding = getattr(self._counter, "encoding", None)
        return self._name or (f"tiktoken:{encoding}" if encoding else "chars, an estimate")


def read_items(
    sources: Sequence[str],
    counter: TokenCounter,
    *,
    input_format: str = "auto",
    skip_bad: bool = False,
    conversation: str | None = None,
    max_unpacked: int = MAX_UNPACKED,
) -> Input:
    """Read every source; raise `InputError` with all bad records unless they are to be skipped.

    The first record that can be recognised decides what all records must be: messages; conversations, of which
    `conversation` names one by its id or its number from 1; or items, of which those without a token count are counted.
    """
    result = Input()
    records = records_of(sources, input_format, max_unpacked)
    leading: list[Found] = []
    first = None
    for record in records:
        leading.append(record)
        if isinstance(record, FileRecord) and (is_message(record) or is_conversation(record) or is_item(record)):
            first = record
            break
    every = chain(leading, records)
    if first is not None and is_message(first):
        messages = _read_all(every, message_of, result, skip_bad=skip_bad)
        _refuse_choice(conversation, "one conversation")
        return _history(first.where.partition(":")[0], messages, counter, result)
    if first is not None and is_conversation(first):
        one = chosen_of(_read_all(every, conversation_of, result, skip_bad=skip_bad), conversation)
        return _history(one.where, one.messages, counter, result)

    def count(text: str) -> int:
        result.counted += 1
        return count_tokens(counter, text)

    result.items = _read_all(every, partial(item_of, count=count), result, skip_bad=skip_bad)
    _refuse_choice(conversation, "no conversations")
    return result


def _refuse_choice(conversation: str | None, there: str) -> None:
    if conversation is not None:
        raise ConfigurationError(f"--conversation {shown(conversation)}: ITEMS has {there}, nothing to choose from")


def _read_all(records: Iterable[Found], read: Callable[[FileRecord], T], result: Input, *, skip_bad: bool) -> list[T]:
    """Read every record; raise if one is bad and may not be skipped."""
    taken: list[T] = []
    faults: list[Fault] = []
    for record in records:
        try:
            if isinstance(record, Fault):
                faults.append(record)
            else:
                taken.append(read(record))
        except BadRecordError as error:
            faults.append(Fault(record.where, str(error)))
    if faults and not skip_bad:
        raise InputError(faults)
    result.skipped = len(faults)
    return taken


def _history(where: str, messages: Any, counter: TokenCounter, result: Input) -> Input:
    """Read a chat history in any format of `fit`: one item for messages that are sent or dropped together."""
    from cupel.messages import to_items  # only for chat histories

    try:
        result.items = to_items(messages, counter)
    except (CupelError, TypeError) as error:
        # A message that cannot be read may belong to others, so it cannot be skipped alone.
        remedy = "No message of a history is skipped."
        raise InputError([Fault(where, str(error))], remedy) from None
    if messages and not result.items:
        reason = f"none of its {plural(len(messages), 'message')} has anything to send"
        raise InputError([Fault(where, reason)], "A request needs at least one message with a content.")
    result.messages = list(messages)
    result.counted = len(result.items)
    return result
