"""Texts in a message that may be shortened: tool results, prose, and the strings in calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, get_args

from cupel._checks import shown, wrong_type
from cupel.errors import ConfigurationError
from cupel.messages._plain import JSON, compact_json, fields, is_sequence

Part = Literal["arguments", "outputs", "prose"]
"""The texts that may be shortened: strings in calls' arguments, tool results, prose of the user and the assistant."""
OUTPUTS: tuple[Part, ...] = ("outputs",)

_Form = Callable[[str], str]
_TEXTS = frozenset(("text", "input_text", "output_text"))
_OPEN = _TEXTS | {"tool_use", "refusal"}
"""The other parts that a message of the model may have if its words and calls are to be changed."""
_STRING = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?', re.DOTALL)
"""A string in a JSON text, and whether it is a key."""


def checked_parts(parts: Collection[Part]) -> tuple[Part, ...]:
    """Return the parts that a caller names."""
    known = ", ".join(get_args(Part))
    if not isinstance(parts, Collection) or isinstance(parts, str) or not all(isinstance(part, str) for part in parts):
        raise wrong_type("parts", f"a list of {known}", parts)
    for part in parts:
        if part not in get_args(Part):
            msg = f"parts must be some of {known}, got {shown(part)}"
            raise ConfigurationError(msg)
    return tuple(parts)


def texts_in(message: JSON, parts: Collection[str]) -> list[str]:
    """Return the texts of a message that are of these parts."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _with_each(message, parts, note)
    return found


def with_texts(message: JSON, texts: Sequence[str], parts: Collection[str]) -> JSON:
    """Return a copy of a message with the texts of these parts replaced."""
    following = iter(texts)
    return _with_each(message, parts, lambda _: next(following))


def thinks(message: JSON) -> bool:
    """Return whether a message holds reasoning or work of the provider's, beside which nothing may be reworded."""
    if message.get("type") == "reasoning" or message.get("reasoning_content") or message.get("reasoning"):
        return True
    content = message.get("content")
    if message.get("role") != "assistant" or not is_sequence(content):
        return False
    return any(fields(block).get("type") not in _OPEN for block in content)


def _with_each(message: JSON, parts: Collection[str], form: _Form) -> JSON:
    if message.get("role") in ("tool", "function"):
        return {**message, "content": _output(message.get("content"), parts, form)}
    kind = str(message.get("type"))
    if kind.endswith("_call_output"):
        return {**message, "output": _output(message.get("output"), parts, form)}
    copy = dict(message)
    if "arguments" in parts:
        copy |= _with_calls(message, form)
    spoken = form if "prose" in parts and message.get("role") in ("user", "assistant") else None
    content = message.get("content")
    if is_sequence(content):
        copy["content"] = [_block(block, parts, form, spoken) for block in content]
    elif spoken is not None:
        copy["content"] = _texts(content, spoken)
    return copy


def _block(block: Any, parts: Collection[str], form: _Form, spoken: _Form | None) -> Any:
    match block:
        case {"type": "tool_result", "content": content}:
            return {**block, "content": _output(content, parts, form)}
        case {"type": "tool_use", "input": given} if "arguments" in parts:
            return {**block, "input": _strings(given, form)}
        case _:
            return block if spoken is None else _text(block, spoken)


def _output(content: Any, parts: Collection[str], form: _Form) -> Any:
    return _texts(content, form) if "outputs" in parts else content


def _texts(content: Any, form: _Form) -> Any:
    if isinstance(content, str):
        return form(content)
    return [_text(part, form) for part in content] if is_sequence(content) else content


def _text(part: Any, form: _Form) -> Any:
    match part:
        case {"type": kind, "text": str(text)} if kind in _TEXTS:
            # Citations point into a text that must stay as it is.
            return part if part.get("annotations") or part.get("citations") else {**part, "text": form(text)}
        case _:
            return part


def _with_calls(message: JSON, form: _Form) -> dict[str, Any]:
    """Return a message's or item's calls with new texts; the input of custom tools is not JSON and stays as it is."""
    match message:
        case {"type": "function_call", "arguments": arguments}:
            return {"arguments": _arguments(arguments, form)}
        case {"tool_calls": calls} if is_sequence(calls):
            return {"tool_calls": [_call(call, "function", form) for call in calls]}
        case _:
            return _call(message, "function_call", form) if message.get("function_call") else {}


def _call(holder: Any, name: str, form: _Form) -> Any:
    match fields(holder).get(name):
        case {"arguments": arguments} as function:
            return {**holder, name: {**fields(function), "arguments": _arguments(arguments, form)}}
        case _:
            return holder


def _arguments(text: Any, form: _Form) -> Any:
    """Shorten the strings in a JSON text, and leave every other character as it is."""
    if not isinstance(text, str):
        return _strings(text, form)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text

    def replaced(match: re.Match[str]) -> str:
        written, key = match.groups()
        value = "" if key else json.loads(written)
        short = form(value) if value else value
        return match[0] if short == value else compact_json(short)

    return _STRING.sub(replaced, text)


def _strings(value: Any, form: _Form) -> Any:
    if isinstance(value, str):
        return form(value)
    if is_sequence(value):
        return [_strings(entry, form) for entry in value]
    entries = fields(value)
    return {key: _strings(entry, form) for key, entry in entries.items()} if entries else value
