"""Cache marks in Anthropic's messages."""

from __future__ import annotations

from typing import Any, Final

from cupel.messages._plain import fields, is_sequence

KEY: Final = "cache_control"
_MARK = {KEY: {"type": "ephemeral"}}
_UNMARKABLE = ("thinking", "redacted_thinking")


def marked(message: Any, here: bool) -> Any:  # noqa: FBT001 - a private function of two
    """Return a message without marks but for one on its last block that can carry one, if it belongs `here`.

    The message itself comes back where nothing changes.
    """
    clean: object = unmarked(message)
    body = fields(clean)
    if not here or not body:
        return clean
    content: object = body.get("content")
    if isinstance(content, str):
        return {**body, "content": [{"type": "text", "text": content, **_MARK}]} if content.strip() else clean
    blocks = list(content) if is_sequence(content) else []
    for at in reversed(range(len(blocks))):
        block = fields(blocks[at])
        if block and block.get("type") not in _UNMARKABLE and block.get("text") != "":
            return {**body, "content": [*blocks[:at], {**block, **_MARK}, *blocks[at + 1 :]]}
    return clean


def unmarked(value: object) -> Any:
    """Return a message without the marks it carries; itself, if it carries none."""
    if entries := fields(value):
        copy = {key: unmarked(inner) if key == "content" else inner for key, inner in entries.items() if key != KEY}
        return value if len(copy) == len(entries) and all(copy[key] is entries[key] for key in copy) else copy
    if is_sequence(value):
        copies = [unmarked(inner) for inner in value]
        return value if all(one is other for one, other in zip(copies, value, strict=True)) else copies
    return value
