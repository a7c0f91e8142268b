"""Anthropic messages: roles alternate, calls and results are blocks, the system prompt is a parameter of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel.messages import _media
from cupel.messages._hosted import hold_hosted, note_hosted
from cupel.messages._plain import JSON, blocks, compact_json, objects, role_of
from cupel.messages._reading import EMPTY_CONTENT, NO_CALL, NO_RESULT, TWO_CALLS, Reading, Role
from cupel.messages._unit import Unit, forbid_repeated_calls, holders, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_FRAME = 4
CALL_FRAME = 12
"""Tokens around a call or a result: its markers and its id, rounded up."""
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_THINKING = ("thinking", "redacted_thinking")


def read(message: JSON, path: str, images: _media.ImageRule) -> Reading:
    """Read one message."""
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


def group(readings: Sequence[Reading]) -> list[Unit]:
    """Return assistant turns with the results of their calls, whole work of server tools, and other messages."""
    units = hold_hosted(_turns(readings), readings)
    forbid_repeated_calls(units, readings)
    _forbid_blank_end(units, readings)
    _place_system(units, readings)
    return units


def _turns(readings: Sequence[Reading]) -> list[Unit]:
    units: list[Unit] = []
    position = 0
    while position < len(readings):
        start = position
        if readings[start].role != "assistant":
            units.append(unit_of([start], readings, NO_CALL if readings[start].role == "tool" else None))
            position += 1
            continue
        # The provider joins neighbours of one role, so a run of assistant messages is one turn.
        while position < len(readings) and readings[position].role == "assistant":
            position += 1
        calls = [call for at in range(start, position) for call in readings[at].calls]
        end = position
        while calls and position < len(readings) and readings[position].role == "tool":
            position += 1
        results = [result for at in range(end, position) for result in readings[at].results]
        flaw = _turn_flaw(calls, results, ends_thinking=readings[end - 1].ends_thinking)
        units.append(unit_of(list(range(start, position)), readings, flaw))
    return units


def _turn_flaw(calls: list[str], results: list[str], *, ends_thinking: bool) -> str | None:
    if len(set(calls)) < len(calls):
        return TWO_CALLS
    if len(set(results)) < len(results):
        return "two results for one call"
    if set(calls) - set(results):
        return NO_RESULT
    if set(results) - set(calls):
        return NO_CALL
    return "thinking without the block that must follow it" if ends_thinking else None


def _forbid_blank_end(units: Sequence[Unit], readings: Sequence[Reading]) -> None:
    """Spoil a blank end: a final assistant message is continued by the model and must not end in white space."""
    if units and units[-1].closes == "assistant" and readings[-1].ends_blank:
        units[-1].spoil("a final assistant text that ends in white space")


def _place_system(units: Sequence[Unit], readings: Sequence[Reading]) -> None:
    """Note a system message's neighbours: it must follow a user turn, and precede an assistant turn or the end."""
    holder = holders(units)
    end = max((position for position, unit in holder.items() if unit.flaw is None), default=-1)
    for position, reading in enumerate(readings):
        unit = holder[position]
        if reading.role != "system" or unit.flaw:
            continue
        last = position >= end
        if position == 0 or readings[position - 1].role not in ("user", "tool"):
            unit.spoil("a system message that follows no user turn")
        elif not last and readings[position + 1].role != "assistant":
            unit.spoil("a system message that precedes no assistant turn")
        unit.requires = (position - 1,) if last else (position - 1, position + 1)
