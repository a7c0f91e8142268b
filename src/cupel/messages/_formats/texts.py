"""Texts in a message that may be shortened: tool results and prose."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal

from cupel.messages._plain import JSON, compact_json, fields, is_sequence

Part = Literal["outputs", "prose"]
"""Texts of a message: tool results, or the words of the user and the assistant."""
OUTPUTS: tuple[Part, ...] = ("outputs",)
PROSE: tuple[Part, ...] = ("prose",)

Rewrite = Callable[[str], str]
"""A function that returns another text for one."""
_TEXTS = frozenset(("text", "input_text", "output_text"))


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
