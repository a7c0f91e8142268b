"""Cache marks in Anthropic's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cupel.integrations.messages._plain import fields, is_sequence

KEY: Final = "cache_control"
_MARK = {KEY: {"type": "ephemeral"}}
_UNMARKABLE = ("thinking", "redacted_thinking")


def marked(message: Any, here: bool) -> Any:  # noqa: FBT001 - a private function of two
    """Return a message without marks but for one on its last block that can carry one, if it belongs `here`.

    The message itself comes back where nothing changes.
    """
    clean = unmarked(message)
    if not here or not isinstance(clean, dict):
        return clean
    content = fields(clean).get("content")
    if isinstance(content, str):
        return {**fields(clean), "content": [{"type": "text", "text": content, **_MARK}]} if content.strip() else clean
    blocks = list(content) if is_sequence(content) else []
    for at in reversed(range(len(blocks))):
        block = fields(blocks[at])
        if block and block.get("type") not in _UNMARKABLE and block.get("text") != "":
            return {**fields(clean), "content": [*blocks[:at], {**block, **_MARK}, *blocks[at + 1 :]]}
    return clean


def unmarked(value: Any) -> Any:
    """Return a message without the marks it carries; itself, if it carries none."""
    if isinstance(value, Mapping):
        entries = fields(value)
        copy = {key: unmarked(inner) if key == "content" else inner for key, inner in entries.items() if key != KEY}
        return value if len(copy) == len(entries) and all(copy[key] is entries[key] for key in copy) else copy
    if is_sequence(value):
        copies = [unmarked(inner) for inner in value]
        return value if all(one is other for one, other in zip(copies, value, strict=True)) else copies
    return value
