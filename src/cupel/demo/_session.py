"""The session that ships with the package: a coding agent hunts a flaky payment-webhook test."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

import cupel.policy
from cupel._internal.documents import ITEM
from cupel.model import ContextItem, ContextKind
from cupel.pipeline import Pipeline

BUDGET: Final = 4_000
"""The budget the demonstration uses: less than a quarter of the session's tokens."""


def session_items() -> list[ContextItem]:
    """Return the session's 120 candidates: system prompt, chat, tool outputs, files and memories.

    >>> items = session_items()
    >>> len(items), sum(item.tokens for item in items)
    (120, 18353)
    """
    return [ITEM.read(json.loads(line)) for line in session_text().splitlines()]


def session_policy() -> Pipeline:
    """Return the policy the demonstration starts with.

    >>> session_policy().name
    'coding-agent'
    """
    return cupel.policy.loads(policy_text(), format="toml")


def session_text() -> str:
    r"""Return the session as the JSON lines it is stored in.

    >>> session_text().count("\n")
    120
    """
    return _text("session.jsonl")


def policy_text() -> str:
    """Return the policy as the TOML it is stored in.

    >>> policy_text().splitlines()[0]
    'name = "coding-agent"'
    """
    return _text("policy.toml")


def _text(name: str) -> str:
    return files("cupel.demo").joinpath(name).read_text(encoding="utf-8")


_SPEAKERS = {"User: ": "user", "Agent: ": "assistant"}


def conversation() -> list[dict[str, Any]]:
    """Return the session as chat-completions messages: the system prompt, texts, and tool calls with their results.

    >>> history = conversation()
    >>> [message["role"] for message in history[:5]]
    ['system', 'user', 'assistant', 'tool', 'assistant']
    """
    history: list[dict[str, Any]] = []
    for item in session_items():
        if item.kind != ContextKind.MEMORY:  # memories belong to no moment of the conversation
            first, *rest = _messages(item, f"call_{len(history)}")
            if rest and history[-1]["role"] == "assistant":  # the agent says something and calls a tool in one answer
                history[-1]["tool_calls"] = first["tool_calls"]
            else:
                history.append(first)
            history += rest
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
