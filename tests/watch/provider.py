"""A provider that speaks three protocols: plain and streamed, with tool calls, and busy now and then."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from tests.watch.caching import CachingProvider
from tests.watch.upstream import Received, Reply, answer, running, stream

_NUMBERS = count(1)
ARGUMENTS = '{"path": "src/app.py"}'
BASE: dict[str, Any] = {"id": "x1", "created": 1, "model": "some-model"}


def _data(event: dict[str, Any], *, named: bool = False) -> bytes:
    name = f"event: {event['type']}\n" if named else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


class Call(NamedTuple):
    """A call of a tool."""

    name: str = "read"
    arguments: str = ARGUMENTS
    number: int = 1


def _chat(
    sent: dict[str, Any], tokens: int, read: int, written: int, calls: Call | None
) -> dict[str, Any] | list[bytes]:
    usage = {"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5}
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": ARGUMENTS}}
    message = {"role": "assistant", "content": None if calls else "Hello there."}
    reason = "tool_calls" if calls else "stop"
    if not sent.get("stream"):
        choice = {
            "index": 0,
            "finish_reason": reason,
            "message": {**message, **({"tool_calls": [call]} if calls else {})},
        }
        return {**BASE, "object": "chat.completion", "choices": [choice], "usage": usage}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"content": "Hello "}, {"content": "there."}]
    if calls:
        named = {"name": "read", "arguments": ""}
        deltas = [
            {"role": "assistant", "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": named}]}
        ]
        deltas += [
            {"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ('{"path": ', '"src/app.py"}')
        ]
    chunk = {**BASE, "object": "chat.completion.chunk"}
    events = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if (sent.get("stream_options") or {}).get("include_usage"):
        events.append({**chunk, "choices": [], "usage": usage})
    return [*map(_data, events), b"data: [DONE]\n\n"]


def _responses(
    sent: dict[str, Any], tokens: int, read: int, written: int, calls: Call | None
) -> dict[str, Any] | list[bytes]:
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": read},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 5,
    }
    part = {"type": "output_text", "text": "Hello there.", "annotations": []}
    item: dict[str, Any] = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    if calls:
        name, arguments, number = calls
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
        item |= {"arguments": arguments, "status": "completed"}
    response = {
        **BASE,
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    if not sent.get("stream"):
        return response
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    events.append({"type": "response.output_item.added", "output_index": 0, "item": item})
    if not calls:
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        events += [
            {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []}
            for text in ("Hello ", "there.")
        ]
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": response})
    return [_data({**event, "sequence_number": number}, named=True) for number, event in enumerate(events)]


def _anthropic(
    sent: dict[str, Any], tokens: int, read: int, written: int, calls: Call | None
) -> dict[str, Any] | list[bytes]:
    usage = {
        "input_tokens": tokens - read - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": 5,
    }
    name, arguments, number = calls or Call()
    tool = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": json.loads(arguments)}
    block = tool if calls else {"type": "text", "text": "Hello there."}
    message = {
        "id": f"msg_{next(_NUMBERS)}",
        "type": "message",
        "role": "assistant",
        "model": sent["model"],
        "content": [block],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    if not sent.get("stream"):
        return message
    empty = {**tool, "input": {}} if calls else {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": text} for text in ("Hello ", "there.")]
    if calls:
        deltas = [{"type": "input_json_delta", "partial_json": text} for text in ("", arguments[:9], arguments[9:])]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    return [_data(event, named=True) for event in events]


_SPEAKS: dict[str, Callable[..., dict[str, Any] | list[bytes]]] = {
    "/v1/chat/completions": _chat,
    "/v1/responses": _responses,
    "/v1/messages": _anthropic,
}


class Provider:
    """Fails with the statuses in `failures`, then answers: with a call if there are tools and the user spoke last."""

    def __init__(self, wait: float = 0.0) -> None:
        self.failures: list[int] = []
        self.wait = wait

    def __call__(self, request: Received) -> Reply:
        path = request.path.partition("?")[0]
        if self.failures:
            error = {"type": "error", "error": {"type": "busy", "message": "try again"}}
            return answer(error, self.failures.pop(0), "content-type: application/json\r\nretry-after-ms: 1")
        if path == "/v1/messages/count_tokens":
            return answer({"input_tokens": len(request.body) // 4})
        if path not in _SPEAKS:
            return answer({"object": "list", "data": []})
        sent = request.json
        last = (sent.get("messages") or sent.get("input"))[-1]
        answered = "result" in json.dumps(last) or last.get("role") == "tool" or "output" in last
        tokens = len(request.body) // 4
        found = _SPEAKS[path](sent, tokens, tokens // 2, 0, Call() if sent.get("tools") and not answered else None)
        return stream(found, self.wait) if isinstance(found, list) else answer(found)


class AgentProvider(Provider):
    """Lets a coding agent read one file after the other: the tool and its arguments are those that the agent offers.

    Args:
        paths: The files, of which each call names the next.
        cache: Counts tokens.
        cut: The number of an answer whose stream ends too early, once: after its first events, or without any.
        left: How many events there are; the connection is closed after them.
        busy: The number of an answer from which on the model of the first request is overloaded.
    """

    def __init__(self, paths: list[str], cache: CachingProvider, *, cut: int = 0, left: int = 2, busy: int = 0) -> None:
        super().__init__()
        self.paths, self.cache, self.asked = paths, cache, 0
        self.cut, self.left, self.busy, self.model = cut, left, busy, ""

    def __call__(self, request: Received) -> Reply:
        path = request.path.partition("?")[0]
        if request.line.startswith("HEAD") or path not in _SPEAKS:
            return super().__call__(request)
        sent, call = request.json, None
        self.model = self.model or sent["model"]
        if self.busy and self.asked >= self.busy and sent["model"] == self.model:
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
            return answer(error, 529, "content-type: application/json\r\nretry-after: 0")
        offered = {tool.get("name") or tool.get("type") for tool in sent.get("tools") or ()}
        found = next((name for name in _READS if name in offered), None)
        if found is not None and self.asked < len(self.paths):
            self.asked += 1
            call = Call(found, json.dumps(_READS[found](self.paths[self.asked - 1])), 1 + self.asked)
        told = _SPEAKS[path](sent, *self.cache.serve(sent)[:3], call)
        if isinstance(told, list) and call is not None and self.asked == self.cut:
            self.cut, self.asked = 0, self.asked - 1
            return stream(told[: self.left], self.wait, ends=not self.left)
        return stream(told, self.wait) if isinstance(told, list) else answer(told)


_READS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Read": lambda path: {"file_path": path},
    "read": lambda path: {"filePath": path},
    "exec_command": lambda path: {"cmd": f"cat {path}"},
    "shell_command": lambda path: {"command": f"cat {path}"},
    "shell": lambda path: {"command": ["cat", path]},
}
"""The tools by which agents read a file, and their arguments."""


def serve() -> None:
    """Serve until standard input ends, for clients that are not written in Python; print the address."""
    provider = Provider()
    with running(provider) as upstream:
        print(upstream.url, flush=True)
        for line in sys.stdin:  # statuses to fail with
            provider.failures += [int(status) for status in line.split()]
            print("ok", flush=True)


if __name__ == "__main__":
    serve()
