"""The same session as a chat history: what an agent would send to its model."""

from __future__ import annotations

import json
from typing import Any

from cupel.demo._session import session_items
from cupel.model import ContextItem, ContextKind

_SPEAKERS = {"User: ": "user", "Agent: ": "assistant"}


def conversation() -> list[dict[str, Any]]:
    """Return the session as chat-completions messages: the system prompt, words, and calls with their results.

    >>> history = conversation()
    >>> [message["role"] for message in history[:5]]
    ['system', 'user', 'assistant', 'assistant', 'tool']
    """
    history: list[dict[str, Any]] = []
    for item in session_items():
        if item.kind != ContextKind.MEMORY:  # memories belong to no moment of the conversation
            history += _messages(item, f"call_{len(history)}")
    return history


def _messages(item: ContextItem, call: str) -> list[dict[str, Any]]:
    first, _, rest = item.content.partition("\n")
    if item.kind == ContextKind.SYSTEM_PROMPT:
        return [{"role": "system", "content": item.content}]
    if item.kind == ContextKind.TOOL_OUTPUT:
        return _exchange(call, "shell", {"command": first.removeprefix("$ ")}, rest)
    if item.kind == ContextKind.DOCUMENT:
        return _exchange(call, "read_file", {"path": first.removeprefix("# ")}, rest)
    prefix, role = next((pair for pair in _SPEAKERS.items() if item.content.startswith(pair[0])), ("", "user"))
    return [{"role": role, "content": item.content.removeprefix(prefix)}]


def _exchange(call: str, tool: str, arguments: dict[str, str], output: str) -> list[dict[str, Any]]:
    function = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": call, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call, "content": output or "(no output)"},
    ]
