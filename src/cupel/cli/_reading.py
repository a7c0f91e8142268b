"""ITEMS: everything the arguments name, read completely or not at all."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import structs

from cupel._checks import did_you_mean, shown
from cupel._text import plural
from cupel.cli._formats import Fault, Found
from cupel.cli._records import (
    BadRecordError,
    FileRecord,
    chosen_of,
    conversation_of,
    is_conversation,
    is_message,
    item_of,
    message_of,
)
from cupel.cli._sources import records_of
from cupel.errors import ConfigurationError, CupelError
from cupel.model import ContextItem

if TYPE_CHECKING:
    from cupel.tokens import TokenCounter

T = TypeVar("T")
_COUNTERS: Final = ("chars", "tiktoken:o200k_base", "tiktoken:cl100k_base")


class InputError(CupelError):
    """The input is not whole; `faults` says what is wrong with each bad record."""

    def __init__(self, faults: Sequence[Fault], remedy: str = "Leave them out with --skip-bad.") -> None:
        super().__init__(faults)
        self.faults = faults
        self._remedy = remedy

    def __str__(self) -> str:
        lines = "".join(f"\n  {fault.where}: {fault.message}" for fault in self.faults)
        return f"{plural(len(self.faults), 'bad record')}; nothing was written. {self._remedy}{lines}"


@dataclass(slots=True)
class Input:
    """The items that were read, and how many records were skipped or counted on the way."""

    items: list[ContextItem] = field(default_factory=list[ContextItem])
    messages: list[object] = field(default_factory=list[object])
    """The messages that the items stand for, if it was a chat history."""
    skipped: int = 0
    counted: int = 0


def read_input(args: argparse.Namespace) -> Input:
    """Read ITEMS as the arguments say; what was skipped or counted is noted on standard error."""
    counter = NamedCounter(args.tokens)
    found = read_items(
        args.items, counter, input_format=args.input_format, skip_bad=args.skip_bad, conversation=args.conversation
    )
    if found.skipped:
        print(f"skipped {plural(found.skipped, 'bad record')}", file=sys.stderr)
    if found.counted:
        print(f"counted the tokens of {plural(found.counted, 'item')} with {counter}", file=sys.stderr)
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
    for module in args.modules:
        flags += ["--import", module]
    for number, pinned in args.pins:
        flags += ["--pin" if pinned else "--unpin", str(number)]
    return flags if args.query is None else [*flags, "--query", args.query]


class NamedCounter:
    """The counter behind a `--tokens` name, or the best one installed; loaded when there is something to count."""

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
) -> Input:
    """Read every source; raises `InputError` with all bad records unless they are to be skipped.

    The first record says what the others must be: messages, conversations, of which `conversation` names one by its
    id or its number from 1, or items, of which those without a token count are counted.
    """
    result = Input()
    records = records_of(sources, input_format)
    first = next(records, None)
    every = records if first is None else chain((first,), records)
    if isinstance(first, FileRecord) and is_message(first):
        _refuse_choice(conversation, "one conversation")
        messages = _read_all(every, message_of, result, skip_bad=skip_bad)
        return _history(first.where.partition(":")[0], messages, counter, result)
    if isinstance(first, FileRecord) and is_conversation(first):
        one = chosen_of(_read_all(every, conversation_of, result, skip_bad=skip_bad), conversation)
        return _history(one.where, one.messages, counter, result)
    _refuse_choice(conversation, "no conversations")

    def count(text: str) -> int:
        result.counted += 1
        return counter.count(text)

    result.items = _read_all(every, partial(item_of, count=count), result, skip_bad=skip_bad)
    return result


def _refuse_choice(conversation: str | None, there: str) -> None:
    if conversation is not None:
        raise ConfigurationError(f"--conversation {shown(conversation)}: ITEMS has {there}, nothing to choose from")


def _read_all(records: Iterable[Found], read: Callable[[FileRecord], T], result: Input, *, skip_bad: bool) -> list[T]:
    """Return what every record is read as, unless one is bad and none may be skipped."""
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
    """Read the messages of a chat history, in any format of `fit`: an item for what is sent or left out together."""
    from cupel.messages import to_items  # for those who have messages

    try:
        result.items = to_items(messages, counter)
    except (CupelError, TypeError) as error:
        # Which of the others would go with a message cannot be told before it is read.
        remedy = "No message is left out of a history that cannot be read."
        raise InputError([Fault(where, str(error))], remedy) from None
    result.messages = list(messages)
    result.counted = len(result.items)
    return result
