"""An agent's conversation in each format, and a provider's answers to it."""

from __future__ import annotations

import json
from typing import Any

from tests.watch.upstream import Received, Reply, answer

PATHS = {"openai": "/v1/chat/completions", "openai-responses": "/v1/responses", "anthropic": "/v1/messages"}
FIELD = {"openai": "messages", "openai-responses": "input", "anthropic": "messages"}
PROVIDERS = list(PATHS)


def output(number: int, lines: int = 40) -> str:
    return "\n".join(
        f"{number}:{line} def function_{number}_{line}(argument): return argument" for line in range(lines)
    )


def step(provider: str, number: int, text: str | None = None) -> list[dict[str, Any]]:
    """A call of a tool and its result."""
    key, text = f"call_{number}", output(number) if text is None else text
    arguments = {"path": f"src/module_{number}.py"}
    if provider == "openai":
        call = {"id": key, "type": "function", "function": {"name": "read", "arguments": json.dumps(arguments)}}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": key, "content": text},
        ]
    if provider == "openai-responses":
        return [
            {"type": "function_call", "call_id": key, "name": "read", "arguments": json.dumps(arguments)},
            {"type": "function_call_output", "call_id": key, "output": text},
        ]
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": key, "name": "read", "input": arguments}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": key, "content": text}]},
    ]


def history(provider: str, steps: int, opening: str = "Find the bug in the parser.") -> list[dict[str, Any]]:
    return [{"role": "user", "content": opening}, *(one for number in range(steps) for one in step(provider, number))]


def body(provider: str, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A request as a client writes it, with fields that cupel does not know."""
    extra = {"temperature": 0.1, "unknown_field": {"kept": [1, 2.50, None]}, **more}
    if provider == "anthropic":
        extra = {"max_tokens": 100, "system": "You are an agent.", **extra}
    elif provider == "openai-responses":
        extra = {"instructions": "You are an agent.", **extra}
    return {"model": "some-model", **extra, FIELD[provider]: messages}


def says(provider: str, text: str, tokens: int) -> dict[str, Any]:
    """An answer with a text and a usage."""
    if provider == "openai":
        usage = {"prompt_tokens": tokens, "completion_tokens": 3, "total_tokens": tokens + 3}
        message = {"role": "assistant", "content": text}
        return {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    usage = {"input_tokens": tokens, "output_tokens": 3}
    if provider == "openai-responses":
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        return {"id": "r", "object": "response", "output": [item], "usage": {**usage, "total_tokens": tokens + 3}}
    content = [{"type": "text", "text": text}]
    return {"id": "m", "type": "message", "role": "assistant", "content": content, "usage": usage}


def reply_to(request: Received) -> Reply:
    """Answer as the provider whose path it is; a token is four bytes."""
    provider = next((one for one, path in PATHS.items() if request.path.startswith(path)), "anthropic")
    tokens = len(request.body) // 4
    if request.path.partition("?")[0].endswith(("count_tokens", "input_tokens")):
        return answer({"input_tokens": tokens})
    return answer(says(provider, "Done.", tokens))
