"""Texts in a message that may be shortened: tool results, prose, and the strings in calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Literal, get_args

from cupel._internal.checks import shown, wrong_type
from cupel.errors import ConfigurationError
from cupel.messages._plain import JSON, compact_json, fields, is_sequence

Part = Literal["arguments", "outputs", "prose"]
"""The texts that may be shortened: strings in calls' arguments, tool results, prose of the user and the assistant."""
OUTPUTS: tuple[Part, ...] = ("outputs",)
PROSE: tuple[Part, ...] = ("prose",)

Rewrite = Callable[[str], str]
"""A function that returns another text for one."""
_TEXTS = frozenset(("text", "input_text", "output_text"))
_OPEN = _TEXTS | {"tool_use", "refusal"}
"""Blocks beside which the words and calls of the model may be changed."""
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


def change_text(block: Any, form: Rewrite) -> Any:
    """Return a typed block with another text; citations point into a text that must stay as it is."""
    match block:
        case {"type": kind, "text": str(text)} if kind in _TEXTS:
            return block if block.get("annotations") or block.get("citations") else {**block, "text": form(text)}
        case _:
            return block


def change_content(content: Any, form: Rewrite | None) -> Any:
    """Return a text, or the texts in a list of typed blocks, replaced; as they are without a function."""
    if form is None:
        return content
    if isinstance(content, str):
        return form(content)
    return [change_text(block, form) for block in content] if is_sequence(content) else content


def change_result(content: Any, parts: Collection[str], form: Rewrite) -> Any:
    """Return the content of a tool result with other texts: those that may be shortened, or all (`results`)."""
    if "results" in parts:
        return change_strings(content, form, keys=True)
    return change_content(content, form if "outputs" in parts else None)


def change_prose(message: JSON, parts: Collection[str], form: Rewrite) -> JSON:
    """Return a copy of a message with other words of the user or the assistant, if those are among the parts."""
    if "prose" not in parts or message.get("role") not in ("user", "assistant") or "content" not in message:
        return {**message}
    return {**message, "content": change_content(message["content"], form)}


def change_json(text: Any, form: Rewrite) -> Any:
    """Return a JSON text with other strings, every other character as it is; a text that is not JSON stays whole."""
    if not isinstance(text, str):
        return change_strings(text, form)
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


def change_strings(value: Any, form: Rewrite, *, keys: bool = False) -> Any:
    """Return a value of JSON with other strings, and with other `keys`."""
    if isinstance(value, str):
        return form(value)
    if is_sequence(value):
        return [change_strings(entry, form, keys=keys) for entry in value]
    entries = fields(value)
    changed = {form(key) if keys else key: change_strings(entry, form, keys=keys) for key, entry in entries.items()}
    return changed or value


def change_object(value: Any, form: Rewrite, whole: Any, written: Callable[[str], Any]) -> Any:
    """Return a tool's answer that is an object: `whole` as long as its JSON stays the same, else written as a text."""
    text = compact_json(value)
    changed = form(text)
    return whole if changed == text else written(changed)


def has_fixed_blocks(content: object) -> bool:
    """Return whether content of the model holds more than words and calls: reasoning, or work of the provider's."""
    return is_sequence(content) and any(fields(block).get("type") not in _OPEN for block in content)
