"""Messages that were read before, so that a conversation is read once and not on every turn."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from cupel._counter import count_tokens
from cupel.errors import InvalidItemError
from cupel.messages._formats import unmarked
from cupel.messages._plain import JSON, compact_json, plain_message

if TYPE_CHECKING:
    from cupel.messages._formats import Format
    from cupel.messages._formats.media import ImageRule
    from cupel.messages._units import MessageInfo
    from cupel.model import ContextItem
    from cupel.tokens import TokenCounter


class ParsedMessage:
    """A message as plain data, and what was found out about it."""

    __slots__ = ("_digest", "_format", "_info", "tokens", "view")

    def __init__(self, view: JSON) -> None:
        self.view = view
        self.tokens = 0
        self._format: Format | None = None
        self._info: MessageInfo | None = None
        self._digest = b""

    @property
    def digest(self) -> bytes:
        """A hash of what the message says, whatever the order of its fields and wherever cache marks stand."""
        if not self._digest:
            view = unmarked(self.view)
            try:
                text = msgspec.json.encode(view, order="sorted")
            except (OverflowError, UnicodeEncodeError):
                text = compact_json(view).encode()
            self._digest = blake2b(text, digest_size=12).digest()
        return self._digest

    def read(self, path: str, fmt: Format, images: ImageRule, counter: TokenCounter) -> MessageInfo:
        """Read and weigh the message, once for as long as the conversation is taken to be in one format."""
        if self._info is None or self._format is not fmt:
            self._info, self._format = fmt.read(self.view, path, images), fmt
            try:
                self.tokens = weigh(self._info, counter)
            except InvalidItemError as error:
                raise InvalidItemError(f"{path}: {error}") from error
        return self._info


def weigh(info: MessageInfo, counter: TokenCounter) -> int:
    """Return the tokens of one message."""
    return info.extra + sum(count_tokens(counter, text) for text in info.texts if text)


class Memory:
    """The messages of the last turn by what they say, and the items that stood for its units."""

    def __init__(self, *, lasts: bool = True) -> None:
        self._lasts = lasts
        """Whether there will be another turn."""
        self._known: dict[bytes, ParsedMessage] = {}
        self.items: dict[tuple[int, ...], tuple[Sequence[MessageInfo], ContextItem]] = {}

    def recall(self, messages: Sequence[Any]) -> list[ParsedMessage]:
        """Return what is known of each message; one with SDK objects inside is always read anew."""
        before, self._known = self._known, {}
        found: list[ParsedMessage] = []
        for index, message in enumerate(messages):
            key = _key(message) if self._lasts else b""
            known = (
                before.get(key) or self._known.get(key) or ParsedMessage(plain_message(message, f"messages[{index}]"))
            )
            if key:
                self._known[key] = known
            found.append(known)
        return found


def _key(message: object) -> bytes:
    try:
        return msgspec.json.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError):  # the last three: values that only `plain` can name
        return b""
