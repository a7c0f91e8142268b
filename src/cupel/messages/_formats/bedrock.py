"""Bedrock's Converse: Anthropic's rules in other words; a block is an object with one key, which names its kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import shown, wrong_type
from cupel.errors import InvalidItemError
from cupel.messages._formats import anthropic, media
from cupel.messages._formats.anthropic import add_call, add_result, add_text
from cupel.messages._formats.chat import block_list, check_content, spoken_role
from cupel.messages._formats.format import Format, NotePlace
from cupel.messages._formats.texts import Rewrite, change_object, change_result
from cupel.messages._plain import (
    JSON,
    check_keys,
    check_text,
    compact_json,
    fields,
    has_models,
    is_sequence,
    objects,
    plain,
)
from cupel.messages._prices import Prices
from cupel.messages._units import EMPTY_CONTENT, Message, Role

if TYPE_CHECKING:
    from collections.abc import Collection

CACHE_POINT: Final = "cachePoint"
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_THINKING = "reasoningContent"
_BLOCKS = frozenset(
    (
        "audio",
        "citationsContent",
        "document",
        "guardContent",
        "image",
        "searchResult",
        "text",
        "toolResult",
        "toolUse",
        "video",
        CACHE_POINT,
        _THINKING,
    )
)
_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")


def read(message: JSON, path: str, images: media.ImageRule) -> Message:
    """Read one message."""
    role = spoken_role(message, path, _ROLES)
    check_keys(message, path)
    info = Message(role, speaks=True, extra=anthropic.MESSAGE_FRAME)
    content = message.get("content")
    if isinstance(content, str):
        raise wrong_type(f"{path}.content", "a list of blocks such as {'text': …}", content)
    blocks = [_only_key(block, f"{path}.content[{at}]") for at, block in enumerate(objects(content, f"{path}.content"))]
    kinds = [kind for kind, _ in blocks]
    before = ""
    for at, (kind, value) in enumerate(blocks):
        if kind == "toolResult" and len(info.results) < at:
            info.reject("a tool result after other content")
        if kind == CACHE_POINT and before in ("", CACHE_POINT):
            info.reject("a cachePoint that follows no other block")
        _read_block(kind, value, info, f"{path}.content[{at}].{kind}", images)
        before = kind
    _check_kinds(kinds, info)
    return info


def _check_kinds(kinds: list[str], info: Message) -> None:
    said = [kind for kind in kinds if kind != CACHE_POINT]
    if not said:
        info.reject(EMPTY_CONTENT)
        return
    if "document" in said and "text" not in said:
        info.reject("a document without a text block in its message")
    info.opens_thinking, info.ends_thinking = said[0] == _THINKING, said[-1] == _THINKING
    info.ends_blank = info.ends_blank and said[-1] == "text"
    if info.role == "user":
        info.speaks = len(info.results) < len(said)
        info.role = "tool" if info.results else "user"


def _only_key(block: JSON, path: str) -> tuple[str, Any]:
    if len(block) != 1:
        msg = f"{path} must have one key that names its kind, as Bedrock's blocks do, got {shown(sorted(block))}"
        raise InvalidItemError(msg)
    return next(iter(block.items()))


def _read_block(kind: str, value: Any, info: Message, path: str, images: media.ImageRule) -> None:
    match kind, value:
        case "text", _:
            check_text({"text": value}, "text", path.removesuffix(".text"))
            add_text(value, info)
        case "image", {"source": source}:
            info.extra += images.anthropic(fields(source).get("bytes"))
        case "document", {"source": source}:
            _read_document(value, fields(source), info, path)
        case (("audio" | "video"), {"source": source}):
            info.extra += media.recording_tokens(fields(source).get("bytes"))
        case "toolUse", _:
            use = _checked(value, path)
            check_text(use, "name", path, "the name of a tool")
            if not isinstance(use.get("input"), dict):
                raise wrong_type(f"{path}.input", "an object", use.get("input"))
            add_call(use["toolUseId"], use["name"], use["input"], info)
        case "toolResult", _:
            result = _checked(value, path)
            add_result(result["toolUseId"], info)
            results = objects(result.get("content"), f"{path}.content")
            if not results:
                info.reject(EMPTY_CONTENT)
            for at, inner in enumerate(results):
                _read_block(*_only_key(inner, f"{path}.content[{at}]"), info, f"{path}.content[{at}]", images)
        case "reasoningContent", {"reasoningText": {"text": str(text), **rest}}:
            info.texts.append(text)
            info.extra += media.hidden_tokens(rest.get("signature"), text)
        case "reasoningContent", {"redactedContent": data}:
            info.extra += media.opaque_tokens(_bytes(data, f"{path}.redactedContent"))
        case _:
            info.texts += [] if kind == CACHE_POINT else [compact_json(value)]


def _checked(value: Any, path: str) -> dict[str, Any]:
    """Return a call or a result, whose ids join them."""
    check_text(fields(value), "toolUseId", path, "an id, the same in a call and its result")
    if not _ID.fullmatch(value["toolUseId"]):
        msg = f"{path}.toolUseId must be 1 to 64 of a-z A-Z 0-9 _ . : -, got {shown(value['toolUseId'])}; rename it"
        raise InvalidItemError(msg)
    return fields(value)


def _read_document(document: JSON, source: JSON, info: Message, path: str) -> None:
    info.texts += [str(document[field]) for field in ("name", "context") if document.get(field)]
    if "text" in source:
        info.texts.append(str(source["text"]))
    elif "content" in source:
        info.texts.append(compact_json(source["content"]))
    else:
        info.extra += media.file_tokens(_bytes(source.get("bytes", b""), f"{path}.source.bytes"))


def _bytes(value: object, path: str) -> str | bytes:
    if not isinstance(value, (str, bytes)):
        raise wrong_type(path, "bytes", value)
    return value


def change_texts(message: JSON, parts: Collection[str], form: Rewrite) -> JSON:
    """Return a copy of a message with other texts; a result that is an object becomes a text if it changes."""
    spoken = "prose" in parts and message.get("role") in ("user", "assistant")
    content = block_list(message.get("content"))
    return {**message, "content": [_change_block(block, parts, form, spoken=spoken) for block in content]}


def _change_block(block: Any, parts: Collection[str], form: Rewrite, *, spoken: bool) -> Any:
    match block:
        case {"toolResult": {"content": content} as result} if "outputs" in parts and is_sequence(content):
            return {"toolResult": {**fields(result), "content": [_change_result(inner, form) for inner in content]}}
        case {"toolResult": result} if "results" in parts:
            return {
                "toolResult": {**fields(result), "content": change_result(fields(result).get("content"), parts, form)}
            }
        case {"text": str(text)} if spoken:
            return {"text": form(text)}
        case _:
            return block


def _change_result(block: Any, form: Rewrite) -> Any:
    match block:
        case {"text": str(text)}:
            return {"text": form(text)}
        case {"json": value}:
            return change_object(value, form, {"json": value}, lambda text: {"text": text})
        case _:
            return block


def _without_thinking(message: JSON) -> JSON:
    content = block_list(message.get("content"))
    kept = [block for block in content if _THINKING not in fields(block)]
    return message if len(kept) == len(content) else {**message, "content": kept}


def _calls(message: JSON) -> list[tuple[str, Any]]:
    uses = [fields(fields(block).get("toolUse")) for block in block_list(message.get("content"))]
    return [(str(use.get("name") or "tool"), use.get("input")) for use in uses if use]


def _note_place(message: JSON) -> NotePlace | None:
    if message.get("role") != "user":
        return None
    blocks = block_list(message.get("content"))
    in_result = bool(blocks) and "toolResult" in fields(blocks[0])
    return NotePlace(("content", 0, "toolResult", "content") if in_result else ("content",), in_result)


class _CachePoint:
    """The cache breakpoint: a block after those that it caches."""

    @property
    def needed(self) -> bool:
        """Whether nothing is cached without breakpoints."""
        return True

    def marked(self, message: Any, *, here: bool) -> Any:
        """Return a message with a breakpoint at its end, if it belongs `here`, and no other."""
        content = block_list(fields(message).get("content"))
        kept = [block for block in content if CACHE_POINT not in fields(block)]
        if here and kept and _THINKING not in fields(kept[-1]):
            return {**message, "content": [*kept, {CACHE_POINT: {"type": "default"}}]}
        return message if len(kept) == len(content) else {**message, "content": kept}


MARK: Final = _CachePoint()


def _sendable(message: Any, view: JSON | None, path: str) -> Any:
    if view is not None:
        return view
    return plain(message, path) if has_models(message) else message


def _join(message: Any, other: Any, *, alternate: bool) -> Any:  # noqa: ARG001  (the roles always alternate)
    before, after = fields(message), fields(other)
    if before.get("role") != after.get("role"):
        return None
    return {**before, "content": [*block_list(before.get("content")), *block_list(after.get("content"))]}


def _recognises(message: JSON) -> bool:
    blocks = [fields(block) for block in block_list(message.get("content"))]
    return any("type" not in block and len(_BLOCKS & block.keys()) == 1 for block in blocks)


FORMAT: Final = Format(
    name="bedrock",
    read=read,
    check=check_content,
    group=anthropic.group,
    tool=lambda tool: {
        "toolSpec": {
            "name": tool["name"],
            "description": tool["description"],
            "inputSchema": {"json": tool["parameters"]},
        }
    },
    tool_tokens=anthropic.tool_tokens,
    recognises=_recognises,
    recognises_tool=lambda tool: not tool.keys().isdisjoint(("toolSpec", "systemTool")),
    prices=Prices.marked(),
    change_texts=change_texts,
    calls=_calls,
    note_place=_note_place,
    text_block=lambda text: {"text": text},
    user_message=lambda text: {"role": "user", "content": [{"text": text}]},
    canonical=lambda message: MARK.marked(message, here=False),
    sendable=_sendable,
    join=_join,
    mark=MARK,
    strict_ends=True,
    without_thinking=_without_thinking,
    thinking_opens_loops=True,
    results_are_user=True,
    has_bytes=True,
    needs_tools=True,
)
