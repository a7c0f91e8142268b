"""The rules of OpenAI's chat completions, from their public documentation and error messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

_ROLES = frozenset(("assistant", "developer", "function", "system", "tool", "user"))
_PARTS = {
    "assistant": frozenset(("refusal", "text")),
    "user": frozenset(("file", "image_url", "input_audio", "text")),
}
"""The types of parts that a role may have; the other roles have texts only."""


def violations(messages: list[Message], original: list[Message]) -> Iterator[str]:
    """Yield everything that the provider would object to; `original` is the history of the request."""
    del original  # no rule depends on it
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        role = message["role"]
        if role not in _ROLES:
            yield f"{index}: no such role: {role}"
        if role in ("tool", "function"):
            key = message["tool_call_id"] if role == "tool" else f"function {message['name']}"
            if key not in waiting:
                yield f"{index}: a {role} message must answer a call of the preceding assistant message, not {key}"
            waiting.discard(key)
        else:
            if waiting:
                yield f"{index}: the calls {sorted(waiting)} must be answered before a {role} message"
            waiting = set()
        calls = _calls(message)
        if message.get("tool_calls") == []:
            yield f"{index}: [] is too short for tool_calls"
        if calls and role != "assistant":
            yield f"{index}: only the assistant calls tools"
        if len(calls) != len(set(calls)):
            yield f"{index}: two calls share an id"
        waiting |= set(calls)
        yield from _content(index, message, role, calls)
    if waiting:
        yield f"end: the calls {sorted(waiting)} are never answered"


def _calls(message: Message) -> list[str]:
    calls = [call["id"] for call in message.get("tool_calls") or []]
    if message.get("function_call"):
        calls.append(f"function {message['function_call']['name']}")
    return calls


def _content(index: int, message: Message, role: str, calls: list[str]) -> Iterator[str]:
    for call in message.get("tool_calls") or []:
        given = call[call["type"]]
        if not given["name"] or not isinstance(given["arguments" if call["type"] == "function" else "input"], str):
            yield f"{index}: a call needs a name and its arguments as text"
    content = message.get("content")
    if isinstance(content, list):
        if not content:
            yield f"{index}: an empty array of parts"
        for part in content:
            if part["type"] not in _PARTS.get(role, ("text",)):
                yield f"{index}: no part of a {role} message is of type {part['type']}"
            if part["type"] == "text" and not part["text"]:
                yield f"{index}: an empty text part"
    elif content is None:
        excused = role == "assistant" and (calls or message.get("refusal") or message.get("audio"))
        if not excused:
            yield f"{index}: content is required"
    elif not isinstance(content, str):
        yield f"{index}: content must be text or parts"
    elif content == "" and role not in ("tool", "function") and not calls and not message.get("refusal"):
        yield f"{index}: empty content"
