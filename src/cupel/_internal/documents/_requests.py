"""Conversations as providers' APIs take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cupel._internal.documents._text import is_list, is_object

MESSAGES_KEYS: Final = ("messages", "input", "contents")
"""The keys under which requests hold their messages: most APIs', Responses' and Gemini's."""
_SYSTEM_KEYS: Final = ("system", "instructions", "systemInstruction", "system_instruction")


class ChatRequest(NamedTuple):
    """The messages of a request, unchecked, with the system prompt and the tools that it has besides them."""

    messages: Any
    system: Any = None
    tools: Any = None


def chat_request(document: object) -> ChatRequest | None:
    """Read a list of messages or the body of a request; return None for anything else.

    >>> chat_request({"input": [], "instructions": "Be brief."})
    ChatRequest(messages=[], system='Be brief.', tools=None)
    """
    if is_list(document):
        return ChatRequest(document)
    if not is_object(document) or document.keys().isdisjoint(MESSAGES_KEYS):
        return None
    config = document.get("toolConfig")  # Bedrock's
    tools = config["tools"] if is_object(config) and "tools" in config else document.get("tools")
    return ChatRequest(_first(document, MESSAGES_KEYS), _first(document, _SYSTEM_KEYS), tools)


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if name in fields), None)
