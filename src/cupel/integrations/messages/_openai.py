"""OpenAI chat completions: a list of role messages; results are messages of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel.errors import InvalidItemError
from cupel.integrations.messages import _media
from cupel.integrations.messages._plain import JSON, blocks, compact_json, objects
from cupel.integrations.messages._reading import EMPTY_CONTENT, Reading, Role
from cupel.integrations.messages._unit import Unit, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_FRAME = 3
"""Tokens around every message, and before the reply; as OpenAI's own counting guide has them."""
NAME_FRAME = 1
CALL_FRAME = 8
"""Tokens around a call: its markers and its id, rounded up."""

_ROLES: dict[object, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def read(message: JSON, path: str, images: _media.ImageRule) -> Reading:
    """One chat-completions message."""
    role = _ROLES.get(message.get("role"))
    if role is None:
        msg = f"{path}.role must be one of {', '.join(map(str, _ROLES))}, got {message.get('role')!r}"
        raise InvalidItemError(msg)
    reading = Reading(role, extra=MESSAGE_FRAME)
    if name := message.get("name"):
        reading.texts.append(str(name))
        reading.extra += NAME_FRAME
    _read_calls(message, reading, path)
    _read_result(message, reading)
    _read_content(message, reading, path, images)
    return reading


def _read_calls(message: JSON, reading: Reading, path: str) -> None:
    for call in objects(message.get("tool_calls"), f"{path}.tool_calls"):
        _add_call(reading, str(call.get("id")), call.get("function") or call.get("custom"))
    if message.get("function_call"):
        _add_call(reading, f"function:{message['function_call'].get('name')}", message["function_call"])
    if len(set(reading.calls)) < len(reading.calls):
        reading.spoil("two calls with one id")
    if reading.calls and reading.role != "assistant":
        reading.spoil(f"tool calls in a message of role {message.get('role')}")


def _add_call(reading: Reading, call: str, body: Any) -> None:
    match body:
        case {"name": str(name), "arguments": arguments} | {"name": str(name), "input": arguments}:
            reading.tools.append(name)
            reading.texts += [name, arguments if isinstance(arguments, str) else compact_json(arguments)]
        case _:
            reading.texts.append(compact_json(body))
    reading.calls.append(call)
    reading.extra += CALL_FRAME


def _read_result(message: JSON, reading: Reading) -> None:
    if message.get("role") == "tool":
        reading.results.append(str(message.get("tool_call_id")))
    elif message.get("role") == "function":
        reading.results.append(f"function:{message.get('name')}")


def _read_content(message: JSON, reading: Reading, path: str, images: _media.ImageRule) -> None:
    content = message.get("content")
    refusal = message.get("refusal")
    if refusal:
        reading.texts.append(str(refusal))
    for hidden in ("reasoning_content", "reasoning"):  # what compatible servers send beside the content
        if isinstance(message.get(hidden), str):
            reading.texts.append(message[hidden])
    if isinstance(content, str):
        reading.texts.append(content)
        if not content and not (reading.calls or reading.results or refusal):
            reading.spoil(EMPTY_CONTENT)
    elif content is None:
        if reading.role != "assistant" or not (reading.calls or refusal or message.get("audio")):
            reading.spoil(EMPTY_CONTENT)
    else:
        if not content:
            reading.spoil(EMPTY_CONTENT)
        for part in blocks(content, f"{path}.content"):
            _read_part(part, reading, images)


def _read_part(part: JSON, reading: Reading, images: _media.ImageRule) -> None:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            _add_text(text, reading)
        case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
            reading.extra += images.openai(url, rest.get("detail"))
        case {"type": "input_audio", "input_audio": {"data": str(data), **rest}}:
            reading.extra += _media.audio_tokens(data, rest.get("format"))
        case {"type": "file", "file": {"file_data": str(data)}}:
            reading.extra += _media.file_tokens(data)
        case _:
            reading.texts.append(compact_json(part))


def _add_text(text: str, reading: Reading) -> None:
    reading.texts.append(text)
    if not text:
        reading.spoil(EMPTY_CONTENT)


def group(readings: Sequence[Reading]) -> list[Unit]:
    """Calls with the tool messages right behind them; every other message by itself."""
    units: list[Unit] = []
    position = 0
    while position < len(readings):
        reading = readings[position]
        if not reading.calls:
            orphan = "result without its call" if reading.results else None
            units.append(unit_of([position], readings, orphan))
            position += 1
            continue
        end = position + 1
        while end < len(readings) and readings[end].role == "tool":
            end += 1
        units += _exchange(position, end, readings)
        position = end
    return units


def _exchange(start: int, end: int, readings: Sequence[Reading]) -> list[Unit]:
    """The calls at `start` and the results up to `end`; results of other calls become units of their own."""
    waiting = set(readings[start].calls)
    members, strays = [start], list[Unit]()
    for position in range(start + 1, end):
        answered = readings[position].results[0]
        if answered in waiting:
            waiting.discard(answered)
            members.append(position)
        else:
            strays.append(unit_of([position], readings, "result without its call"))
    flaw = "call without its result" if waiting else None
    return [unit_of(members, readings, flaw), *strays]
