"""Messages of every format in one plain form, for measuring only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cupel._documents import is_list, is_object
from cupel.evaluation._cases import EvaluationError
from cupel.tokens import counter_or_default

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cupel.tokens import TokenCounter

_FRAME: Final = 4
"""Tokens that a message costs beside its text."""
_ROLES: Final = {"developer": "system", "function": "tool"}
_CALLS: Final = frozenset(("function_call", "custom_tool_call"))
_OUTPUTS: Final = frozenset(("function_call_output", "custom_tool_call_output"))


class Spoken(NamedTuple):
    """Who says what: the text as it counts, the calls it makes and those it answers."""

    role: str
    """system, user, assistant or tool."""
    text: str
    calls: tuple[str, ...] = ()
    arguments: tuple[Any, ...] = ()
    """What the calls are given, as values; None where it is no JSON."""
    answers: tuple[str, ...] = ()


def costing(counter: TokenCounter | None) -> Callable[[Spoken], int]:
    """Return the function that says how many tokens a message costs."""
    count = counter_or_default(counter).count
    return lambda message: count(message.text) + _FRAME


def spoken(message: Any, provider: str) -> Spoken:
    """Return the plain form of a message; SDK objects are dumped first."""
    if not is_object(message):
        dump: Any = getattr(message, "model_dump", None)
        if not callable(dump):
            raise EvaluationError(f"a message must be an object, got {type(message).__name__}")
        message = dump(mode="json", exclude_none=True)
    return _READERS[provider](message)


def _openai(message: Mapping[str, Any]) -> Spoken:
    calls: list[Any] = list(message.get("tool_calls") or ())
    if message.get("function_call"):
        calls.append({"id": message["function_call"].get("name"), "function": message["function_call"]})
    bodies: list[Mapping[str, Any]] = [call.get("function") or call.get("custom") or {} for call in calls]
    given: list[str] = [str(body.get("arguments", body.get("input", ""))) for body in bodies]
    lines = [_content(message.get("content")), *(f"{b.get('name')} {a}" for b, a in zip(bodies, given, strict=True))]
    answer = message.get("tool_call_id") or (message.get("name") if message.get("role") == "function" else None)
    return Spoken(
        _role(message),
        "\n".join(lines),
        tuple(str(call.get("id")) for call in calls),
        tuple(_value(text) for text in given),
        () if answer is None else (str(answer),),
    )


def _anthropic(message: Mapping[str, Any]) -> Spoken:
    content: Any = message.get("content")
    blocks: list[Any] = [] if content is None or isinstance(content, str) else list(content)
    uses = [block for block in blocks if block.get("type") == "tool_use"]
    answers = tuple(str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result")
    return Spoken(
        "tool" if answers else _role(message),
        _content(content),
        tuple(str(block.get("id")) for block in uses),
        tuple(block.get("input") for block in uses),
        answers,
    )


def _responses(item: Mapping[str, Any]) -> Spoken:
    kind = item.get("type", "message")
    if kind in _CALLS:
        given = str(item.get("arguments", item.get("input", "")))
        value = _value(given) if kind == "function_call" else given
        return Spoken("assistant", f"{item.get('name')} {given}", (str(item.get("call_id")),), (value,))
    if kind in _OUTPUTS:
        return Spoken("tool", _content(item.get("output")), answers=(str(item.get("call_id")),))
    if kind == "message":
        return Spoken(_role(item), _content(item.get("content")))
    return Spoken("assistant", _content(item.get("summary")))


_READERS: Final[dict[str, Callable[[Mapping[str, Any]], Spoken]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "openai-responses": _responses,
}


def _role(message: Mapping[str, Any]) -> str:
    role = str(message.get("role"))
    return _ROLES.get(role, role)


def _content(content: Any) -> str:
    """Return the text of a content: itself, or that of its parts; images and files have none."""
    if content is None or isinstance(content, str):
        return content or ""
    parts: list[Any] = content if is_list(content) else [content]
    return "\n".join(text for text in map(_part, parts) if text)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not is_object(part):
        return ""
    match part.get("type"):
        case "tool_use":
            return f"{part.get('name')} {json.dumps(part.get('input'), ensure_ascii=False)}"
        case "tool_result":
            return _content(part.get("content"))
        case "thinking":
            return str(part.get("thinking", ""))
        case _:
            text = part.get("text", part.get("refusal"))
            return text if isinstance(text, str) else ""


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class ToolStep(NamedTuple):
    """A place where the model calls tools: what stood before it, and what the calls are given."""

    at: int
    arguments: tuple[Any, ...]


def steps(messages: Sequence[Spoken], provider: str) -> list[ToolStep]:
    """Return the steps of a conversation; a Responses answer is all the items in a row that the model wrote."""
    if provider != "openai-responses":
        return [ToolStep(at, message.arguments) for at, message in enumerate(messages) if message.calls]
    found: list[ToolStep] = []
    start: int | None = None
    for at, message in enumerate(messages):
        if message.role != "assistant":
            start = None
        elif start is None:
            start = at
        if message.calls and start is not None:
            if found and found[-1].at == start:
                found[-1] = ToolStep(start, found[-1].arguments + message.arguments)
            else:
                found.append(ToolStep(start, message.arguments))
    return found


def is_valid(messages: Sequence[Spoken], provider: str) -> bool:
    """Tell whether every call is answered and every answer called for, where the format wants them."""
    waiting: list[str] = []
    for message in messages:
        if message.answers:
            for answer in message.answers:
                if answer not in waiting:
                    return False
                waiting.remove(answer)
            if waiting and provider == "anthropic":
                return False
        elif waiting and provider != "openai-responses":
            return False
        waiting += message.calls
    return not waiting
