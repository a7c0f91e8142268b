"""Anthropic messages: roles alternate, calls and results are blocks, the system prompt is a separate parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import wrong_type
from cupel.messages._formats import media
from cupel.messages._formats.chat import CHATS_PARTS, RESPONSES_PARTS, block_list, check_parts, refuse_chat, spoken_role
from cupel.messages._formats.format import Format, NotePlace
from cupel.messages._formats.marks import FieldMark
from cupel.messages._formats.server_tools import join_server_work, note_server_work
from cupel.messages._formats.texts import (
    Rewrite,
    change_content,
    change_result,
    change_text,
)
from cupel.messages._plain import JSON, blocks, check_keys, check_text, compact_json, fields, is_sequence, objects
from cupel.messages._prices import Prices
from cupel.messages._units import (
    EMPTY_CONTENT,
    NO_CALL,
    NO_RESULT,
    TWO_CALLS,
    Message,
    Role,
    Unit,
    forbid_repeated_calls,
    holders,
    unit_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from cupel.tokens import TokenCounter

CACHE_KEY: Final = "cache_control"
WORDS_BETWEEN = "words between the results of one turn"
LATE_COMPACTION = "a compaction block that is not the first of an assistant turn"
MESSAGE_FRAME = 4
CALL_FRAME = 12
"""Tokens around a call or a result: its markers and its id, rounded up."""
TOOLS_FRAME = 346
"""Tokens of the system prompt that Anthropic adds to a request with tools."""
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_THINKING = ("thinking", "redacted_thinking")
_BLOCKS = frozenset(
    (
        "compaction",
        "container_upload",
        "document",
        "image",
        "mcp_tool_use",
        "search_result",
        "server_tool_use",
        "tool_result",
        "tool_use",
        *_THINKING,
    )
)
"""Types of blocks that only this format has."""
_UNCOUNTED = frozenset(("type", "id", "tool_use_id", CACHE_KEY, "encrypted_content"))
MARK: Final = FieldMark(
    field={CACHE_KEY: {"type": "ephemeral"}}, text="text", refused=frozenset(_THINKING), needed=True
)


def read(message: JSON, path: str, images: media.ImageRule) -> Message:
    """Read one message."""
    role = spoken_role(message, path, _ROLES)
    check_keys(message, path)
    info = Message(role, speaks=role != "system", extra=MESSAGE_FRAME)
    content = message.get("content")
    if isinstance(content, str):
        add_text(content, info)
    else:
        _read_blocks(blocks(content, f"{path}.content"), info, f"{path}.content", images)
    if role == "user":
        info.speaks = isinstance(content, str) or len(info.results) < len(blocks(content, path))
        info.role = "tool" if info.results else "user"
    return info


def check(message: JSON, path: str) -> None:
    """Raise if a call or a result lacks what joins them, or the input of a call is no object."""
    refuse_chat(message, path)
    check_parts(message, path, CHATS_PARTS | RESPONSES_PARTS)
    for at, block in enumerate(block_list(message.get("content"))):
        given, place = fields(block), f"{path}.content[{at}]"
        if given.get("type") == "tool_use":
            check_text(given, "id", place, "an id, which the result of the call names")
            check_text(given, "name", place, "the name of a tool")
            if not isinstance(given.get("input", {}), dict):
                raise wrong_type(f"{place}.input", "an object", given["input"])
        elif given.get("type") == "tool_result":
            check_text(given, "tool_use_id", place, "the id of the call that it answers")


def _read_blocks(content: list[dict[str, Any]], info: Message, path: str, images: media.ImageRule) -> None:
    if not content:
        info.reject(EMPTY_CONTENT)
        return
    for index, block in enumerate(content):
        if block["type"] == "tool_result" and len(info.results) < index:
            info.reject("a tool result after other content")
        if block["type"] == "compaction":
            _add_compaction(block, index, info)
        _read_block(block, info, f"{path}[{index}]", images)
    info.opens_thinking = content[0]["type"] in _THINKING
    info.ends_thinking = content[-1]["type"] in _THINKING
    info.ends_blank = info.ends_blank and content[-1]["type"] == "text"


def _read_block(block: JSON, info: Message, path: str, images: media.ImageRule) -> None:
    note_server_work(block, info)
    match block:
        case {"type": "text", "text": str(text)}:
            add_text(text, info)
        case {"type": "image", "source": source}:
            info.extra += images.anthropic(fields(source).get("data"))
        case {"type": "document", "source": source}:
            _read_document(block, source, info, path, images)
        case {"type": "thinking", "thinking": str(text)}:
            info.texts.append(text)
            info.extra += media.hidden_tokens(block.get("signature"), text)
            if not block.get("signature"):
                info.reject("a thinking block without its signature")
        case {"type": "redacted_thinking", "data": str(data)}:
            info.extra += media.opaque_tokens(data)
        case {"type": "tool_use", "id": str(call), "name": str(name)}:
            add_call(call, name, block.get("input"), info)
        case {"type": "tool_result", "tool_use_id": str(call)}:
            add_result(call, info)
            _read_result(block.get("content"), info, path, images)
        case {"type": "search_result", "content": parts}:
            info.texts += [str(block.get("source", "")), str(block.get("title", ""))]
            info.texts += [str(part.get("text", "")) for part in objects(parts, f"{path}.content")]
        case _:
            info.texts.append(compact_json({k: v for k, v in block.items() if k not in _UNCOUNTED}))


def _add_compaction(block: JSON, index: int, info: Message) -> None:
    if index or info.role != "assistant":
        info.reject(LATE_COMPACTION)
    info.is_compaction = info.is_compaction or block.get("content") is not None


def add_text(text: str, info: Message) -> None:
    """Note a text block; a blank one cannot be sent."""
    info.texts.append(text)
    info.ends_blank = text[-1:].isspace()
    if not text.strip():
        info.reject(EMPTY_CONTENT)


def add_call(call: str, name: str, arguments: object, info: Message) -> None:
    """Note a call."""
    if info.role != "assistant":
        info.reject(f"a tool call in a message of role {info.role}")
    if call in info.calls:
        info.reject(TWO_CALLS)
    info.calls.append(call)
    info.tools.append(name)
    info.arguments.append(compact_json(arguments))
    info.texts += [name, info.arguments[-1]]
    info.extra += CALL_FRAME


def add_result(call: str, info: Message) -> None:
    """Note the result of a call."""
    if info.role != "user":
        info.reject(f"a tool result in a message of role {info.role}")
    if call in info.results:
        info.reject("two results for one call")
    info.results.append(call)
    info.extra += CALL_FRAME


def _read_result(content: Any, info: Message, path: str, images: media.ImageRule) -> None:
    if isinstance(content, str):
        info.texts.append(content)
        return
    for index, block in enumerate(blocks(content, f"{path}.content")):
        _read_block(block, info, f"{path}.content[{index}]", images)


def _read_document(block: JSON, source: Any, info: Message, path: str, images: media.ImageRule) -> None:
    info.texts += [str(block[field]) for field in ("title", "context") if block.get(field)]
    match source:
        case {"type": "text", "data": str(text)}:
            info.texts.append(text)
        case {"type": "content", "content": str(text)}:
            info.texts.append(text)
        case {"type": "content", "content": parts}:
            for inner in blocks(parts, f"{path}.source.content"):
                _read_block(inner, info, f"{path}.source.content", images)
        case {"type": "base64", "data": str(data)}:
            info.extra += media.file_tokens(data)
        case _:
            info.extra += media.file_tokens("")


def group(infos: Sequence[Message]) -> list[Unit]:
    """Group assistant turns with the results of their calls, and the whole work of a server tool."""
    units = join_server_work(turns(infos, _pairing), infos)
    forbid_repeated_calls(units, infos)
    _forbid_blank_end(units, infos)
    _place_system(units, infos)
    return units


def turns(
    infos: Sequence[Message], pairing: Callable[[Sequence[Message], Sequence[Message]], str | None]
) -> list[Unit]:
    """Group the assistant's messages in a row with the results after them; `pairing` says why these do not match."""
    units: list[Unit] = []
    position = 0
    while position < len(infos):
        start = position
        if infos[start].role != "assistant":
            units.append(unit_of([start], infos, NO_CALL if infos[start].role == "tool" else None))
            position += 1
            continue
        # The provider joins neighbours of one role, so a run of assistant messages is one turn.
        while position < len(infos) and infos[position].role == "assistant":
            position += 1
        end = position
        calls = any(info.calls for info in infos[start:end])
        while calls and position < len(infos) and infos[position].role == "tool":
            position += 1
        rejection = pairing(infos[start:end], infos[end:position])
        if any(info.speaks for info in infos[end : position - 1]):
            rejection = rejection or WORDS_BETWEEN
        units.append(unit_of(list(range(start, position)), infos, rejection))
    return units


def _pairing(spoken: Sequence[Message], answers: Sequence[Message]) -> str | None:
    calls = [call for info in spoken for call in info.calls]
    results = [result for info in answers for result in info.results]
    if len(set(calls)) < len(calls):
        return TWO_CALLS
    if len(set(results)) < len(results):
        return "two results for one call"
    if set(calls) - set(results):
        return NO_RESULT
    if set(results) - set(calls):
        return NO_CALL
    if spoken[-1].ends_thinking:
        return "thinking without the block that must follow it"
    return LATE_COMPACTION if any(info.is_compaction for info in spoken[1:]) else None


def _forbid_blank_end(units: Sequence[Unit], infos: Sequence[Message]) -> None:
    """Reject a blank end: a final assistant message is continued by the model and must not end in white space."""
    if units and units[-1].closes == "assistant" and infos[-1].ends_blank:
        units[-1].reject("a final assistant text that ends in white space")


def _place_system(units: Sequence[Unit], infos: Sequence[Message]) -> None:
    """Note a system message's neighbours: it must follow a user turn, and precede an assistant turn or the end."""
    holder = holders(units)
    end = max((position for position, unit in holder.items() if unit.rejection is None), default=-1)
    for position, info in enumerate(infos):
        unit = holder[position]
        if info.role != "system" or unit.rejection:
            continue
        last = position >= end
        if position == 0 or infos[position - 1].role not in ("user", "tool"):
            unit.reject("a system message that follows no user turn")
        elif not last and infos[position + 1].role != "assistant":
            unit.reject("a system message that precedes no assistant turn")
        unit.requires = (position - 1,) if last else (position - 1, position + 1)


def tool_tokens(tools: Sequence[Any], counter: TokenCounter) -> int:
    """Return the tokens of tools in Anthropic's format: their schemas as JSON, and the prompt that it adds."""
    return schema_tokens(tools, counter) + TOOLS_FRAME


def schema_tokens(tools: Sequence[Any], counter: TokenCounter) -> int:
    """Return the tokens of tools whose provider is unknown: their schemas as JSON."""
    return counter.count(compact_json(tools))


def change_texts(message: JSON, parts: Collection[str], form: Rewrite) -> JSON:
    """Return a copy of a message with other texts."""
    content = message.get("content")
    spoken = form if "prose" in parts and message.get("role") in ("user", "assistant") else None
    if not is_sequence(content):
        return {**message, "content": change_content(content, spoken)}
    # Thinking is bound to what the provider's own tools answered before it in the same message.
    free = 1 + max((at for at, block in enumerate(content) if fields(block).get("type") in _THINKING), default=-1)
    changed = [_change_block(block, parts, form, spoken, own=at >= free) for at, block in enumerate(content)]
    return {**message, "content": changed}


def _change_block(block: Any, parts: Collection[str], form: Rewrite, spoken: Rewrite | None, *, own: bool) -> Any:
    match block:
        case {"type": "tool_result", "content": content}:
            return {**block, "content": change_result(content, parts, form)}
        case {"type": str(kind), "content": content} if own and "results" in parts and kind.endswith("_tool_result"):
            return {**block, "content": change_result(content, parts, form)}
        case _:
            return block if spoken is None else change_text(block, spoken)


def without_thinking(message: JSON) -> JSON:
    """Return a message without its blocks of thinking; itself, if it has none."""
    content = block_list(message.get("content"))
    kept = [block for block in content if fields(block).get("type") not in _THINKING]
    return message if len(kept) == len(content) else {**message, "content": kept}


def calls(message: JSON) -> list[tuple[str, Any]]:
    """Return the name and the arguments of each call, server tools too."""
    found = [fields(block) for block in block_list(message.get("content"))]
    return [
        (str(block.get("name") or "tool"), block.get("input"))
        for block in found
        if str(block.get("type")).endswith("tool_use")
    ]


def note_place(message: JSON) -> NotePlace | None:
    """Return where a note goes: into the first result, or else into a message of the user."""
    if message.get("role") != "user":
        return None
    blocks = block_list(message.get("content"))
    in_result = bool(blocks) and fields(blocks[0]).get("type") == "tool_result"
    return NotePlace(("content", 0, "content") if in_result else ("content",), in_result)


def _recognises(message: JSON) -> bool:
    content = message.get("content")
    kinds = [str(fields(part).get("type")) for part in content] if is_sequence(content) else []
    return any(kind in _BLOCKS or kind.endswith("_tool_result") for kind in kinds)


FORMAT: Final = Format(
    name="anthropic",
    read=read,
    check=check,
    group=group,
    tool=lambda tool: {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]},
    tool_tokens=tool_tokens,
    recognises=_recognises,
    recognises_tool=lambda tool: "input_schema" in tool,
    prices=Prices.marked(),
    change_texts=change_texts,
    calls=calls,
    note_place=note_place,
    strict_ends=True,
    without_thinking=without_thinking,
    thinking_opens_loops=True,
    results_are_user=True,
    mark=MARK,
)
