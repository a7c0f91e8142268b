"""OpenAI chat completions: a list of role messages; results are separate messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import wrong_type
from cupel.errors import InvalidItemError
from cupel.messages._formats import anthropic, media
from cupel.messages._formats.chat import (
    CHATS_FIELDS,
    CHATS_PARTS,
    CLAUDES_PARTS,
    RESPONSES_PARTS,
    block_list,
    check_parts,
)
from cupel.messages._formats.format import Format, NotePlace
from cupel.messages._formats.marks import FieldMark
from cupel.messages._formats.server_tools import join_server_work, note_server_work
from cupel.messages._formats.texts import Rewrite, change_prose, change_result
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
from cupel.messages._units import EMPTY_CONTENT, NO_CALL, NO_RESULT, TWO_CALLS, Message, Role, Unit, unit_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cupel.tokens import TokenCounter

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
_BLOCKS: Final = "thinking_blocks"
"""Where a gateway keeps the signed thinking of Claude."""
_HIDDEN = (_BLOCKS, "reasoning_details")
"""Where gateways keep reasoning with its signatures."""
BREAKPOINT: Final = {"prompt_cache_breakpoint": {"mode": "explicit"}}
_FIELDS = (*CHATS_FIELDS, "refusal")
"""Fields of messages that only this format has."""


def read(message: JSON, path: str, images: media.ImageRule) -> Message:
    """Read one chat-completions message."""
    role = role_of(message, path, _ROLES)
    check_keys(message, path)
    info = Message(role, speaks=role in ("user", "assistant"), extra=MESSAGE_FRAME)
    if name := message.get("name"):
        info.texts.append(str(name))
        info.extra += NAME_FRAME
    _read_calls(message, info, path)
    _read_result(message, info)
    _read_content(message, info, path, images)
    return info


def check(message: JSON, path: str) -> None:
    """Raise if a message holds Anthropic's calls or results, or lacks what joins a call and its result."""
    refuse_anthropic(message, path)
    check_parts(message, path, CLAUDES_PARTS | RESPONSES_PARTS)
    if message.get("role") == "tool":
        check_text(message, "tool_call_id", path, "the id of the call that it answers")
    if message.get("role") in ("tool", "function") and message.get("content") is None:
        msg = (
            f"{path}.content must be the output of the call, a text or a list of parts ('' if there is none), got None"
        )
        raise InvalidItemError(msg)
    for at, call in enumerate(objects(message.get("tool_calls"), f"{path}.tool_calls")):
        place = f"{path}.tool_calls[{at}]"
        check_text(call, "id", place, "an id, which the result of the call names")
        if "function" in call:
            check_text(fields(call["function"]), "name", f"{place}.function", "the name of a function")
        check_arguments(fields(call.get("function")), f"{place}.function")
    check_arguments(fields(message.get("function_call")), f"{path}.function_call")


def refuse_anthropic(message: JSON, path: str) -> None:
    """Raise if the content of a message holds calls or results as Anthropic's messages do."""
    for at, block in enumerate(block_list(message.get("content"))):
        if (kind := fields(block).get("type")) in ("tool_result", "tool_use"):
            msg = f"{path}.content[{at}] is Anthropic's {kind}: pass provider='anthropic', or convert the message"
            raise InvalidItemError(msg)


def check_arguments(call: JSON, path: str) -> None:
    """Raise if the arguments of a call are no text."""
    if not isinstance(call.get("arguments", ""), str):
        raise wrong_type(f"{path}.arguments", "JSON as a text (json.dumps makes one)", call["arguments"])


def _read_calls(message: JSON, info: Message, path: str) -> None:
    for call in objects(message.get("tool_calls"), f"{path}.tool_calls"):
        _add_call(info, str(call.get("id")), call.get("function") or call.get("custom"))
    if function := message.get("function_call"):
        if not (body := fields(function)):
            raise wrong_type(f"{path}.function_call", "an object", function)
        _add_call(info, f"function:{body.get('name')}", body)
    if len(set(info.calls)) < len(info.calls):
        info.reject(TWO_CALLS)
    if info.calls and info.role != "assistant":
        info.reject(f"tool calls in a message of role {message.get('role')}")


def _add_call(info: Message, call: str, body: Any) -> None:
    match body:
        case {"name": str(name), "arguments": arguments} | {"name": str(name), "input": arguments}:
            info.tools.append(name)
            info.arguments.append(arguments if isinstance(arguments, str) else compact_json(arguments))
            info.texts += [name, info.arguments[-1]]
        case _:
            info.arguments.append(compact_json(body))
            info.texts.append(info.arguments[-1])
    info.calls.append(call)
    info.extra += CALL_FRAME


def _read_result(message: JSON, info: Message) -> None:
    if message.get("role") == "tool":
        info.results.append(str(message.get("tool_call_id")))
    elif message.get("role") == "function":
        info.results.append(f"function:{message.get('name')}")


def _read_content(message: JSON, info: Message, path: str, images: media.ImageRule) -> None:
    content, refusal, audio = (message.get(field) for field in ("content", "refusal", "audio"))
    if refusal:
        info.texts.append(str(refusal))
    # Spoken output goes back as an id; its transcript is the best measure.
    info.texts.append(str(fields(audio).get("transcript", "")))
    for hidden in _REASONING:
        if isinstance(message.get(hidden), str):
            info.texts.append(message[hidden])
            info.opens_thinking = info.opens_thinking or bool(message[hidden])
    info.extra += _hidden_tokens(message)
    if isinstance(content, str):
        info.texts.append(content)
        if not content and not (info.calls or info.results or refusal):
            info.reject(EMPTY_CONTENT)
    elif content is None:
        if info.role != "assistant" or not (info.calls or refusal or audio):
            info.reject(EMPTY_CONTENT)
    else:
        parts = blocks(content, f"{path}.content")
        if not parts:
            info.reject(EMPTY_CONTENT)
        elif parts[0]["type"] in _THINKING:
            info.opens_thinking = True
        for part in parts:
            _read_part(part, info, images)


def _hidden_tokens(message: JSON) -> int:
    """Return the tokens of reasoning that gateways keep beside the content, beyond those that the message shows."""
    shown = sum(len(str(message.get(field) or "")) for field in _REASONING) // 4
    blocks = [fields(block) for field in _HIDDEN for block in block_list(message.get(field))]
    texts = ["".join(str(block.get(key) or "") for key in ("text", "summary", "thinking")) for block in blocks]
    signed = [block.get("signature") or block.get("data") for block in blocks]
    held = sum(len(text) // 4 + media.hidden_tokens(one, text) for one, text in zip(signed, texts, strict=True))
    holders = [message, *map(fields, block_list(message.get("tool_calls")))]
    places = (fields(fields(holder.get("extra_content")).get("google")) for holder in holders)
    others = (fields(holder.get("provider_specific_fields")) for holder in holders)
    signatures = [place.get("thought_signature") for place in (*places, *others)]
    return max(0, held - shown) + sum(map(media.hidden_tokens, signatures))


def _read_part(part: JSON, info: Message, images: media.ImageRule) -> None:
    note_server_work(part, info)
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            _add_text(text, info)
        case {"type": "thinking", "thinking": str(text)}:
            info.texts.append(text)
            info.extra += media.hidden_tokens(part.get("signature"), text)
        case {"type": "redacted_thinking", "data": str(data)}:
            info.extra += media.opaque_tokens(data)
        case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
            info.extra += images.openai(url, rest.get("detail"))
        case {"type": "input_audio", "input_audio": {"data": str(data), **rest}}:
            info.extra += media.audio_tokens(data, rest.get("format"))
        case {"type": "file", "file": {"file_data": str(data)}}:
            info.extra += media.file_tokens(data)
        case _:
            info.texts.append(compact_json(part))


def _add_text(text: str, info: Message) -> None:
    info.texts.append(text)
    if not text:
        info.reject(EMPTY_CONTENT)


def group(infos: Sequence[Message]) -> list[Unit]:
    """Group calls with the tool messages right after them, and the whole work of a server tool."""
    units: list[Unit] = []
    position = 0
    while position < len(infos):
        info = infos[position]
        if not info.calls:
            units.append(unit_of([position], infos, NO_CALL if info.results else None))
            position += 1
            continue
        end = position + 1
        while end < len(infos) and infos[end].role == "tool":
            end += 1
        units += _exchange(position, end, infos)
        position = end
    return join_server_work(units, infos)


def _exchange(start: int, end: int, infos: Sequence[Message]) -> list[Unit]:
    """Return the calls at `start` and the results up to `end`; results of other calls become separate units."""
    waiting = set(infos[start].calls)
    members, strays = [start], list[Unit]()
    for position in range(start + 1, end):
        answered = infos[position].results[0]
        if answered in waiting:
            waiting.discard(answered)
            members.append(position)
        else:
            strays.append(unit_of([position], infos, NO_CALL))
    return [unit_of(members, infos, NO_RESULT if waiting else None), *strays]


# The constants of OpenAI's own counting guide.
_FUNCTION = 7
_OLDER_FUNCTION = 10
"""For models with the encoding cl100k_base."""
_PROPERTIES = 3
_PROPERTY = 3
_ENUM = -3
_ENUM_VALUE = 3
_END = 12
_PRICED = frozenset(("additionalProperties", "description", "enum", "items", "properties", "required", "title", "type"))
"""Keywords of a schema that are counted one by one, or that the model is not shown."""


def tool_tokens(tools: Sequence[Any], counter: TokenCounter) -> int:
    """Return the tokens of functions by OpenAI's published formula; of hosted tools, by their JSON.

    The formula covers flat parameters; nested ones are counted in the same way, and keywords that it does not know by
    their JSON.
    """
    frame = _OLDER_FUNCTION if _encoding(counter) == "cl100k_base" else _FUNCTION
    return _END + sum(frame + _tool(tool, counter) for tool in tools)


def _encoding(counter: Any) -> object:
    while hasattr(counter, "inner"):
        counter = counter.inner
    return getattr(counter, "encoding", None)


def _tool(tool: Any, counter: TokenCounter) -> int:
    match tool:
        case {"function": {"name": str()} as function} | ({"name": str()} as function):
            line = f"{function['name']}:{_text(function.get('description'))}"
            return counter.count(line) + _properties(function.get("parameters"), counter)
        case _:
            return counter.count(compact_json(tool))


def _properties(schema: object, counter: TokenCounter) -> int:
    properties = fields(fields(schema).get("properties"))
    if not properties:
        return 0
    return _PROPERTIES + sum(_property(name, value, counter) for name, value in properties.items())


def _property(name: str, schema: object, counter: TokenCounter) -> int:
    keywords = fields(schema)
    kind = keywords.get("type", "")
    kind = "|".join(map(str, kind)) if is_sequence(kind) else kind
    total = _PROPERTY + counter.count(f"{name}:{kind}:{_text(keywords.get('description'))}")
    if values := keywords.get("enum"):
        total += _ENUM + sum(_ENUM_VALUE + counter.count(text) for text in _texts(values))
    total += _properties(keywords, counter)
    if items := fields(keywords.get("items")):
        total += _property("", items, counter)
    other = {key: value for key, value in keywords.items() if key not in _PRICED}
    return total + (counter.count(compact_json(other)) if other else 0)


def _texts(values: object) -> Iterable[str]:
    listed = values if is_sequence(values) else [values]
    return (value if isinstance(value, str) else compact_json(value) for value in listed)


def _text(description: object) -> str:
    return str(description or "").removesuffix(".")


def change_texts(message: JSON, parts: Collection[str], form: Rewrite) -> JSON:
    """Return a copy of a message with other texts."""
    if message.get("role") in ("tool", "function"):
        return {**message, "content": change_result(message.get("content"), parts, form)}
    return change_prose(message, parts, form)


def calls(message: JSON) -> list[tuple[str, Any]]:
    """Return the name and the arguments of each call, those of a framework's server tools too."""
    listed = [fields(call) for call in block_list(message.get("tool_calls"))]
    found = [fields(call.get("function") or call.get("custom")) for call in listed]
    found += [fields(message["function_call"])] if message.get("function_call") else []
    own = [(str(call.get("name") or "tool"), call.get("arguments", call.get("input"))) for call in found]
    return [*own, *anthropic.calls(message)]


def note_place(message: JSON) -> NotePlace | None:
    """Return where a note goes: into a result or a message of the user."""
    role = message.get("role")
    return NotePlace(("content",), in_result=role != "user") if role in ("user", "tool", "function") else None


def _without_thinking(message: JSON) -> JSON:
    """Return a message without Claude's thinking, which gateways keep beside the content or among its parts."""
    details = map(fields, block_list(message.get("reasoning_details")))
    of_claude = any(str(one.get("format")).startswith("anthropic") for one in details)
    hidden = _HIDDEN if of_claude else (_BLOCKS,)
    if any(key in message for key in hidden):
        message = {key: value for key, value in message.items() if key not in hidden}
    return anthropic.without_thinking(message)


def _recognises(message: JSON) -> bool:
    content = message.get("content")
    return (
        message.get("role") in ("tool", "function")
        or any(field in message for field in _FIELDS)
        or (is_sequence(content) and any(fields(part).get("type") in CHATS_PARTS for part in content))
    )


FORMAT: Final = Format(
    name="openai",
    read=read,
    check=check,
    group=group,
    tool=lambda tool: {"type": "function", "function": tool},
    tool_tokens=tool_tokens,
    recognises=_recognises,
    recognises_tool=lambda tool: "function" in tool and "input_schema" not in tool,
    prices=Prices.automatic(),
    change_texts=change_texts,
    calls=calls,
    note_place=note_place,
    without_thinking=_without_thinking,
    mark=FieldMark(field=BREAKPOINT, text="text", blocks=frozenset(("text", "image_url", "input_audio"))),
)
