"""Gemini's generateContent: contents of user and model; calls and results are parts, matched by place and name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from cupel._internal.checks import wrong_type
from cupel.messages._formats import anthropic, media
from cupel.messages._formats.chat import LONGEST_WORDS, block_list, spoken_role
from cupel.messages._formats.format import Format, NotePlace
from cupel.messages._formats.texts import Rewrite, change_object, change_result
from cupel.messages._plain import (
    JSON,
    check_keys,
    check_text,
    compact_json,
    fields,
    is_model,
    is_sequence,
    objects,
    plain_message,
)
from cupel.messages._prices import Prices
from cupel.messages._units import EMPTY_CONTENT, NO_CALL, NO_RESULT, Message, Role, Unit

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

OUT_OF_ORDER = "results in another order than their calls"
_ROLES: dict[str, Role] = {"user": "user", "model": "assistant"}
_FREE = frozenset(("args", "response"))
"""Fields whose keys are the caller's own."""
_TEXT_KEYS = ("output", "result", "error")
"""Under which a tool's answer is a text, if it is the only key."""
_TOOLS = frozenset(("codeExecution", "computerUse", "functionDeclarations", "googleMaps", "googleSearch", "urlContext"))
_UNDERSCORE = re.compile(r"_([a-z0-9])")


def normal(message: JSON) -> JSON:
    """Return a content with its role, without empty texts, and with the API's names of fields: the SDK takes others."""
    content = {"role": "user", **_camel(message)}
    if any(map(_is_empty, block_list(content.get("parts")))):
        content["parts"] = [part for part in content["parts"] if not _is_empty(part)]
    return content


def _is_empty(part: Any) -> bool:
    """Return whether a part is an empty text; one may carry a signature."""
    return _field(part, "text") == "" and not _field(part, "thoughtSignature", "thought_signature")


def _camel(value: Any) -> Any:
    if is_sequence(value):
        return [_camel(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    names = {key: _UNDERSCORE.sub(lambda match: match[1].upper(), key) for key in fields(value)}  # pyright: ignore[reportUnknownArgumentType]
    entries = [(names[key], inner) for key, inner in fields(value).items() if inner is not None]  # pyright: ignore[reportUnknownArgumentType]
    return {name: inner if name in _FREE else _camel(inner) for name, inner in entries}


def read(message: JSON, path: str, images: media.ImageRule) -> Message:
    """Read one content."""
    info = Message(spoken_role(message, path, _ROLES), speaks=True, extra=anthropic.MESSAGE_FRAME)
    check_keys(message, path, "parts")
    parts = objects(message.get("parts"), f"{path}.parts")
    if not parts:
        info.reject(EMPTY_CONTENT)
    for at, part in enumerate(parts):
        if "functionResponse" in part and len(info.results) < at:
            info.reject("a tool result after other content")
        _read_part(part, info, f"{path}.parts[{at}]", images)
    if info.results:
        info.speaks = len(info.results) < len(parts)
        info.role = "tool"
    return info


def _read_part(part: JSON, info: Message, path: str, images: media.ImageRule) -> None:
    for key, field in (("functionCall", "args"), ("functionResponse", "response")):
        if key in part:
            _check_function(fields(part[key]), field, f"{path}.{key}")
    info.extra += media.hidden_tokens(
        part.get("thoughtSignature"), str(part.get("text", "")) if part.get("thought") else ""
    )
    match part:
        case {"functionCall": {"name": str(name), **call}}:
            if info.role != "assistant":
                info.reject(f"a call in a content of role {info.role}")
            info.calls.append(name)
            info.call_ids.append(_id(fields(call)))
            info.tools.append(name)
            info.arguments.append(compact_json(call.get("args", {})))
            info.texts += [name, info.arguments[-1]]
            info.extra += anthropic.CALL_FRAME
        case {"functionResponse": {"name": str(name), "response": response, **rest}}:
            if info.role != "user":
                info.reject("a tool result in a content of role model")
            info.results.append(name)
            info.call_ids.append(_id(fields(rest)))
            info.texts += [name, _output(fields(response))]
            info.extra += anthropic.CALL_FRAME
            for inner in block_list(rest.get("parts")):
                _read_media(fields(inner), info, images, f"{path}.functionResponse.parts")
        case {"text": text}:
            check_text(part, "text", path)
            info.texts.append(text)
        case _:
            _read_media(part, info, images, path)


def _check_function(body: JSON, field: str, path: str) -> None:
    check_text(body, "name", path, "the name of a function")
    if not isinstance(body.get(field, {} if field == "args" else None), dict):
        raise wrong_type(f"{path}.{field}", "an object", body.get(field))


def _id(part: JSON) -> str | None:
    return None if part.get("id") is None else str(part["id"])


def _read_media(part: JSON, info: Message, images: media.ImageRule, path: str) -> None:
    blob = fields(part.get("inlineData") or part.get("fileData"))
    kind, data = str(blob.get("mimeType")), blob.get("data", "")
    if not isinstance(data, (str, bytes)):
        raise wrong_type(f"{path}.inlineData.data", "bytes, or their base64", data)
    if not part:
        info.reject(EMPTY_CONTENT)
    elif not blob:
        info.texts.append(compact_json({key: value for key, value in part.items() if key != "thoughtSignature"}))
    elif kind.startswith("image/"):
        info.extra += images.gemini(data or None)
    else:
        count = media.recording_tokens if kind.startswith(("audio/", "video/")) else media.file_tokens
        info.extra += count(data)


def group(infos: Sequence[Message]) -> list[Unit]:
    """Group the model's contents in a row with the results of their calls."""
    return anthropic.turns(infos, _pairing)


def _pairing(spoken: Sequence[Message], answers: Sequence[Message]) -> str | None:
    """Return why calls and results do not match: one result for each call, in their order, before other parts."""
    calls = [(name, key) for info in spoken for name, key in zip(info.calls, info.call_ids, strict=True)]
    results = [(name, key) for info in answers for name, key in zip(info.results, info.call_ids, strict=True)]
    if len(results) < len(calls):
        return NO_RESULT
    if len(calls) == len(results) and all(map(_belongs, calls, results)):
        return None
    return OUT_OF_ORDER if sorted(map(str, calls)) == sorted(map(str, results)) else NO_CALL


def _belongs(call: tuple[str, str | None], result: tuple[str, str | None]) -> bool:
    return call[0] == result[0] and (None in (call[1], result[1]) or call[1] == result[1])


def _text_key(response: JSON) -> str | None:
    match list(response.items()):
        case [(key, str())] if key in _TEXT_KEYS:
            return key
        case _:
            return None


def _output(response: JSON) -> str:
    texts = [value for value in response.values() if isinstance(value, str)]
    return compact_json(response) if len(texts) < len(response) else "\n".join(texts)


def change_texts(message: JSON, parts: Collection[str], form: Rewrite) -> JSON:
    """Return a copy of a content with other texts; an answer that is more than a text becomes one if it changes."""
    return {**message, "parts": [_change_part(part, parts, form) for part in block_list(message.get("parts"))]}


def _change_part(part: Any, parts: Collection[str], form: Rewrite) -> Any:
    match part:
        case {"functionResponse": {"response": response} as answer} if "outputs" in parts:
            body = fields(response)
            key = _text_key(body)
            if key is None:
                changed = change_object(body, form, body, lambda text: {"output": text})
            else:
                changed = {key: form(body[key])}
            return {**part, "functionResponse": {**fields(answer), "response": changed}}
        case {"functionResponse": answer} if "results" in parts:
            given = fields(answer)
            return {
                **part,
                "functionResponse": {**given, "response": change_result(given.get("response"), parts, form)},
            }
        case {"codeExecutionResult": ran} if "results" in parts and not part.get("thoughtSignature"):
            return {**part, "codeExecutionResult": change_result(ran, parts, form)}
        case {"text": str(text)} if "prose" in parts and not part.get("thought"):
            return {**part, "text": form(text)}
        case _:
            return part


def _calls(message: JSON) -> list[tuple[str, Any]]:
    parts = [fields(part) for part in block_list(message.get("parts"))]
    found = [fields(part.get("functionCall") or part.get("toolCall")) for part in parts]
    return [(str(call.get("name") or call.get("toolType") or "tool"), call.get("args")) for call in found if call]


def _note_place(message: JSON) -> NotePlace | None:
    if message.get("role", "user") != "user":
        return None
    parts = block_list(message.get("parts"))
    in_result = bool(parts) and "functionResponse" in fields(parts[0])
    return NotePlace(("parts", 0, "functionResponse", "response") if in_result else ("parts",), in_result)


def _said(message: JSON) -> tuple[str, str]:
    parts = [fields(part) for part in block_list(message.get("parts"))]
    words = [str(part.get("text") or "")[:LONGEST_WORDS] for part in parts if not part.get("thought")]
    return _ROLES.get(str(message.get("role")), "user"), " ".join(words)


def _sendable(message: Any, view: JSON | None, path: str) -> Any:
    """Return the content itself, or a changed copy of the same class."""
    if view is None and any(map(_is_empty, block_list(_field(message, "parts")))):
        view = normal(plain_message(message, path))
    if view is None:
        return message
    return _like(view, message)


def _like(view: JSON, *contents: object) -> Any:
    """Return a content as an object of the SDK, if one of some contents is."""
    model = next((one.__class__ for one in contents if is_model(one)), None)
    return view if model is None else cast("Any", model).model_validate(view)


def _split(message: Any) -> Sequence[Any]:
    """Return words beside results as a second content: Gemini reads them as the model's."""
    parts = block_list(_field(message, "parts"))
    answers = [part for part in parts if _is_answer(part)]
    if not answers or len(answers) == len(parts):
        return (message,)
    words = [part for part in parts if not _is_answer(part)]
    return [_like({"role": "user", "parts": some}, message) for some in (answers, words)]


def _is_answer(part: Any) -> bool:
    return _field(part, "functionResponse", "function_response") is not None


def _join(message: Any, other: Any, *, alternate: bool) -> Any:
    """Return two contents of the model as one, two that hold results, or two of the user that must be one."""
    role = _field(message, "role") or "user"
    if role != (_field(other, "role") or "user"):
        return None
    parts = [block_list(_field(message, "parts")), block_list(_field(other, "parts"))]
    answers = [any(map(_is_answer, some)) for some in parts]
    if role == "user" and not all(answers) and (any(answers) or not alternate):
        return None
    return _like({"role": role, "parts": [*parts[0], *parts[1]]}, message, other)


def _field(value: Any, *names: str) -> Any:
    """Return a field of an SDK's object or of a dict, under the first name that it has."""
    entries = fields(value)
    found = (entries.get(name, getattr(value, name, None)) for name in names)
    return next((one for one in found if one is not None), None)


def _recognises(message: JSON) -> bool:
    return "content" not in message and (is_sequence(message.get("parts")) or message.get("role") == "model")


FORMAT: Final = Format(
    name="gemini",
    read=read,
    group=group,
    tool=lambda tool: {"functionDeclarations": [tool]},
    tool_tokens=anthropic.schema_tokens,
    recognises=_recognises,
    recognises_tool=lambda tool: not _TOOLS.isdisjoint(_camel(tool)),
    prices=Prices.automatic(minimum=4096, step=1),
    change_texts=change_texts,
    calls=_calls,
    note_place=_note_place,
    said=_said,
    text_block=lambda text: {"text": text},
    user_message=lambda text: {"role": "user", "parts": [{"text": text}]},
    normal=normal,
    canonical=normal,
    sendable=_sendable,
    split=_split,
    join=_join,
    strict_ends=True,
    ends_with_user=True,
    results_are_user=True,
    has_bytes=True,
    needs_results=True,
)
