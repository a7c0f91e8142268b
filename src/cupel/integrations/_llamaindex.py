"""LlamaIndex's chat messages, read as chat-completions would have them."""

# The types of a framework that is not installed are unknown; where it is, the tests run against it.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from cupel.integrations._calls import CallIds
from cupel.messages import Framework

_ROLES = {"chatbot": "assistant", "model": "assistant"}


def _views(messages: Sequence[ChatMessage]) -> Iterator[Mapping[str, Any]]:
    """Return the messages as chat-completions would have them."""
    ids = CallIds()
    for message in messages:
        role = message.role.value
        blocks = [_part(block) for block in message.blocks if not _is_silent(block)]
        view: dict[str, Any] = {"role": _ROLES.get(role, role), "content": blocks or None}
        calls = [block for block in message.blocks if block.block_type == "tool_call"]
        if calls:
            keys = ids.ask((_given_id(call), call.tool_name) for call in calls)
            view["tool_calls"] = [
                {"id": key, "function": {"name": call.tool_name, "arguments": call.tool_kwargs}}
                for key, call in zip(keys, calls, strict=True)
            ]
        elif older := message.additional_kwargs.get("tool_calls"):  # where older versions keep them
            view["tool_calls"] = older
            ids.ask(())
        if role == "tool":
            key = message.additional_kwargs.get("tool_call_id")
            view["tool_call_id"] = ids.answer(key, key or None)
            view["content"] = blocks or ""
        if role == "function":
            view["name"] = message.additional_kwargs.get("name")
        yield view


def _given_id(call: Any) -> str | None:
    """Return the call's id, unless that is only its tool's name, as of models without ids: two calls may share it."""
    return None if call.tool_call_id == call.tool_name else call.tool_call_id


def _is_silent(block: Any) -> bool:
    """Return whether a block is not content: a call, which is read apart, a cache mark, or an empty text."""
    return block.block_type in ("tool_call", "cache") or (block.block_type == "text" and not block.text)


def _part(block: Any) -> dict[str, Any]:
    match block.block_type:
        case "text":
            return {"type": "text", "text": block.text}
        case "thinking":
            return {"type": "thinking", "text": block.content or ""}
        case "image":
            encoded = block.image.decode() if isinstance(block.image, bytes) else ""
            url = f"data:;base64,{encoded}" if encoded else str(block.url or "")
            return {"type": "image_url", "image_url": {"url": url, "detail": block.detail}}
        case _:
            return {"type": str(block.block_type), "text": block.model_dump_json()}


def _with_outputs(message: ChatMessage, texts: Sequence[str]) -> ChatMessage:
    """Return a copy of what a tool returned with other texts, one for each that `_views` shows."""
    following = iter(texts)
    blocks = [
        block.model_copy(update={"text": next(following)}) if block.block_type == "text" and block.text else block
        for block in message.blocks
    ]
    return message.model_copy(update={"blocks": blocks})


LLAMAINDEX: Framework[ChatMessage] = Framework(
    ChatMessage, _views, lambda tool: tool.metadata.to_openai_tool(), with_outputs=_with_outputs
)
