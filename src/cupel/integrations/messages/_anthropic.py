"""Anthropic messages: roles alternate, calls and results are blocks, the system prompt is a parameter of its own."""

from __future__ import annotations

from typing import Any

from cupel.integrations.messages import _media
from cupel.integrations.messages._anthropic_units import group
from cupel.integrations.messages._hosted import note_hosted
from cupel.integrations.messages._plain import JSON, blocks, compact_json, objects, role_of
from cupel.integrations.messages._reading import EMPTY_CONTENT, TWO_CALLS, Reading, Role

__all__ = ["group", "read"]

MESSAGE_FRAME = 4
CALL_FRAME = 12
"""Tokens around a call or a result: its markers and its id, rounded up."""
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_THINKING = ("thinking", "redacted_thinking")


def read(message: JSON, path: str, images: _media.ImageRule) -> Reading:
    """One message."""
    role = role_of(message, path, _ROLES)
    reading = Reading(role, speaks=role != "system", extra=MESSAGE_FRAME)
    content = message.get("content")
    if isinstance(content, str):
        _add_text(content, reading)
    else:
        _read_blocks(blocks(content, f"{path}.content"), reading, f"{path}.content", images)
    if role == "user":
        reading.speaks = isinstance(content, str) or len(reading.results) < len(blocks(content, path))
        reading.role = "tool" if reading.results else "user"
    return reading


def _read_blocks(content: list[dict[str, Any]], reading: Reading, path: str, images: _media.ImageRule) -> None:
    if not content:
        reading.spoil(EMPTY_CONTENT)
        return
    for index, block in enumerate(content):
        if block["type"] == "tool_result" and len(reading.results) < index:
            reading.spoil("a tool result behind other content")
        _read_block(block, reading, f"{path}[{index}]", images)
    reading.opens_thinking = content[0]["type"] in _THINKING
    reading.ends_thinking = content[-1]["type"] in _THINKING
    reading.ends_blank = reading.ends_blank and content[-1]["type"] == "text"


def _read_block(block: JSON, reading: Reading, path: str, images: _media.ImageRule) -> None:
    note_hosted(block, reading)
    match block:
        case {"type": "text", "text": str(text)}:
            _add_text(text, reading)
        case {"type": "image", "source": source}:
            reading.extra += images.anthropic(source)
        case {"type": "document", "source": source}:
            _read_document(block, source, reading, path, images)
        case {"type": "thinking", "thinking": str(text)}:
            reading.texts.append(text)
            if not block.get("signature"):
                reading.spoil("a thinking block without its signature")
        case {"type": "redacted_thinking", "data": str(data)}:
            reading.extra += _media.opaque_tokens(data)
        case {"type": "tool_use", "id": str(call), "name": str(name)}:
            _add_call(call, name, block.get("input"), reading)
        case {"type": "tool_result", "tool_use_id": str(call)}:
            _add_result(call, block.get("content"), reading, path, images)
        case {"type": "search_result", "content": parts}:
            reading.texts += [str(block.get("source", "")), str(block.get("title", ""))]
            reading.texts += [str(part.get("text", "")) for part in objects(parts, f"{path}.content")]
        case _:
            reading.texts.append(compact_json({k: v for k, v in block.items() if k not in _UNCOUNTED}))


_UNCOUNTED = frozenset(("type", "id", "tool_use_id", "cache_control", "encrypted_content"))


def _add_text(text: str, reading: Reading) -> None:
    reading.texts.append(text)
    reading.ends_blank = text[-1:].isspace()
    if not text.strip():
        reading.spoil(EMPTY_CONTENT)


def _add_call(call: str, name: str, arguments: object, reading: Reading) -> None:
    if reading.role != "assistant":
        reading.spoil(f"a tool call in a message of role {reading.role}")
    if call in reading.calls:
        reading.spoil(TWO_CALLS)
    reading.calls.append(call)
    reading.tools.append(name)
    reading.texts += [name, compact_json(arguments)]
    reading.extra += CALL_FRAME


def _add_result(call: str, content: Any, reading: Reading, path: str, images: _media.ImageRule) -> None:
    if reading.role != "user":
        reading.spoil(f"a tool result in a message of role {reading.role}")
    if call in reading.results:
        reading.spoil("two results for one call")
    reading.results.append(call)
    reading.extra += CALL_FRAME
    if isinstance(content, str):
        reading.texts.append(content)
        return
    for index, block in enumerate(blocks(content, f"{path}.content")):
        _read_block(block, reading, f"{path}.content[{index}]", images)


def _read_document(block: JSON, source: Any, reading: Reading, path: str, images: _media.ImageRule) -> None:
    reading.texts += [str(block[field]) for field in ("title", "context") if block.get(field)]
    match source:
        case {"type": "text", "data": str(text)}:
            reading.texts.append(text)
        case {"type": "content", "content": str(text)}:
            reading.texts.append(text)
        case {"type": "content", "content": parts}:
            for inner in blocks(parts, f"{path}.source.content"):
                _read_block(inner, reading, f"{path}.source.content", images)
        case {"type": "base64", "data": str(data)}:
            reading.extra += _media.file_tokens(data)
        case _:
            reading.extra += _media.file_tokens("")
