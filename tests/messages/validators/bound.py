"""Providers that bind thinking to what came before it: a block is refused behind anything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

Message = dict[str, Any]
Block = dict[str, Any]

_THINKING = {
    "anthropic": lambda block: block.get("type") in ("thinking", "redacted_thinking"),
    "bedrock": lambda block: "reasoningContent" in block,
}


def thinks(provider: str) -> bool:
    """Whether the provider's models write thinking that is bound."""
    return provider in _THINKING


def without_thinking(provider: str, message: Message) -> Message:
    """Return a message without its thinking."""
    content = message.get("content")
    if not thinks(provider) or message.get("role") != "assistant" or not isinstance(content, list):
        return message
    return {**message, "content": [block for block in content if not _THINKING[provider](block)]}


def thought_again(provider: str, message: Message, time: int) -> Message:
    """Return a message with its thinking as a model writes it another time: the same thoughts, signed anew."""
    if without_thinking(provider, message) == message:
        return message
    is_thinking = _THINKING[provider]
    return {
        **message,
        "content": [_signed(block, time) if is_thinking(block) else block for block in message["content"]],
    }


def _signed(value: Any, time: int) -> Any:
    """Return a block of thinking with its signature, or what is redacted, changed."""
    if not isinstance(value, dict):
        return value
    return {
        key: inner + (f".{time}".encode() if isinstance(inner, bytes) else f".{time}")
        if key in ("signature", "data", "redactedContent")
        else _signed(inner, time)
        for key, inner in value.items()
    }


class BoundThinking:
    """A provider that remembers what stood before each block of thinking when its model wrote it.

    Args:
        provider: the format of the messages.
        opening: tools and system prompt.
    """

    def __init__(self, provider: str, opening: Any = None) -> None:
        self._provider = provider
        self.opening = opening
        self._prefixes: dict[str, set[str]] = {}
        """The digests of what may stand before a block."""

    def write(self, request: list[Message], written: list[Message]) -> None:
        """Take messages that were written after a request: the model's, and the results and words between them."""
        for block, before in self._walk([*request, *written]):
            at = self._key(block)
            if at not in self._prefixes:
                self._prefixes[at] = {before}

    def refused(self, request: list[Message]) -> list[str]:
        """Return the blocks of a request that stand behind something else than when they were written."""
        return [
            f"thinking behind another prefix: {json.dumps(block, default=repr)[:80]}"
            for block, before in self._walk(request)
            if before not in self._prefixes.get(self._key(block), ())
        ]

    def _walk(self, messages: list[Message]) -> Iterator[tuple[Block, str]]:
        """Yield each block of thinking with a digest of everything before it."""
        digest = sha256(self._key(self.opening).encode())
        for message in messages if thinks(self._provider) else ():
            for block in _blocks(message):
                if message["role"] == "assistant" and _THINKING[self._provider](block):
                    yield block, digest.hexdigest()
                digest.update(f"{message['role']}: {self._key(block)}\n".encode("utf-8", "surrogatepass"))

    @staticmethod
    def _key(value: Any) -> str:
        return json.dumps(value, sort_keys=True, default=repr)


def _blocks(message: Message) -> list[Block]:
    """The blocks of a message, without breakpoints; neighbours of one role are one message to the provider."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [_unmarked(block) for block in blocks if "cachePoint" not in block]


def _unmarked(block: Block) -> Block:
    plain = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(plain.get("content"), list):
        plain["content"] = [_unmarked(inner) for inner in plain["content"]]
    return plain
