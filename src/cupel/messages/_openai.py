"""OpenAI chat completions: a list of role messages; results are messages of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel._checks import wrong_type
from cupel.messages import _media
from cupel.messages._hosted import hold_hosted, note_hosted
from cupel.messages._plain import JSON, blocks, compact_json, fields, objects, role_of
from cupel.messages._reading import EMPTY_CONTENT, NO_CALL, NO_RESULT, TWO_CALLS, Reading, Role
from cupel.messages._unit import Unit, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_FRAME = 4
"""Tokens around every message: three, and the role's one; as OpenAI's own counting guide has them."""
NAME_FRAME = 1
CALL_FRAME = 8
"""Tokens around a call: its markers and its id, rounded up."""

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_THINKING = ("thinking", "redacted_thinking")
_REASONING = ("reasoning_content", "reasoning")
"""Where compatible servers and frameworks keep a message's thinking."""


def read(message: JSON, path: str, images: _media.ImageRule) -> Reading:
    """Read one chat-completions message."""
    role = role_of(message, path, _ROLES)
    reading = Reading(role, speaks=role in ("user", "assistant"), extra=MESSAGE_FRAME)
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
    if function := message.get("function_call"):
        if not (body := fields(function)):
            raise wrong_type(f"{path}.function_call", "an object", function)
        _add_call(reading, f"function:{body.get('name')}", body)
    if len(set(reading.calls)) < len(reading.calls):
        reading.spoil(TWO_CALLS)
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
    content, refusal, audio = (message.get(field) for field in ("content", "refusal", "audio"))
    if refusal:
        reading.texts.append(str(refusal))
    # What the model said aloud goes back as an id; its words are the best measure.
    reading.texts.append(str(fields(audio).get("transcript", "")))
    for hidden in _REASONING:
        if isinstance(message.get(hidden), str):
            reading.texts.append(message[hidden])
            reading.opens_thinking = reading.opens_thinking or bool(message[hidden])
    if isinstance(content, str):
        reading.texts.append(content)
        if not content and not (reading.calls or reading.results or refusal):
            reading.spoil(EMPTY_CONTENT)
    elif content is None:
        if reading.role != "assistant" or not (reading.calls or refusal or audio):
            reading.spoil(EMPTY_CONTENT)
    else:
        parts = blocks(content, f"{path}.content")
        if not parts:
            reading.spoil(EMPTY_CONTENT)
        elif parts[0]["type"] in _THINKING:
            reading.opens_thinking = True
        for part in parts:
            _read_part(part, reading, images)


def _read_part(part: JSON, reading: Reading, images: _media.ImageRule) -> None:
    note_hosted(part, reading)
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
    """Return calls with the tool messages right behind them, whole work of server tools, and other messages."""
    units: list[Unit] = []
    position = 0
    while position < len(readings):
        reading = readings[position]
        if not reading.calls:
            units.append(unit_of([position], readings, NO_CALL if reading.results else None))
            position += 1
            continue
        end = position + 1
        while end < len(readings) and readings[end].role == "tool":
            end += 1
        units += _exchange(position, end, readings)
        position = end
    return hold_hosted(units, readings)


def _exchange(start: int, end: int, readings: Sequence[Reading]) -> list[Unit]:
    """Return the calls at `start` and the results up to `end`; results of other calls become units of their own."""
    waiting = set(readings[start].calls)
    members, strays = [start], list[Unit]()
    for position in range(start + 1, end):
        answered = readings[position].results[0]
        if answered in waiting:
            waiting.discard(answered)
            members.append(position)
        else:
            strays.append(unit_of([position], readings, NO_CALL))
    return [unit_of(members, readings, NO_RESULT if waiting else None), *strays]
