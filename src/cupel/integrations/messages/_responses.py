"""OpenAI Responses: a flat list of items; calls and results are joined by `call_id`, wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel.errors import InvalidItemError
from cupel.integrations.messages import _media
from cupel.integrations.messages._openai import CALL_FRAME, MESSAGE_FRAME
from cupel.integrations.messages._plain import JSON, blocks, compact_json, objects
from cupel.integrations.messages._reading import EMPTY_CONTENT, Reading, Role
from cupel.integrations.messages._unit import Unit, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

# An approval is a call too: it is asked for, and answered by id.
CALLS = frozenset(
    (
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "mcp_approval_request",
        "program",
        "shell_call",
        "tool_search_call",
    )
)
"""Items that ask for an output; the other calls carry theirs."""
OUTPUTS = frozenset(
    (
        "apply_patch_call_output",
        "computer_call_output",
        "custom_tool_call_output",
        "function_call_output",
        "local_shell_call_output",
        "mcp_approval_response",
        "program_output",
        "shell_call_output",
        "tool_search_output",
    )
)
SETTINGS = frozenset(("additional_tools", "compaction", "compaction_trigger", "configuration_update"))
"""Items that state what holds for the rest of the conversation: kept as a system prompt is."""
_ROLES: dict[object, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def read(item: JSON, path: str, images: _media.ImageRule) -> Reading:
    """One input or output item."""
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "message":
        return _read_message(item, path, images)
    if not isinstance(kind, str):
        msg = f"{path}.type must name an item type, got {kind!r}"
        raise InvalidItemError(msg)
    if kind == "reasoning":
        return _read_reasoning(item, path)
    if kind in OUTPUTS and _call_id(item) is not None:
        return _read_output(item, path, images)
    reading = Reading("system" if kind in SETTINGS else "assistant", extra=CALL_FRAME)
    reading.extra += _media.opaque_tokens(item.get("encrypted_content") or "")
    if kind in CALLS and (call_id := _call_id(item)) is not None:
        reading.calls.append(call_id)
        reading.tools.append(str(item.get("name", kind.removesuffix("_call"))))
        reading.texts += [reading.tools[0], _payload(item)]
    else:
        if isinstance(item.get("result"), str):  # an image that the model made
            reading.extra += images.openai(f"data:;base64,{item['result']}", None)
        reading.texts.append(compact_json({k: v for k, v in item.items() if k not in _UNCOUNTED}))
    return reading


_UNCOUNTED = frozenset(("id", "call_id", "status", "type", "encrypted_content", "result"))
"""Fields of hosted calls that are bookkeeping or opaque bytes, not prompt text."""


def _call_id(item: JSON) -> str | None:
    value = item.get("call_id")
    if item.get("type") in ("local_shell_call_output", "mcp_approval_request"):
        value = value or item.get("id")
    elif item.get("type") == "mcp_approval_response":
        value = item.get("approval_request_id")
    return None if value is None else str(value)


def _payload(item: JSON) -> str:
    for field in ("arguments", "input", "code"):
        if isinstance(item.get(field), str):
            return str(item[field])
    return compact_json({k: v for k, v in item.items() if k not in _UNCOUNTED})


def _read_message(item: JSON, path: str, images: _media.ImageRule) -> Reading:
    role = _ROLES.get(item.get("role"))
    if role is None:
        msg = f"{path}.role must be one of {', '.join(map(str, _ROLES))}, got {item.get('role')!r}"
        raise InvalidItemError(msg)
    reading = Reading(role, extra=MESSAGE_FRAME)
    content = item.get("content")
    if not content:
        reading.spoil(EMPTY_CONTENT)
    _read_parts(content, reading, f"{path}.content", images)
    return reading


def _read_reasoning(item: JSON, path: str) -> Reading:
    reading = Reading("assistant", opens_thinking=True, ends_thinking=True)
    for field in ("summary", "content"):
        reading.texts += [str(part.get("text", "")) for part in objects(item.get(field), f"{path}.{field}")]
    reading.extra = _media.opaque_tokens(item.get("encrypted_content") or "")
    return reading


def _read_output(item: JSON, path: str, images: _media.ImageRule) -> Reading:
    reading = Reading("tool", results=[str(_call_id(item))], extra=CALL_FRAME)
    output = item.get("output")
    if isinstance(output, str) or item.get("type") in ("custom_tool_call_output", "function_call_output"):
        _read_parts(output, reading, f"{path}.output", images)
    elif isinstance(output, dict) and "image_url" in output:  # a computer's screenshot
        reading.extra += images.openai(str(output["image_url"]), None)  # pyright: ignore[reportUnknownArgumentType]
    else:
        reading.texts.append(_payload(item))
    return reading


def _read_parts(content: Any, reading: Reading, path: str, images: _media.ImageRule) -> None:
    if isinstance(content, str):
        reading.texts.append(content)
        return
    for part in blocks(content, path):
        _read_part(part, reading, images)


def _read_part(part: JSON, reading: Reading, images: _media.ImageRule) -> None:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)} | {"refusal": str(text)}:
            reading.texts.append(text)
            if not text:
                reading.spoil(EMPTY_CONTENT)
        case {"type": "input_image"}:
            reading.extra += images.openai(str(part.get("image_url") or ""), part.get("detail"))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": form}}:
            reading.extra += _media.audio_tokens(data, form)
        case {"type": "input_file", "file_data": str(data)}:
            reading.extra += _media.file_tokens(data)
        case _:
            reading.texts.append(compact_json(part))


def group(readings: Sequence[Reading]) -> list[Unit]:
    """Runs of model items with the results of their calls; every other item by itself.

    A run is what the model said between two inputs. Reasoning must be followed by what it led to, and what it led to
    must be preceded by it, so a run that holds reasoning stands or falls whole.
    """
    answers, units = _pair(readings)
    position = 0
    while position < len(readings):
        if readings[position].role != "assistant":
            if readings[position].role != "tool":
                units.append(unit_of([position], readings))
            position += 1
            continue
        end = position
        while end < len(readings) and readings[end].role == "assistant":
            end += 1
        units += _run(position, end, readings, answers)
        position = end
    return sorted(units, key=lambda unit: unit.positions[0])


def _pair(readings: Sequence[Reading]) -> tuple[dict[int, int], list[Unit]]:
    """For each answered call its result's position; and the results that answer nothing, as units."""
    asked: dict[str, int] = {}
    answers: dict[int, int] = {}
    strays: list[Unit] = []
    for position, reading in enumerate(readings):
        for call in reading.calls:
            if call in asked:
                reading.spoil("two calls with one id")
            else:
                asked[call] = position
        for result in reading.results:
            call_position = asked.get(result)
            if call_position is None or call_position in answers:
                strays.append(unit_of([position], readings, "result without its call"))
            else:
                answers[call_position] = position
    return answers, strays


def _run(start: int, end: int, readings: Sequence[Reading], answers: dict[int, int]) -> list[Unit]:
    units: list[Unit] = []
    while end > start and readings[end - 1].ends_thinking:
        end -= 1
        units.append(unit_of([end], readings, "reasoning without the item that must follow it"))
    unanswered = [at for at in range(start, end) if readings[at].calls and at not in answers]
    whole = any(readings[at].opens_thinking for at in range(start, end))
    kept = [at for at in range(start, end) if whole or at not in unanswered]
    if not whole:
        units += [unit_of([at], readings, "call without its result") for at in unanswered]
    if kept:
        results = [answers[at] for at in kept if at in answers]
        flaw = "call without its result" if whole and unanswered else None
        units.append(unit_of(sorted([*kept, *results]), readings, flaw))
    return units
