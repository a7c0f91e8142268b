"""What a chat store of LlamaIndex holds of a session."""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from llama_index.core.base.llms.types import ChatMessage, MessageRole

from cupel._checks import shown
from cupel.errors import ConfigurationError
from cupel.integrations._sessions import STATE_KEY

PLACE: Final = f"what the chat store holds under '…:{STATE_KEY}'"


class StoredRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last request of a conversation, as a message that a chat store keeps."""

    before: str | None
    """The session's state before it: the same history, asked about again, gets the same request."""
    after: str
    """The session's state since."""
    history: str
    """What it was made from."""

    def written(self) -> ChatMessage:
        """Return it as a message."""
        return ChatMessage(role=MessageRole.SYSTEM, content=msgspec.json.encode(self).decode())

    @classmethod
    def read(cls, stored: Sequence[ChatMessage]) -> StoredRequest | None:
        """Return what `written` wrote, or None if there is nothing."""
        if not stored:
            return None
        text = stored[-1].content
        try:
            return msgspec.json.decode(text or "", type=cls)
        except msgspec.DecodeError as error:
            msg = f"{PLACE} must be what a SessionMemory wrote, got {shown(text)}: {error}"
            raise ConfigurationError(msg) from error


def mark(messages: Sequence[ChatMessage]) -> str:
    """Return by what a history is known again: how many messages there are, and what the newest says."""
    newest = f"{messages[-1].role.value}: {messages[-1].content}"
    return f"{len(messages)}:{blake2b(newest.encode('utf-8', 'surrogatepass'), digest_size=12).hexdigest()}"
