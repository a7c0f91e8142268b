"""OpenAI Responses: a flat list of items; calls and results are joined by `call_id`, wherever they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import shown
from cupel.errors import InvalidItemError
from cupel.messages._formats import media
from cupel.messages._formats.chat import CHATS_PARTS, CLAUDES_PARTS, RESPONSES_PARTS, check_parts, refuse_chat
from cupel.messages._formats.format import Format, NotePlace
from cupel.messages._formats.marks import FieldMark
from cupel.messages._formats.openai import (
    BREAKPOINT,
    CALL_FRAME,
    MESSAGE_FRAME,
    check_arguments,
    refuse_anthropic,
    tool_tokens,
)
from cupel.messages._formats.texts import (
    Rewrite,
    change_prose,
    change_result,
    change_strings,
)
from cupel.messages._plain import (
    JSON,
    blocks,
    check_keys,
    check_text,
    compact_json,
    fields,
    is_sequence,
    objects,
    role_of,
)
from cupel.messages._prices import Prices
from cupel.messages._units import (
    EMPTY_CONTENT,
    NO_CALL,
    NO_RESULT,
    Message,
    Role,
    Unit,
    forbid_repeated_calls,
    holders,
    in_order,
    unit_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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
"""Items that need an output, with the type of that output item; other calls contain their output."""
_ANSWERS = {output: call for call, output in ANSWERED_BY.items()}
COMPACTIONS = frozenset(("compaction", "compaction_summary"))
SETTINGS = COMPACTIONS | {"additional_tools", "compaction_trigger", "configuration_update"}
"""Items that apply to the rest of the conversation; they are kept like a system prompt."""
_TEXT_OUTPUTS = ("custom_tool_call_output", "function_call_output")
_PAIRED = ("custom_tool_call", "function_call", *_TEXT_OUTPUTS)
_RESULTS = ("output", "outputs", "results")
"""Where the provider's own tools keep their answers."""
_UNCOUNTED = frozenset(("id", "call_id", "status", "type", "encrypted_content", "result", "caller", "fingerprint"))
"""Fields of hosted calls that are bookkeeping or opaque bytes, not prompt text."""
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def read(item: JSON, path: str, images: media.ImageRule) -> Message:
    """Read one input or output item."""
    kind = item.get("type", "message" if "role" in item else None)
    if not isinstance(kind, str):
        msg = f"{path}.type must name an item type, got {type(kind).__name__}: {shown(kind)}"
        raise InvalidItemError(msg)
    info = _read_kind(kind, item, path, images)
    if item.get("id") is not None and kind != "local_shell_call_output":  # whose id is that of its call
        info.item_id = str(item["id"])
    return info


def _read_kind(kind: str, item: JSON, path: str, images: media.ImageRule) -> Message:
    if kind == "message":
        return _read_message(item, path, images)
    if kind == "reasoning":
        return _read_reasoning(item, path)
    if kind in _ANSWERS and _call_id(item) is not None:
        return _read_output(kind, item, path, images)
    info = Message("system" if kind in SETTINGS else "assistant", is_setting=kind in SETTINGS, extra=CALL_FRAME)
    info.is_compaction = kind in COMPACTIONS
    info.extra += media.opaque_tokens(str(item.get("encrypted_content") or ""))
    if kind in ANSWERED_BY and (call_id := _call_id(item)) is not None:
        info.calls.append(f"{kind}:{call_id}")
        info.tools.append(str(item.get("name", kind.removesuffix("_call"))))
        info.arguments.append(_payload(item))
        info.texts += [info.tools[0], info.arguments[0]]
        _note_program(kind, call_id, fields(item.get("caller")), info)
    else:
        if isinstance(item.get("result"), str):  # an image that the model made
            info.extra += images.openai(f"data:;base64,{item['result']}", None)
        info.texts.append(compact_json({k: v for k, v in item.items() if k not in _UNCOUNTED}))
    return info


def _note_program(kind: str, call_id: str, caller: JSON, info: Message) -> None:
    if kind == "program":
        info.begun.append(call_id)
    elif "caller_id" in caller:
        info.within.append(str(caller["caller_id"]))


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


def check(item: JSON, path: str) -> None:
    """Raise if an item holds Anthropic's calls or results, or lacks what joins a call and its result."""
    refuse_anthropic(item, path)
    refuse_chat(item, path)
    check_parts(item, path, CLAUDES_PARTS | CHATS_PARTS)
    kind = item.get("type")
    if kind in _PAIRED:
        check_text(item, "call_id", path, "a string, the same in a call and its output")
    if kind == "function_call":
        check_text(item, "name", path, "the name of a function")
        check_arguments(item, path)
    if kind in _TEXT_OUTPUTS and item.get("output") is None:
        msg = f"{path}.output must be the output of the call, a text or a list of parts ('' if there is none), got None"
        raise InvalidItemError(msg)


def _read_message(item: JSON, path: str, images: media.ImageRule) -> Message:
    role = role_of(item, path, _ROLES)
    check_keys(item, path)
    info = Message(role, speaks=role != "system", extra=MESSAGE_FRAME)
    content = item.get("content")
    if not content:
        info.reject(EMPTY_CONTENT)
    _read_parts(content, info, f"{path}.content", images)
    return info


def _read_reasoning(item: JSON, path: str) -> Message:
    info = Message("assistant", opens_thinking=True, ends_thinking=True)
    for field in ("summary", "content"):
        info.texts += [str(part.get("text", "")) for part in objects(item.get(field), f"{path}.{field}")]
    info.extra = media.opaque_tokens(str(item.get("encrypted_content") or ""))
    return info


def _read_output(kind: str, item: JSON, path: str, images: media.ImageRule) -> Message:
    info = Message("tool", results=[f"{_ANSWERS[kind]}:{_call_id(item)}"], extra=CALL_FRAME)
    output = item.get("output", item.get("result"))
    if isinstance(output, str) or kind in _TEXT_OUTPUTS:
        _read_parts(output, info, f"{path}.output", images)
    elif "image_url" in fields(output):  # a computer's screenshot
        info.extra += images.openai(str(fields(output)["image_url"]), None)
    else:
        info.texts.append(_payload(item))
    return info


def _read_parts(content: Any, info: Message, path: str, images: media.ImageRule) -> None:
    if isinstance(content, str):
        info.texts.append(content)
        return
    for part in blocks(content, path):
        _read_part(part, info, images)


def _read_part(part: JSON, info: Message, images: media.ImageRule) -> None:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)} | {"refusal": str(text)}:
            info.texts.append(text)
            if not text:
                info.reject(EMPTY_CONTENT)
        case {"type": "input_image"}:
            info.extra += images.openai(str(part.get("image_url") or ""), part.get("detail"))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": form}}:
            info.extra += media.audio_tokens(data, form)
        case {"type": "input_file", "file_data": str(data)}:
            info.extra += media.file_tokens(data)
        case _:
            info.texts.append(compact_json(part))


def group(infos: Sequence[Message]) -> list[Unit]:
    """Group runs of model items with the results of their calls, and programs with theirs.

    A run is the model's output between two inputs. Reasoning and the items that it led to must be sent together, so a
    run that holds reasoning is sent whole or not at all; so is a program with every run that it made calls in.
    """
    infos = _without_repeated_ids(infos)
    answers = _pair(infos)
    answered = set(answers.values())
    units: list[Unit] = []
    position = 0
    while position < len(infos):
        if infos[position].role != "assistant":
            if position not in answered:
                units.append(unit_of([position], infos, NO_CALL if infos[position].results else None))
            position += 1
            continue
        end = position
        while end < len(infos) and infos[end].role == "assistant":
            end += 1
        units += _run(position, end, infos, answers)
        position = end
    units = _hold_programs(in_order(units), infos)
    forbid_repeated_calls(units, infos)
    _forbid_open_programs(units, infos, answers)
    return units


def _without_repeated_ids(infos: Sequence[Message]) -> list[Message]:
    """Items have unique ids: of two with the same id only the newest can be sent."""
    seen: set[str] = set()
    checked: list[Message] = []
    for info in reversed(infos):
        repeated = info.item_id in seen
        checked.append(replace(info, rejection=info.rejection or REPEATED_ID) if repeated else info)
        if info.item_id is not None:
            seen.add(info.item_id)
    return checked[::-1]


def _pair(infos: Sequence[Message]) -> dict[int, int]:
    """Return for each answered call its result's position: the nearest that asked, wherever it is."""
    open_calls: dict[str, list[int]] = {}
    answers: dict[int, int] = {}
    for position, info in enumerate(infos):
        if info.rejection is not None:
            continue
        for call in info.calls:
            open_calls.setdefault(call, []).append(position)
        for result in info.results:
            if open_calls.get(result):
                answers[open_calls[result].pop()] = position
    return answers


def _run(start: int, end: int, infos: Sequence[Message], answers: dict[int, int]) -> list[Unit]:
    units: list[Unit] = []
    while end > start and infos[end - 1].ends_thinking:
        end -= 1
        units.append(unit_of([end], infos, "reasoning without the item that must follow it"))
    unanswered = {at for at in range(start, end) if infos[at].calls and at not in answers}
    unanswered -= {at for at in unanswered if infos[at].begun}  # a program may go on with the next request
    whole = any(infos[at].opens_thinking for at in range(start, end))
    kept = [at for at in range(start, end) if whole or (at not in unanswered and infos[at].rejection is None)]
    if not whole:
        units += [
            unit_of([at], infos, NO_RESULT if at in unanswered else None) for at in range(start, end) if at not in kept
        ]
    if kept:
        results = [answers[at] for at in kept if at in answers]
        rejection = NO_RESULT if whole and unanswered else None
        units.append(unit_of(sorted([*kept, *results]), infos, rejection))
    return units


def _hold_programs(units: Sequence[Unit], infos: Sequence[Message]) -> list[Unit]:
    """Join the calls that a program made to the program."""
    holder = holders(units)
    programs: dict[str, int] = {}
    for position, info in enumerate(infos):
        programs |= dict.fromkeys(info.begun, position)
        for program in info.within:
            calling = holder[position]
            if program not in programs:
                calling.reject(NO_PROGRAM)
            elif (whole := holder[programs[program]]) is not calling:
                whole.absorb(calling, infos)
                holder |= dict.fromkeys(calling.positions, whole)
    return in_order(holder.values())


def _forbid_open_programs(units: Sequence[Unit], infos: Sequence[Message], answers: dict[int, int]) -> None:
    """Reject open programs, unless their calls were answered and nothing comes after them but the next request."""
    end = max((unit.positions[-1] for unit in units if unit.rejection is None and unit.role != "system"), default=-1)
    for unit in units:
        if all(at in answers for at in unit.positions if infos[at].begun):
            continue
        unit.waiting = unit.positions[-1] == end and infos[end].role == "tool"
        if not unit.waiting:
            unit.reject(NO_RESULT)


def change_texts(item: JSON, parts: Collection[str], form: Rewrite) -> JSON:
    """Return a copy of an item with other texts."""
    kind = str(item.get("type"))
    if kind.endswith("_call_output"):
        return {**item, "output": change_result(item.get("output"), parts, form)}
    if kind.endswith("_call") and "results" in parts:  # the provider's own tools answer in the call's item
        return {**item, **{key: change_strings(item[key], form) for key in _RESULTS if key in item}}
    return change_prose(item, parts, form)


def calls(item: JSON) -> list[tuple[str, Any]]:
    """Return the name and the arguments of a call, whoever answers it."""
    if not str(item.get("type")).endswith("_call"):
        return []
    arguments = next((item[key] for key in ("arguments", "input", "action", "code") if key in item), None)
    return [(str(item.get("name") or item["type"].removesuffix("_call")), arguments)]


def note_place(item: JSON) -> NotePlace | None:
    """Return where a note goes: into an output that can hold text, or a message of the user."""
    if item.get("role") == "user":
        return NotePlace(("content",), in_result=False)
    kind = str(item.get("type"))
    holds_text = kind in _TEXT_OUTPUTS or (kind.endswith("_call_output") and isinstance(item.get("output"), str))
    return NotePlace(("output",), in_result=True) if holds_text else None


def _recognises(item: JSON) -> bool:
    # The messages that Anthropic's API returns have a type too, and name their model.
    if "type" in item and not (item["type"] == "message" and "model" in item):
        return True
    content = item.get("content")
    return is_sequence(content) and any(fields(part).get("type") in RESPONSES_PARTS for part in content)


FORMAT: Final = Format(
    name="openai-responses",
    read=read,
    check=check,
    group=group,
    tool=lambda tool: {"type": "function", **tool, "strict": False},
    tool_tokens=tool_tokens,
    recognises=_recognises,
    recognises_tool=lambda tool: tool.get("type") == "function" and not {"function", "input_schema"} & tool.keys(),
    prices=Prices.automatic(),
    change_texts=change_texts,
    calls=calls,
    note_place=note_place,
    text_block=lambda text: {"type": "input_text", "text": text},
    mark=FieldMark(field=BREAKPOINT, text="input_text", blocks=frozenset(("input_text", "input_image", "input_file"))),
)
