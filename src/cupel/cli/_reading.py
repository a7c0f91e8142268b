"""Turn records into items, messages and conversations."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar, cast

from msgspec import structs

from cupel._internal.checks import did_you_mean, shown
from cupel._internal.counter import count_tokens
from cupel._internal.documents import ITEM, MESSAGES_KEYS, ChatRequest, chat_request, is_list, is_object
from cupel._internal.files import MAX_UNPACKED
from cupel._internal.text import plural
from cupel.cli._output import say
from cupel.cli._records import Fault, FileRecord, ReadRecord, records_of
from cupel.errors import ConfigurationError, CupelError, InvalidItemError
from cupel.model import ContextItem
from cupel.tokens import CharacterEstimate, TiktokenCounter, TokenCounter, default_counter

_METADATA: Final = "metadata."


class BadRecordError(Exception):
    """A record that cannot be read; the message names the field."""


def item_of(record: FileRecord, count: Callable[[str], int]) -> ContextItem:
    """Build the item of a record; a record without a token count gets the counter's."""
    fields = _row(cast("Mapping[str, str]", record.fields)) if record.textual else record.fields
    if is_object(fields) and fields.get("tokens") is None:
        content = fields.get("content")
        try:
            fields = {**fields, "tokens": count(content) if content and isinstance(content, str) else 0}
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


def kind_of(record: FileRecord) -> str | None:
    """Tell a message, which has a role, a type or parts, a conversation and an item apart; None if it is none."""
    fields = record.fields
    if is_list(fields):
        return "conversation"
    if not is_object(fields):
        return None
    if not record.textual and "tokens" not in fields:
        if "role" in fields or "type" in fields or "parts" in fields:
            return "message"
        if not fields.keys().isdisjoint(MESSAGES_KEYS):
            return "conversation"
    return "item" if "content" in fields else None


def expected(record: FileRecord, kind: str) -> FileRecord:
    """Return a record that is a message or a conversation, as all others of its file."""
    if kind_of(record) != kind:
        raise BadRecordError(f"expected a {kind}")
    return record


def chosen_of(conversations: Sequence[FileRecord], wanted: str | None) -> FileRecord:
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
    ids = [one.fields.get("id") if is_object(one.fields) else None for one in conversations]
    by_id = [one for one, name in zip(conversations, ids, strict=True) if name is not None and str(name) == wanted]
    if len(by_id) > 1:
        raise ConfigurationError(f"--conversation {shown(wanted)}: {len(by_id)} conversations have this id")
    by_number = [one for number, one in enumerate(conversations, 1) if str(number) == wanted]
    for one in by_id or by_number:
        return one
    raise ConfigurationError(
        f"--conversation {shown(wanted)}: neither an id nor a number from 1 to {count:,}, the conversations in ITEMS"
    )


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
    request: ChatRequest | None = None
    """The chat history that the items were made of, if they were."""
    skipped: int = 0
    counted: int = 0


def read_input(args: argparse.Namespace) -> Input:
    """Read ITEMS as the arguments say; report skipped and counted records on standard error."""
    counter = named_counter(args.tokens)
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
        name = f"tiktoken:{counter.encoding}" if isinstance(counter, TiktokenCounter) else args.tokens
        say(f"counted the tokens of {plural(found.counted, 'item')} with {name or 'chars, an estimate'}", error=True)
    if not found.items:
        raise ConfigurationError(f"ITEMS has no items: {', '.join(args.items)}")
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


def named_counter(name: str | None) -> TokenCounter:
    """Return the counter that `--tokens` names, or the best one installed."""
    if name is None:
        return default_counter()
    if name == "chars":
        return CharacterEstimate()
    if name.startswith("tiktoken:"):
        return TiktokenCounter(name.removeprefix("tiktoken:"))
    *others, last = _COUNTERS
    raise ConfigurationError(f"--tokens {name}: expected {', '.join(others)} or {last}{did_you_mean(name, _COUNTERS)}")


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
    leading: list[ReadRecord] = []
    kind = None
    while kind is None and (record := next(records, None)) is not None:
        leading.append(record)
        kind = None if isinstance(record, Fault) else kind_of(record)
    every = chain(leading, records)
    if kind == "message":
        messages = _read_all(every, partial(expected, kind=kind), result, skip_bad=skip_bad)
        _refuse_choice(conversation, "one conversation")
        history = ChatRequest([one.fields for one in messages])
        return _history(messages[0].where.partition(":")[0], history, counter, result)
    if kind == "conversation":
        one = chosen_of(_read_all(every, partial(expected, kind=kind), result, skip_bad=skip_bad), conversation)
        return _history(one.where, chat_request(one.fields) or ChatRequest(None), counter, result)

    def count(text: str) -> int:
        result.counted += 1
        return count_tokens(counter, text)

    result.items = _read_all(every, partial(item_of, count=count), result, skip_bad=skip_bad)
    _refuse_choice(conversation, "no conversations")
    return result


def _refuse_choice(conversation: str | None, there: str) -> None:
    if conversation is not None:
        raise ConfigurationError(f"--conversation {shown(conversation)}: ITEMS has {there}; leave the option out")


def _read_all(
    records: Iterable[ReadRecord], read: Callable[[FileRecord], T], result: Input, *, skip_bad: bool
) -> list[T]:
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


def _history(where: str, request: ChatRequest, counter: TokenCounter, result: Input) -> Input:
    """Read a chat history in any format of `fit`: one item for messages that are sent or dropped together."""
    from cupel.messages import to_items  # only for chat histories

    messages = request.messages
    try:
        result.items = to_items(messages, counter)
    except (CupelError, TypeError) as error:
        # A message that cannot be read may belong to others, so it cannot be skipped alone.
        remedy = "No message of a history is skipped."
        raise InputError([Fault(where, str(error))], remedy) from None
    if messages and not result.items:
        reason = f"{plural(len(messages), 'message')}, none of which can be sent"
        raise InputError([Fault(where, reason)], "A request needs a message with content, a tool result its call.")
    result.request = request
    result.counted = len(result.items)
    return result
