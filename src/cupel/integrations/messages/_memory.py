"""Messages that were read before, so that a conversation is read once and not on every turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from cupel.integrations.messages._marks import unmarked
from cupel.integrations.messages._plain import JSON, compact_json, plain, wrong_type
from cupel.integrations.messages._sendable import sendable

if TYPE_CHECKING:
    from cupel.integrations.messages._dialect import Dialect
    from cupel.integrations.messages._media import ImageRule
    from cupel.integrations.messages._reading import Reading
    from cupel.model import ContextItem
    from cupel.tokens import TokenCounter


class Known:
    """A message as plain data, and what was found out about it."""

    __slots__ = ("_digest", "as_is", "reading", "tokens", "view")

    def __init__(self, view: JSON) -> None:
        self.view = view
        self.reading: Reading | None = None
        self.tokens = 0
        self.as_is: bool | None = None
        """Whether the caller's message can be sent as it is."""
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

    def read(self, path: str, dialect: Dialect, images: ImageRule, counter: TokenCounter) -> Reading:
        """Read and weigh the message, the first time."""
        if self.reading is None:
            self.reading = reading = dialect.read(self.view, path, images)
            self.tokens = weigh(reading, counter)
        return self.reading

    def sendable(self, message: Any, path: str) -> Any:
        """Return the caller's message as it is sent."""
        if self.as_is:
            return message
        sent = sendable(message, path)
        self.as_is = sent is message
        return sent


def weigh(reading: Reading, counter: TokenCounter) -> int:
    """Return the tokens of one message."""
    return reading.extra + sum(counter.count(text) for text in reading.texts if text)


class Memory:
    """The messages of the last turn by what they say, and the items that stood for its units."""

    def __init__(self, *, lasts: bool = True) -> None:
        self.lasts = lasts
        """Whether there will be another turn."""
        self._known: dict[bytes, Known] = {}
        self._dialect: Dialect | None = None
        self.items: dict[tuple[int, ...], tuple[bytes, ContextItem]] = {}

    def recall(self, messages: Sequence[Any], view: Callable[[Any], JSON] | None) -> list[Known]:
        """Return what is known of each message; one with SDK objects inside is always read anew."""
        before, self._known = self._known, {}
        found: list[Known] = []
        for index, message in enumerate(messages):
            shown = message if view is None else view(message)
            key = _key(shown) if self.lasts else b""
            known = before.get(key) or self._known.get(key)
            if known is None:
                known = Known(_view(shown, f"messages[{index}]"))
            if key:
                self._known[key] = known
            found.append(known)
        return found

    def speak(self, dialect: Dialect, known: Sequence[Known]) -> None:
        """Read everything anew if the conversation turns out to be in another format."""
        if self._dialect is not None and self._dialect is not dialect:
            for one in known:
                one.reading = None
            self.items.clear()
        self._dialect = dialect


def _key(message: object) -> bytes:
    try:
        return msgspec.json.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError):  # the last three: values that only `plain` can name
        return b""


def _view(message: object, path: str) -> JSON:
    read = plain(message, path)
    if not isinstance(read, dict):
        raise wrong_type(path, "a message", message)
    return read  # pyright: ignore[reportUnknownVariableType]
