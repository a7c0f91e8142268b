"""Sessions for hooks that see a history, but no name of the conversation it belongs to."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from cupel._internal.checks import as_instance, as_text
from cupel._internal.digests import message_json
from cupel.errors import ConfigurationError
from cupel.integrations._adapters import Recent
from cupel.integrations._sessions import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.integrations._sessions import OpenSession, Sessions

M = TypeVar("M")

PLACE: Final = f"store['{STATE_KEY}:…']"
"""Where a state is stored, as errors name it."""
_ENTRIES: Final = 256
"""The most states in memory: two for each conversation."""
_LOOKED_UP: Final = 100
"""The most prefixes that are looked up in the store, the longest first: a turn adds few messages."""


class _StoredState(msgspec.Struct, forbid_unknown_fields=True):
    """The state after a request, and the key of the request before it."""

    state: str
    previous: str | None = None


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request: the keys of its states, and the parameters sent with the messages."""

    key: str
    """Under which the state after the request is stored."""
    tools: list[Any]
    system: str | None
    previous: str | None
    """The key of the state that the request was made from."""
    obsolete: str | None
    """The key of the state before that one, which is no longer needed."""


class Conversations(Generic[M]):
    """Continues the conversation whose last history is the longest prefix of a new one.

    The state after a request is stored under a digest of the history that the request was made from. The next history
    of the conversation begins with that one, so its prefixes lead to the state; a history without a known prefix begins
    a conversation. The newest two states of each conversation stay in the store: a request that is tried again is made
    from the same state as before.
    """

    def __init__(self, sessions: Sessions[M], store: MutableMapping[str, str] | None = None) -> None:
        self._sessions = sessions
        if store is None:
            store = Recent[str](_ENTRIES)
        self._store: MutableMapping[str, str] = as_instance("store", store, MutableMapping)

    def fit(
        self, history: Sequence[M], *, tools: Iterable[Any] | None = None, system: str | None = None
    ) -> tuple[list[M], OpenRequest]:
        """Return the messages to send next in the conversation that `history` continues."""
        conversation, request = self._open(history, list(tools or ()), system)
        messages = conversation.fit(history)
        self._close(conversation, request)
        return messages, request

    async def afit(
        self, history: Sequence[M], *, tools: Iterable[Any] | None = None, system: str | None = None
    ) -> tuple[list[M], OpenRequest]:
        """Return the messages to send next as `fit` does; an asynchronous `note` function is awaited."""
        conversation, request = self._open(history, list(tools or ()), system)
        messages = await conversation.afit(history)
        self._close(conversation, request)
        return messages, request

    def observe(self, request: OpenRequest, usage: object) -> None:
        """Settle the bill of a request, unless the store has forgotten it."""
        entry = self._read(request.key) if usage else None
        if entry is not None:
            conversation = self._sessions.open(entry.state, tools=request.tools, system=request.system)
            conversation.observe(usage)
            self._write(request.key, conversation, request.previous)

    def recall(self, request: OpenRequest, call: object, history: Sequence[M]) -> str:
        """Return the answer to a model's call of the recall tool, after a request."""
        entry = self._read(request.key)
        return self._sessions.recall(None if entry is None else entry.state, call, history)

    def _open(self, history: Sequence[M], tools: list[Any], system: str | None) -> tuple[OpenSession[M], OpenRequest]:
        *prefixes, key = _keys(history) or [STATE_KEY]  # an empty history has no prefix
        previous = next((prefix for prefix in reversed(prefixes) if prefix in self._store), None)
        last = None if previous is None else self._read(previous)
        conversation = self._sessions.open(None if last is None else last.state, tools=tools, system=system)
        return conversation, OpenRequest(key, tools, system, previous, None if last is None else last.previous)

    def _close(self, conversation: OpenSession[M], request: OpenRequest) -> None:
        self._write(request.key, conversation, request.previous)
        if request.obsolete is not None:
            self._store.pop(request.obsolete, None)

    def _read(self, key: str) -> _StoredState | None:
        text = self._store.get(key)
        if text is None:
            return None
        try:
            return msgspec.json.decode(as_text(f"store[{key!r}]", text), type=_StoredState)
        except msgspec.DecodeError as error:
            msg = f"store[{key!r}] is not a state that cupel stored: {error}; delete it to begin a new session"
            raise ConfigurationError(msg) from error

    def _write(self, key: str, conversation: OpenSession[M], previous: str | None) -> None:
        entry = _StoredState(self._sessions.close(conversation), previous)
        self._store[key] = msgspec.json.encode(entry).decode()


def _keys(history: Sequence[object]) -> list[str]:
    """Return the keys of the longest prefixes of a history, that of the whole history last."""
    digest, found = blake2b(digest_size=16), list[str]()
    first = max(0, len(history) - _LOOKED_UP)
    for at, message in enumerate(history):
        text = message_json(message)
        digest.update(b"%d:" % len(text))
        digest.update(text)
        if at >= first:
            found.append(f"{STATE_KEY}:{digest.hexdigest()}")
    return found
