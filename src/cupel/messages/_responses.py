"""OpenAI Responses: a flat list of items; calls and results are joined by `call_id`, wherever they stand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cupel._checks import shown
from cupel.errors import InvalidItemError
from cupel.messages import _media
from cupel.messages._openai import CALL_FRAME, MESSAGE_FRAME
from cupel.messages._plain import JSON, blocks, compact_json, fields, objects, role_of
from cupel.messages._reading import EMPTY_CONTENT, NO_CALL, NO_RESULT, Reading, Role
from cupel.messages._unit import Unit, forbid_repeated_calls, holders, in_order, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_PROGRAM = "a call by a program that is missing"
REPEATED_ID = "a newer item has the same id"

ANSWERED_BY = {
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "function_call": "function_call_output",
    "local_shell_call": "local_shell_call_output",
    "mcp_approval_request": "mcp_approval_response",  # an approval is a call too: it is asked for, and answered by id
    "program": "program_output",
    "shell_call": "shell_call_output",
    "tool_search_call": "tool_search_output",
}
"""Items that ask for an output, and the only kind of item that is one; the other calls carry theirs."""
_ANSWERS = {output: call for call, output in ANSWERED_BY.items()}
SETTINGS = frozenset(("additional_tools", "compaction", "compaction_trigger", "configuration_update"))
"""Items that state what holds for the rest of the conversation: kept as a system prompt is."""
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def read(item: JSON, path: str, images: _media.ImageRule) -> Reading:
    """Read one input or output item."""
    kind = item.get("type", "message" if "role" in item else None)
    if not isinstance(kind, str):
        msg = f"{path}.type must name an item type, got {type(kind).__name__}: {shown(kind)}"
        raise InvalidItemError(msg)
    reading = _read_kind(kind, item, path, images)
    if item.get("id") is not None and kind != "local_shell_call_output":  # whose id is that of its call
        reading.item_id = str(item["id"])
    return reading


def _read_kind(kind: str, item: JSON, path: str, images: _media.ImageRule) -> Reading:
    if kind == "message":
        return _read_message(item, path, images)
    if kind == "reasoning":
        return _read_reasoning(item, path)
    if kind in _ANSWERS and _call_id(item) is not None:
        return _read_output(kind, item, path, images)
    reading = Reading("system" if kind in SETTINGS else "assistant", standing=kind in SETTINGS, extra=CALL_FRAME)
    reading.extra += _media.opaque_tokens(str(item.get("encrypted_content") or ""))
    if kind in ANSWERED_BY and (call_id := _call_id(item)) is not None:
        reading.calls.append(f"{kind}:{call_id}")
        reading.tools.append(str(item.get("name", kind.removesuffix("_call"))))
        reading.texts += [reading.tools[0], _payload(item)]
        _note_program(kind, call_id, fields(item.get("caller")), reading)
    else:
        if isinstance(item.get("result"), str):  # an image that the model made
            reading.extra += images.openai(f"data:;base64,{item['result']}", None)
        reading.texts.append(compact_json({k: v for k, v in item.items() if k not in _UNCOUNTED}))
    return reading


_UNCOUNTED = frozenset(("id", "call_id", "status", "type", "encrypted_content", "result", "caller", "fingerprint"))
"""Fields of hosted calls that are bookkeeping or opaque bytes, not prompt text."""


def _note_program(kind: str, call_id: str, caller: JSON, reading: Reading) -> None:
    if kind == "program":
        reading.begun.append(call_id)
    elif "caller_id" in caller:
        reading.within.append(str(caller["caller_id"]))


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
    role = role_of(item, path, _ROLES)
    reading = Reading(role, speaks=role != "system", extra=MESSAGE_FRAME)
    content = item.get("content")
    if not content:
        reading.spoil(EMPTY_CONTENT)
    _read_parts(content, reading, f"{path}.content", images)
    return reading


def _read_reasoning(item: JSON, path: str) -> Reading:
    reading = Reading("assistant", opens_thinking=True, ends_thinking=True)
    for field in ("summary", "content"):
        reading.texts += [str(part.get("text", "")) for part in objects(item.get(field), f"{path}.{field}")]
    reading.extra = _media.opaque_tokens(str(item.get("encrypted_content") or ""))
    return reading


def _read_output(kind: str, item: JSON, path: str, images: _media.ImageRule) -> Reading:
    reading = Reading("tool", results=[f"{_ANSWERS[kind]}:{_call_id(item)}"], extra=CALL_FRAME)
    output = item.get("output", item.get("result"))
    if isinstance(output, str) or kind in ("custom_tool_call_output", "function_call_output"):
        _read_parts(output, reading, f"{path}.output", images)
    elif "image_url" in fields(output):  # a computer's screenshot
        reading.extra += images.openai(str(fields(output)["image_url"]), None)
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
    """Return runs of model items with the results of their calls, programs with theirs; every other item by itself.

    A run is what the model said between two inputs. Reasoning must be followed by what it led to, and what it led to
    must be preceded by it, so a run that holds reasoning stands or falls whole; and so does a program with every run
    that it called from.
    """
    readings = _without_repeated_ids(readings)
    answers = _pair(readings)
    answered = set(answers.values())
    units: list[Unit] = []
    position = 0
    while position < len(readings):
        if readings[position].role != "assistant":
            if position not in answered:
                units.append(unit_of([position], readings, NO_CALL if readings[position].results else None))
            position += 1
            continue
        end = position
        while end < len(readings) and readings[end].role == "assistant":
            end += 1
        units += _run(position, end, readings, answers)
        position = end
    units = _hold_programs(in_order(units), readings)
    forbid_repeated_calls(units, readings)
    _forbid_open_programs(units, readings, answers)
    return units


def _without_repeated_ids(readings: Sequence[Reading]) -> list[Reading]:
    """Items have ids of their own, which must differ: of two with one id only the newest can be sent."""
    seen: set[str] = set()
    checked: list[Reading] = []
    for reading in reversed(readings):
        repeated = reading.item_id in seen
        checked.append(replace(reading, flaw=reading.flaw or REPEATED_ID) if repeated else reading)
        if reading.item_id is not None:
            seen.add(reading.item_id)
    return checked[::-1]


def _pair(readings: Sequence[Reading]) -> dict[int, int]:
    """Return for each answered call its result's position: the nearest that asked, wherever it stands."""
    open_calls: dict[str, list[int]] = {}
    answers: dict[int, int] = {}
    for position, reading in enumerate(readings):
        if reading.flaw is not None:
            continue
        for call in reading.calls:
            open_calls.setdefault(call, []).append(position)
        for result in reading.results:
            if open_calls.get(result):
                answers[open_calls[result].pop()] = position
    return answers


def _run(start: int, end: int, readings: Sequence[Reading], answers: dict[int, int]) -> list[Unit]:
    units: list[Unit] = []
    while end > start and readings[end - 1].ends_thinking:
        end -= 1
        units.append(unit_of([end], readings, "reasoning without the item that must follow it"))
    unanswered = {at for at in range(start, end) if readings[at].calls and at not in answers}
    unanswered -= {at for at in unanswered if readings[at].begun}  # a program may go on with the next request
    whole = any(readings[at].opens_thinking for at in range(start, end))
    kept = [at for at in range(start, end) if whole or (at not in unanswered and readings[at].flaw is None)]
    if not whole:
        units += [
            unit_of([at], readings, NO_RESULT if at in unanswered else None)
            for at in range(start, end)
            if at not in kept
        ]
    if kept:
        results = [answers[at] for at in kept if at in answers]
        flaw = NO_RESULT if whole and unanswered else None
        units.append(unit_of(sorted([*kept, *results]), readings, flaw))
    return units


def _hold_programs(units: Sequence[Unit], readings: Sequence[Reading]) -> list[Unit]:
    """Join the calls that a program made to the program."""
    holder = holders(units)
    programs: dict[str, int] = {}
    for position, reading in enumerate(readings):
        programs |= dict.fromkeys(reading.begun, position)
        for program in reading.within:
            calling = holder[position]
            if program not in programs:
                calling.spoil(NO_PROGRAM)
            elif (whole := holder[programs[program]]) is not calling:
                whole.absorb(calling, readings)
                holder |= dict.fromkeys(calling.positions, whole)
    return in_order(holder.values())


def _forbid_open_programs(units: Sequence[Unit], readings: Sequence[Reading], answers: dict[int, int]) -> None:
    """Spoil open programs, unless their calls were answered and nothing comes after them but the next request."""
    end = max((unit.positions[-1] for unit in units if unit.flaw is None and unit.role != "system"), default=-1)
    for unit in units:
        if all(at in answers for at in unit.positions if readings[at].begun):
            continue
        unit.waiting = unit.positions[-1] == end and readings[end].role == "tool"
        if not unit.waiting:
            unit.spoil(NO_RESULT)
