"""The rules of OpenAI's Responses API, from its public documentation and error messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

ANSWERED = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "program": "program_output",
}
"""Calls that the caller answers, with the type of the answer."""
_TEXTS = ("input_text", "output_text")


def violations(items: list[Message], original: list[Message]) -> Iterator[str]:
    """Yield everything that the provider would object to; `original` is the history of the request."""
    yield from _ids(items)
    yield from _pairs(items)
    for index, item in enumerate(items):
        follower = items[index + 1] if index + 1 < len(items) else None
        if item.get("type") == "reasoning" and (follower is None or not from_model(follower)):
            yield f"{index}: reasoning was provided without its required following item"
        if item.get("type", "message") == "message":
            yield from _content(index, item)
        if item.get("type") == "function_call_output":
            yield from _output(index, item["output"])
    given = [item for item in original if item.get("type") in ("compaction", "reasoning")]
    for index, item in enumerate(items):
        if item.get("type") in ("compaction", "reasoning") and item not in given:
            yield f"{index}: encrypted content could not be verified"


def _ids(items: list[Message]) -> Iterator[str]:
    ids: set[str] = set()
    for index, item in enumerate(items):
        if not item.get("id") or item.get("type") == "local_shell_call_output":
            continue
        if item["id"] in ids:
            yield f"{index}: duplicate item found with id {item['id']}"
        ids.add(item["id"])


def _pairs(items: list[Message]) -> Iterator[str]:
    calls: dict[tuple[str, str], int] = {}
    answered: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        caller = item.get("caller") or {}
        if kind in ANSWERED:
            key = (kind, item["call_id"])
            if key in calls:
                yield f"{index}: two calls share an id"
            if caller.get("type") == "program" and ("program", caller["caller_id"]) not in calls:
                yield f"{index}: no program found for the caller {caller['caller_id']}"
            calls[key] = index
        elif kind in ANSWERED.values():
            key = (next(call for call in ANSWERED if ANSWERED[call] == kind), item.get("call_id") or item["id"])
            if key not in calls:
                yield f"{index}: no tool call found for the output {key[1]}"
            if key in answered:
                yield f"{index}: a second output for {key[1]}"
            answered.add(key)
    for kind, key in sorted(calls.keys() - answered):
        if kind != "program" or not _waits(items, key):
            yield f"end: no tool output found for the call {key}"


def _waits(items: list[Message], program: str) -> bool:
    """Whether a program without output was handed the results of its calls, and nothing else has happened since."""
    talk = [item for item in items if item.get("role") not in ("system", "developer")]
    made = [
        item["call_id"] for item in talk if (item.get("caller") or {}).get("caller_id") == program and from_model(item)
    ]
    return bool(made) and talk[-1].get("type", "").endswith("_output") and talk[-1].get("call_id") in made


def from_model(item: Message) -> bool:
    """Whether the model produced an item."""
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")


def _content(index: int, item: Message) -> Iterator[str]:
    content = item.get("content")
    if not content:
        yield f"{index}: empty content"
    elif isinstance(content, list):
        for part in content:
            if part["type"] in _TEXTS and not part["text"]:
                yield f"{index}: an empty text part"
            if part["type"] == "input_text" and from_model(item):
                yield f"{index}: input_text belongs to inputs"
            if part["type"] == "output_text" and not from_model(item):
                yield f"{index}: output_text belongs to the assistant"


def _output(index: int, output: Any) -> Iterator[str]:
    if isinstance(output, str):
        return
    if not isinstance(output, list) or not output:
        yield f"{index}: output must be text or a list of inputs"
        return
    for part in output:
        if not part["type"].startswith("input_") or (part["type"] == "input_text" and not part["text"]):
            yield f"{index}: not a part of an output: {part}"


def programs_kept_whole(items: list[Message], original: list[Message]) -> list[str]:
    """A program is replayed with every item that belongs to it."""
    families: dict[str, set[int]] = {}
    for item in original:
        caller = (item.get("caller") or {}).get("caller_id")
        if item.get("type") in ("program", "program_output") or caller:
            families.setdefault(caller or item["call_id"], set()).add(id(item))
    present = {id(item) for item in items}
    return [
        f"program {name} was torn apart" for name, family in families.items() if family & present and family - present
    ]


def reasoning_kept_together(items: list[Message], original: list[Message]) -> list[str]:
    """An item that the model reasoned towards must come with that reasoning, and right after it."""
    required: dict[int, Message] = {}
    pending: list[Message] = []
    for item in original:
        if item.get("type") == "reasoning":
            pending.append(item)
        elif from_model(item):
            for thought in pending:
                required[id(item)] = thought
        else:
            pending = []
    present = {id(item) for item in items}
    return [
        f"{item.get('type', 'message')} was provided without its required reasoning item"
        for item in items
        if id(item) in required and id(required[id(item)]) not in present
    ]
