"""The rules of Anthropic's Messages API, from its public documentation and error messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

_MARKS = 4
"""How many blocks may carry `cache_control`."""
_KINDS = {"tool_use": "call", "tool_result": "result", "thinking": "thinking", "redacted_thinking": "thinking"}
_SIGNED = frozenset(("compaction", "redacted_thinking", "thinking"))


def blocks_of(message: Message) -> list[Message]:
    """The blocks of a message's content."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _unmarked(message: Message) -> list[Message]:
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks_of(message)]


def _thoughtless(message: Message) -> list[Message]:
    return [block for block in _unmarked(message) if block.get("type") not in ("thinking", "redacted_thinking")]


def violations(messages: list[Message], original: list[Message]) -> Iterator[str]:
    """Yield everything that the provider would object to; `original` is the history of the request."""
    if messages[0]["role"] != "user":
        yield "first message must use the user role"
    own = (_unmarked(original[-1]), _thoughtless(original[-1])) if original else ()
    if messages[-1]["role"] == "assistant" and _unmarked(messages[-1]) not in own:
        yield "a final assistant message is a prefill that nobody asked for"
    if messages[-1]["role"] == "assistant":
        text = blocks_of(messages[-1])[-1:]
        if text and text[0]["type"] == "text" and text[0]["text"] != text[0]["text"].rstrip():
            yield "final assistant content cannot end with trailing whitespace"
    yield from _shapes(messages)
    yield from _marks(messages, original)
    yield from _compactions(messages)
    yield from _systems(messages)
    yield from _pairs(messages)
    yield from _server_tools(messages)
    yield from _signed(messages, original)


def _compactions(messages: list[Message]) -> Iterator[str]:
    """A compaction is the first block of an assistant message, and only one of a request carries content."""
    found = 0
    for index, message in enumerate(messages):
        for at, block in enumerate(blocks_of(message)):
            if block["type"] == "compaction":
                found += 1
                if at or message["role"] != "assistant":
                    yield f"{index}: a compaction block must be the first of an assistant message"
    if found > 1:
        yield "only one compaction block may carry content"


def _shapes(messages: list[Message]) -> Iterator[str]:
    for index, message in enumerate(messages):
        for extra in sorted(message.keys() - {"role", "content"}):
            yield f"{index}.{extra}: extra inputs are not permitted"
        blocks = blocks_of(message)
        if not blocks:
            yield f"{index}: all messages must have non-empty content"
        for at, block in enumerate(blocks):
            inner = block.get("content") if block["type"] == "tool_result" else None
            for text in [block, *(inner if isinstance(inner, list) else ())]:
                if text["type"] == "text" and _blank(text["text"]):
                    yield f"{index}: text content blocks must contain non-whitespace text"
            if message["role"] != _owner(block, message["role"]):
                yield f"{index}: {block['type']} belongs to the {_owner(block, '')}"
            if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                yield f"{index}: tool_use.input must be an object"
            if block["type"] == "tool_result" and any(b["type"] != "tool_result" for b in blocks[:at]):
                yield f"{index}: tool_result blocks must come first"
            if block["type"] == "thinking" and not block.get("signature"):
                yield f"{index}: thinking needs its signature"


def _blank(text: Any) -> bool:
    return not isinstance(text, str) or not text.strip()


def _marks(messages: list[Message], original: list[Message]) -> Iterator[str]:
    marked, given = (
        [block["type"] for message in some for block in blocks_of(message) if "cache_control" in block]
        for some in (messages, original)
    )
    if len(marked) > max(_MARKS, len(given)):  # breakpoints that the caller set are the caller's own
        yield f"a maximum of {_MARKS} blocks with cache_control may be provided, found {len(marked)}"
    if {"thinking", "redacted_thinking"} & {*marked}:
        yield "thinking blocks cannot have cache_control"


def _owner(block: Message, anyone: str) -> str:
    """The role that a block belongs to; `anyone` if it may have either."""
    if block["type"] == "tool_result":
        return "user"
    return "assistant" if block["type"].endswith(("tool_use", "_tool_result")) else anyone


def _systems(messages: list[Message]) -> Iterator[str]:
    for index, message in enumerate(messages):
        if message["role"] != "system":
            continue
        if index == 0 or messages[index - 1]["role"] != "user":
            yield f"{index}: a system message must follow a user message"
        if index + 1 < len(messages) and messages[index + 1]["role"] != "assistant":
            yield f"{index}: a system message must be last or be followed by the assistant"


def _turns(messages: list[Message]) -> list[tuple[str, list[Message]]]:
    """Neighbours of one role are combined into one turn, as the provider does."""
    turns: list[tuple[str, list[Message]]] = []
    for message in messages:
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks_of(message))
        else:
            turns.append((message["role"], blocks_of(message)))
    return turns


def _pairs(messages: list[Message]) -> Iterator[str]:
    seen: set[str] = set()
    turns = _turns(messages)
    for index, (role, blocks) in enumerate(turns):
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(calls) != len(set(calls)) or seen & set(calls):
            yield f"turn {index}: tool_use ids must be unique"
        seen |= set(calls)
        following = turns[index + 1][1] if index + 1 < len(turns) and turns[index + 1][0] == "user" else []
        leading = []
        for block in following:
            if block["type"] != "tool_result":
                break
            leading.append(block["tool_use_id"])
        if role == "assistant" and sorted(leading) != sorted(calls):
            yield f"turn {index}: calls {calls} are followed by the results {leading}"
        if role == "user" and any(block["type"] == "tool_result" for block in blocks):
            before = turns[index - 1] if index else ("", [])
            known = {block["id"] for block in before[1] if block["type"] == "tool_use"}
            for block in blocks:
                if block["type"] == "tool_result" and block["tool_use_id"] not in known:
                    yield f"turn {index}: tool_result without its tool_use in the previous message"
        if role == "assistant" and blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            yield f"turn {index}: the final block in an assistant message cannot be thinking"


def _server_tools(messages: list[Message]) -> Iterator[str]:
    """Server tools: a result has its call before it, a call its result; code's calls are answered by results alone."""
    at_work: set[str] = set()
    for index, (role, blocks) in enumerate(_turns(messages)):
        if role == "user" and at_work and any(block["type"] != "tool_result" for block in blocks):
            yield f"turn {index}: {sorted(at_work)} was found without a corresponding tool result block"
        if role != "assistant":
            continue
        before, went_on = set(at_work), False
        for block in blocks:
            caller = (block.get("caller") or {}).get("tool_id")
            if block["type"] in ("server_tool_use", "mcp_tool_use"):
                if block["id"] in at_work:
                    yield f"turn {index}: tool_use ids must be unique"
                at_work.add(block["id"])
            elif block["type"].endswith("_tool_result"):
                if block["tool_use_id"] not in at_work:
                    yield f"turn {index}: unexpected tool_use_id {block['tool_use_id']} in {block['type']}"
                at_work.discard(block["tool_use_id"])
                went_on = True
            elif block["type"] == "tool_use" and caller:
                if caller not in at_work:
                    yield f"turn {index}: a call by code {caller}, which is not running"
                went_on = True
        if before & at_work and not went_on:
            yield f"turn {index}: {sorted(before & at_work)} was found without a corresponding tool result block"


def kinds(message: Message) -> list[str]:
    return [_KINDS.get(block["type"], block["type"]) for block in blocks_of(message)]


def _signed(messages: list[Message], original: list[Message]) -> Iterator[str]:
    """What the provider has signed comes back unmodified."""
    given = [block for message in original for block in _unmarked(message) if block["type"] in _SIGNED]
    for index, message in enumerate(messages):
        for block in _unmarked(message):
            if block["type"] in _SIGNED and block not in given:
                yield f"{index}: {block['type']} blocks cannot be modified"
