"""Shorter forms of what tools returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cupel.integrations.messages._plain import JSON, fields, is_sequence
from cupel.shorten import head_tail, key_lines, values
from cupel.tokens import TokenCounter

_NAMES = 0.5
"""Half of a shortened output are lines, half are names of the others: what kept most on recorded sessions."""
_TEXT_PARTS = ("text", "input_text", "output_text")


def outputs(message: JSON) -> list[str]:
    """Return the texts in a message that tools returned."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _with_each(message, note)
    return found


def with_outputs(message: JSON, texts: Sequence[str]) -> JSON:
    """Return a copy of a message in which others stand for the texts that tools returned."""
    following = iter(texts)
    return _with_each(message, lambda _: next(following))


def _with_each(message: JSON, form: Callable[[str], str]) -> JSON:
    if message.get("role") in ("tool", "function"):
        return {**message, "content": _replaced(message.get("content"), form)}
    if str(message.get("type")).endswith("_call_output"):
        return {**message, "output": _replaced(message.get("output"), form)}
    content = message.get("content")
    if not is_sequence(content):
        return message
    blocks = [
        {**fields(block), "content": _replaced(fields(block).get("content"), form)}
        if fields(block).get("type") == "tool_result"
        else block
        for block in content
    ]
    return {**message, "content": blocks}


def _replaced(content: Any, form: Callable[[str], str]) -> Any:
    if isinstance(content, str):
        return form(content)
    if not is_sequence(content):
        return content
    return [
        {**fields(part), "text": form(fields(part)["text"])}
        if fields(part).get("type") in _TEXT_PARTS and isinstance(fields(part).get("text"), str)
        else part
        for part in content
    ]


def telling(text: str, limit: int, *, counter: TokenCounter, known: Mapping[str, int]) -> str:
    """Return the short form: JSON as all its distinct values; of anything else key lines, and names of the others."""
    if text[:1] in ("{", "["):
        return values(text, None, counter=counter)
    return key_lines(text, limit, counter=counter, known=known, names=_NAMES)


def cut(text: str, limit: int, *, counter: TokenCounter) -> str:
    """Return a form within a limit, whatever is lost; it depends on nothing but the text."""
    if text[:1] in ("{", "["):
        return values(text, limit, counter=counter)
    return key_lines(text, limit, counter=counter) or head_tail(text, limit, counter=counter)
