"""Messages that were read before, so that a conversation is read once and not on every turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from cupel._internal.counter import count_tokens
from cupel.errors import InvalidItemError
from cupel.messages._formats import traits_of
from cupel.messages._notes import cleaned
from cupel.messages._plain import JSON, compact_json, plain_message, refuse_bytes
from cupel.messages._units import MessageInfo

if TYPE_CHECKING:
    from cupel.messages._formats import Format
    from cupel.messages._formats.media import ImageRule
    from cupel.model import ContextItem
    from cupel.tokens import TokenCounter

ONLY_A_NOTE = "a note of an earlier request"


class ParsedMessage:
    """A message as plain data, and everything that was found out about it."""

    __slots__ = ("_digest", "_format", "_info", "_traits", "is_altered", "is_output", "raw", "tokens", "view")

    def __init__(self, raw: JSON, *, is_output: bool = False) -> None:
        self.raw = raw
        """The message as it came."""
        self.view = raw
        """The message as it is sent: without notes of earlier requests, imitations of them escaped."""
        self.is_output = is_output
        """Whether a message of the user is a tool's output."""
        self.is_altered = False
        """Whether the message is sent in another wording than it came."""
        self.tokens = 0
        self._format: Format | None = None
        self._info: MessageInfo | None = None
        self._digest = b""
        self._traits: frozenset[str] | None = None

    @property
    def traits(self) -> frozenset[str]:
        """The traits by which the format of a history is detected."""
        if self._traits is None:
            self._traits = frozenset() if self.raw is PLACEHOLDER else traits_of(self.raw)
        return self._traits

    @property
    def digest(self) -> bytes:
        """A hash of the message, whatever the order of its fields, its null fields and its cache marks."""
        if not self._digest:
            view = self.view if self._format is None else self._format.canonical(self.view)
            try:
                text = msgspec.json.encode(view, order="sorted")
            except (OverflowError, UnicodeEncodeError):
                text = compact_json(view).encode()
            self._digest = blake2b(text, digest_size=12).digest()
        return self._digest

    def read(self, path: str, fmt: Format, images: ImageRule, counter: TokenCounter) -> MessageInfo:
        """Read and count the message, once for as long as the conversation is taken to be in one format."""
        if self._info is None or self._format is not fmt:
            self._info, self._format, self._digest = self._read(path, fmt, images), fmt, b""
            try:
                self.tokens = message_tokens(self._info, counter)
            except InvalidItemError as error:
                raise InvalidItemError(f"{path}: {error}") from error
        return self._info

    def _read(self, path: str, fmt: Format, images: ImageRule) -> MessageInfo:
        if self.raw is PLACEHOLDER:
            return MessageInfo("system", rejection=ONLY_A_NOTE)
        if not fmt.has_bytes:
            refuse_bytes(self.raw, path)
        normal = fmt.normal(self.raw)
        view = cleaned(normal, fmt, is_output=self.is_output)
        self.view = normal if view is None else view
        self.is_altered = self.view is not normal
        info = fmt.read(self.view, path, images)
        if view is None:
            info.reject(ONLY_A_NOTE)
        return info


def message_tokens(info: MessageInfo, counter: TokenCounter) -> int:
    """Return the tokens of one message."""
    return info.extra + sum(count_tokens(counter, text) for text in info.texts if text)


class Active(NamedTuple):
    """The messages of a history that are still read, and their positions in it."""

    messages: Sequence[Any]
    origin: Sequence[int]


class Archive:
    """Old messages that no request will contain again, so that later turns need not read them.

    A placeholder, which is never sent, takes the place of each run of them: their neighbours must not become one unit.
    """

    def __init__(self) -> None:
        self._active: list[int] = []
        self._seen: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._seen)

    def active(self, messages: Sequence[Any]) -> Active | None:
        """Return the messages that are still read; None if the history is not a continuation of the archived one."""
        count = len(self._seen)
        if not count:
            return Active(messages, range(len(messages)))
        if len(messages) < count or list(messages[:count]) != self._seen:
            return None
        found: list[Any] = []
        origin: list[int] = []
        before = -1
        for position in (*self._active, *range(count, len(messages))):
            if position > before + 1:
                found.append(PLACEHOLDER)
                origin.append(before + 1)
            found.append(messages[position])
            origin.append(position)
            before = position
        return Active(found, origin)

    def keep(self, positions: Iterable[int], messages: Sequence[Any]) -> None:
        """Archive all messages of a history but those at some positions."""
        self._active, self._seen = sorted(positions), list(messages)


PLACEHOLDER: Final[JSON] = {"role": "system", "content": "[cupel: earlier messages]"}


class Memory:
    """The messages of the last turn, and the items that represented its units."""

    def __init__(self, *, observation: Callable[[Any], bool] | None = None) -> None:
        self._observation = observation
        self._before: list[ParsedMessage] = []
        self._raw: list[JSON] = []
        self.items: dict[tuple[int, ...], tuple[Sequence[MessageInfo], ContextItem]] = {}

    def recall(self, messages: Sequence[Any], originals: Sequence[Any]) -> list[ParsedMessage]:
        """Return each message, parsed; one that is equal to that of the last turn is not read again.

        Args:
            messages: a provider's messages, or a framework's translated ones.
            originals: the caller's own.
        """
        before, count = self._before, len(self._before)
        same = isinstance(messages, list) and messages[:count] == self._raw
        found = list(before) if same else []
        known = {} if same else {_key(one.raw): one for one in before}
        for index in range(len(found), len(messages)):
            raw = plain_message(messages[index], f"messages[{index}]")
            found.append((known.get(_key(raw)) if known else None) or self._parsed(raw, originals[index]))
        self._before, self._raw = found, [one.raw for one in found]
        return list(found)

    def renumber(self, messages: Sequence[Any], renumbered: Mapping[int, int]) -> None:
        """Follow messages to their new positions; placeholders take the place of those that were archived."""
        before = {after: self._before[at] for at, after in renumbered.items()}
        self._before = [before.get(at) or self._parsed(PLACEHOLDER, one) for at, one in enumerate(messages)]
        self._raw = [one.raw for one in self._before]

    def _parsed(self, raw: JSON, original: Any) -> ParsedMessage:
        if original is PLACEHOLDER:
            return ParsedMessage(PLACEHOLDER)
        spoken = raw.get("role") == "user" or not {"role", "type"} & raw.keys()
        return ParsedMessage(raw, is_output=spoken and self._observation is not None and self._observation(original))


def _key(message: JSON) -> bytes:
    try:
        return msgspec.json.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return compact_json(message).encode()
