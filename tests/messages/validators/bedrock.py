"""The rules of Bedrock's `Converse`, from its service model, public documentation and error messages.

A rule that is not documented clearly is applied in its strict form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

Message = dict[str, Any]

_ANYWHERE = frozenset(("text", "cachePoint", "image", "guardContent"))
_BLOCKS = {
    "user": _ANYWHERE | {"document", "video", "audio", "toolResult", "searchResult"},
    "assistant": _ANYWHERE | {"toolUse", "reasoningContent", "citationsContent"},
}
_RESULTS = frozenset(("json", "text", "image", "document", "video", "searchResult"))
_TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CACHE_POINTS = 4
_KINDS = {"toolUse": "call", "toolResult": "result", "reasoningContent": "thinking"}


def violations(messages: list[Message], original: list[Message]) -> Iterator[str]:
    """Yield everything that the provider would object to; `original` is the history of the request."""
    for index, message in enumerate(messages):
        yield from (f"{index}: {problem}" for problem in _shape(message))
    if messages[0]["role"] != "user":
        yield "a conversation must start with a user message"
    if messages[-1]["role"] == "assistant" and original[-1]["role"] != "assistant":
        yield "a final assistant message is a prefill that nobody asked for"
    for index, (one, other) in enumerate(pairwise(messages)):
        if one["role"] == other["role"]:
            yield f"{index}: a conversation must alternate between user and assistant roles"
    yield from _pairs(messages)
    yield from _cache_points(messages)
    yield from _reasoning(messages, original)


def kinds(message: Message) -> list[str]:
    """The kinds of a message's blocks, without breakpoints."""
    names = [next(iter(block)) for block in message["content"]]
    return [_KINDS.get(name, name) for name in names if name != "cachePoint"]


def _held(message: Message, name: str) -> list[Message]:
    return [block[name] for block in message["content"] if name in block]


def _shape(message: Message) -> Iterator[str]:
    for extra in sorted(message.keys() - {"role", "content"}):
        yield f"unknown parameter {extra}"
    if message["role"] not in _BLOCKS:
        yield f"no such role: {message['role']}"
        return
    if not message["content"]:
        yield "the content field is empty"
    for block in message["content"]:
        if len(block) != 1 or not block.keys() <= _BLOCKS[message["role"]]:
            yield f"a content block of the {message['role']} holds {sorted(block)}"
        if _blank(block.get("text", ".")):
            yield "the text field is blank"
    if _held(message, "document") and not _held(message, "text"):
        yield "a text block must be included when using documents"
    for use in _held(message, "toolUse"):
        if not _TOOL_USE_ID.fullmatch(use["toolUseId"]) or not _TOOL_NAME.fullmatch(use["name"]):
            yield f"toolUseId {use['toolUseId']} or name {use['name']} fails its constraint"
        if not isinstance(use["input"], dict):
            yield "toolUse.input must be an object"
    for result in _held(message, "toolResult"):
        yield from _result(result)


def _result(result: Message) -> Iterator[str]:
    for extra in sorted(result.keys() - {"toolUseId", "content", "status", "type"}):
        yield f"unknown parameter {extra} in a toolResult"
    if result.get("status", "success") not in ("success", "error"):
        yield f"no such status: {result['status']}"
    if not result["content"]:
        yield "the content of a toolResult is empty"
    for block in result["content"]:
        if len(block) != 1 or not block.keys() <= _RESULTS:
            yield f"a block of a toolResult holds {sorted(block)}"
        if _blank(block.get("text", ".")):
            yield "the text field of a toolResult is blank"


def _blank(text: Any) -> bool:
    return not isinstance(text, str) or not text.strip()


def _pairs(messages: list[Message]) -> Iterator[str]:
    """Calls are answered in the next message, all together and before anything else."""
    seen: set[str] = set()
    for index, message in enumerate(messages):
        uses = [use["toolUseId"] for use in _held(message, "toolUse")]
        after = _held(messages[index + 1], "toolResult") if index + 1 < len(messages) else []
        if len({*uses}) != len(uses) or seen & {*uses}:
            yield f"{index}: toolUse ids must be unique"
        seen |= {*uses}
        if uses and sorted(uses) != sorted(result["toolUseId"] for result in after):
            yield f"{index}: expected toolResult blocks for the ids {uses}"
        results = [result["toolUseId"] for result in _held(message, "toolResult")]
        asked = [use["toolUseId"] for use in _held(messages[index - 1], "toolUse")] if index else []
        if sorted(results) != sorted(asked):
            yield f"{index}: the toolResult blocks {results} do not answer the calls {asked}"
        if kinds(message)[: len(results)] != ["result"] * len(results):
            yield f"{index}: toolResult blocks must come first"


def _cache_points(messages: list[Message]) -> Iterator[str]:
    count = sum(len(_held(message, "cachePoint")) for message in messages)
    if count > _CACHE_POINTS:
        yield f"at most {_CACHE_POINTS} cache points, found {count}"
    for index, message in enumerate(messages):
        marks = ["cachePoint" in block for block in message["content"]]
        if marks[:1] == [True] or (True, True) in pairwise(marks):
            yield f"{index}: a cache point follows a block that can be cached"
        if any(point.get("type") != "default" for point in _held(message, "cachePoint")):
            yield f"{index}: a cache point is of type default"


def _reasoning(messages: list[Message], original: list[Message]) -> Iterator[str]:
    """Reasoning comes back unmodified, and never last."""
    given = [block for message in original for block in _held(message, "reasoningContent")]
    for index, message in enumerate(messages):
        found = _held(message, "reasoningContent")
        if any(block not in given for block in found):
            yield f"{index}: reasoning was modified"
        if kinds(message)[-1:] == ["thinking"]:
            yield f"{index}: the final block in an assistant message cannot be reasoning"


def lost_reasoning(messages: list[Message], original: list[Message]) -> Iterator[str]:
    """Yield the calls that come back without the reasoning that led to them."""
    thoughts = {
        use["toolUseId"]: _held(message, "reasoningContent")
        for message in original
        for use in _held(message, "toolUse")
    }
    for index, message in enumerate(messages):
        found = _held(message, "reasoningContent")
        for use in _held(message, "toolUse"):
            if any(block not in found for block in thoughts.get(use["toolUseId"], ())):
                yield f"{index}: the call {use['toolUseId']} lost the reasoning before it"
