"""Haystack's chat messages, read as chat-completions would have them."""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from haystack.dataclasses import ChatMessage, FileContent, ImageContent, TextContent, ToolCall

from cupel.integrations._calls import CallIds
from cupel.messages import Framework


def _views(messages: Sequence[ChatMessage]) -> Iterator[Mapping[str, Any]]:
    """Return the messages as chat-completions would have them."""
    ids = CallIds()
    for message in messages:
        view = _view(message)
        if message.tool_calls:
            keys = ids.ask((call.id, call) for call in message.tool_calls)
            view["tool_calls"] = [
                {"id": key, "function": {"name": call.tool_name, "arguments": _arguments(call)}}
                for key, call in zip(keys, message.tool_calls, strict=True)
            ]
        if result := message.tool_call_result:
            view["tool_call_id"] = ids.answer(result.origin.id, result.origin)
        yield view


def _view(message: ChatMessage) -> dict[str, Any]:
    parts = _parts([*(TextContent(text) for text in message.texts), *message.images, *message.files])
    view: dict[str, Any] = {"role": message.role.value, "content": parts or None}
    if message.name:
        view["name"] = message.name
    if message.reasonings:
        view["reasoning"] = " ".join(reasoning.reasoning_text for reasoning in message.reasonings)
    if result := message.tool_call_result:
        view["content"] = result.result if isinstance(result.result, str) else _parts(result.result)
    return view


def _parts(contents: Sequence[Any]) -> list[Any]:
    return [_part(content) for content in contents if not isinstance(content, TextContent) or content.text]


def _part(content: Any) -> dict[str, Any]:
    match content:
        case TextContent(text=text):
            return {"type": "text", "text": text}
        case ImageContent():
            return {"type": "image_url", "image_url": _image(content)}
        case FileContent():
            return {"type": "file", "file": {"file_data": content.base64_data}}
        case _:
            return {"type": "unknown", "text": str(content)}


def _arguments(call: ToolCall) -> dict[str, Any]:
    return {str(name): value for name, value in call.arguments.items()}  # JSON has no other names


def _image(image: Any) -> dict[str, Any]:
    return {"url": f"data:{image.mime_type};base64,{image.base64_image}", "detail": image.detail}


def _with_outputs(message: ChatMessage, texts: Sequence[str]) -> ChatMessage:
    """Return a copy of what a tool returned with other texts, one for each that `_view` shows."""
    result, following = message.tool_call_result, iter(texts)
    shorter = next(following) if isinstance(result.result, str) else [_with_text(c, following) for c in result.result]
    return ChatMessage.from_tool(shorter, origin=result.origin, error=result.error, meta=dict(message.meta))


def _with_text(content: Any, following: Iterator[str]) -> Any:
    return TextContent(next(following)) if isinstance(content, TextContent) and content.text else content


HAYSTACK: Framework[ChatMessage] = Framework(
    ChatMessage, _views, lambda tool: tool.tool_spec, with_outputs=_with_outputs
)
