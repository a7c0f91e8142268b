"""LangChain's messages, read as chat-completions would have them."""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from cupel.messages import Framework

_ROLES = (
    (HumanMessage, "user"),
    (AIMessage, "assistant"),
    (SystemMessage, "system"),
    (ToolMessage, "tool"),
    (FunctionMessage, "function"),
)


def _view(message: Any) -> Mapping[str, Any]:
    # By class, not by `type`: a chunk of a stream is a message too, but names its type otherwise.
    role = next((role for kind, role in _ROLES if isinstance(message, kind)), getattr(message, "role", message.type))
    view: dict[str, Any] = {"role": role, "content": [_part(part) for part in _parts(message.content)]}
    if isinstance(message.content, str):
        view["content"] = message.content
    if calls := _calls(message):
        view["tool_calls"] = calls
        view["content"] = view["content"] or None
    if role == "tool":
        view["tool_call_id"] = message.tool_call_id
    if role == "function":
        view["name"] = message.name
    return view


def _calls(message: Any) -> list[dict[str, Any]]:
    """Return the calls of a message: parsed, unparsable, and those that only its content blocks know."""
    calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    known = {call["id"] for call in calls}
    content = () if isinstance(message.content, str) else message.content
    blocks = [part for part in content if _kind(part) == "tool_use" and part.get("id") not in known]
    return [
        *({"id": call["id"], "function": {"name": call["name"] or "", "arguments": call["args"]}} for call in calls),
        *({"id": part["id"], "function": {"name": part["name"], "arguments": part["input"]}} for part in blocks),
    ]


def _parts(content: Any) -> list[Any]:
    kept = [] if isinstance(content, str) else [part for part in map(_without_call, content) if part]
    return [part for part in kept if part != _EMPTY]  # models' adapters skip these


def _without_call(part: Any) -> Any:
    """Return a part of a message; of a call, which `_calls` reads, only the code that made it, if code did."""
    if _kind(part) not in _CALL_PARTS:
        return part
    caller = part.get("caller") or (part.get("extras") or {}).get("caller")
    return {"type": "tool_use", "caller": caller} if caller else None


_TEXT_PARTS = ("text", "input_text", "output_text")
_EMPTY = {"type": "text", "text": ""}
_CALL_PARTS = frozenset(
    ("function_call", "input_json_delta", "invalid_tool_call", "tool_call", "tool_call_chunk", "tool_use")
)
_NATIVE = {"reasoning": "thinking", "reasoning_content": "thinking", "server_tool_call": "server_tool_use"}


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _part(part: Any) -> Any:
    match part:
        case str(text):
            return {"type": "text", "text": text}
        case {"type": "thinking", "thinking": str(text)} | {"type": "reasoning", "reasoning": str(text)}:
            return {"type": "thinking", "thinking": text}  # without the signature, which nobody is charged for
        case {"type": "reasoning" | "reasoning_content" | "server_tool_call" as kind}:
            return {**part, "type": _NATIVE[kind]}
        case {"type": "server_tool_result", "tool_call_id": call}:
            return {**part, "tool_use_id": call}
        case {"type": "image"} | {"type": "image_url", "image_url": str()}:
            return {"type": "image_url", "image_url": {"url": _image_url(part)}}
        case _:
            return part


def _image_url(part: Mapping[str, Any]) -> str:
    match part:
        case {"base64": str(data), **rest}:
            return f"data:{rest.get('mime_type', '')};base64,{data}"
        case {"source": {"data": str(data)}}:
            return f"data:;base64,{data}"
        case {"image_url": url} | {"url": url}:
            return str(url)
        case _:
            return ""


def _with_outputs(message: BaseMessage, texts: Sequence[str]) -> BaseMessage:
    """Return a copy of what a tool returned with other texts, one for each that `_view` shows."""
    following = iter(texts)
    content = message.content
    shorter = next(following) if isinstance(content, str) else [_with_text(part, following) for part in content]
    return message.model_copy(update={"content": shorter})


def _with_text(part: Any, following: Iterator[str]) -> Any:
    if isinstance(part, str):
        return part and next(following)
    shown = _kind(part) in _TEXT_PARTS and isinstance(part.get("text"), str) and part != _EMPTY
    return {**part, "text": next(following)} if shown else part


LANGCHAIN: Framework[BaseMessage] = Framework(
    BaseMessage, lambda messages: map(_view, messages), convert_to_openai_tool, with_outputs=_with_outputs
)
