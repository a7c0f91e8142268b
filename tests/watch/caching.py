"""A provider with a prompt cache: it keeps the prefixes of requests, and reports what it served from them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from tests.watch.agent import FIELD, says
from tests.watch.upstream import Received, Reply, answer


class CachingProvider:
    """Counts tokens in its own way and caches whole blocks of 128 tokens; Anthropic's caches up to each mark.

    Args:
        provider: The format that it speaks.
        rate: Its tokens for four bytes of the messages.
        overhead: Its tokens for four bytes of everything else.
        miss: Every so many requests, nothing is found in the cache; 0 always finds everything.
    """

    def __init__(self, provider: str, *, rate: float = 1.0, overhead: float = 1.0, miss: int = 0) -> None:
        self.provider, self.rate, self.overhead, self.miss = provider, rate, overhead, miss
        self.known: set[bytes] = set()
        self.asked = 0

    def __call__(self, request: Received) -> Reply:
        return answer(self._told(*self.serve(request.json)))

    def serve(self, sent: dict[str, Any]) -> tuple[int, int]:
        """Remember a request; return its tokens, and those that the cache serves."""
        opening = {name: sent.get(name) for name in ("system", "instructions", "tools")}
        parts = [(opening, self.overhead), *((one, self.rate) for one in sent[FIELD[self.provider]])]
        total, read, digest, ends = 0, 0, b"", []
        for part, rate in parts:
            text = json.dumps(_without_marks(part))
            digest = blake2b(digest + text.encode(), digest_size=12).digest()
            total += round(len(text) / 4 * rate)
            read = total if digest in self.known else read
            if self.provider != "anthropic" or "cache_control" in json.dumps(part):
                ends.append(digest)
        self.known.update(ends)
        self.asked += 1
        if self.miss and self.asked % self.miss == 0:
            read = 0
        if self.provider != "anthropic":
            read = 0 if read < 1024 else read // 128 * 128
        return total, read

    def _told(self, total: int, read: int) -> dict[str, Any]:
        said = says(self.provider, "Done.", total)
        if self.provider == "openai":
            said["usage"]["prompt_tokens_details"] = {"cached_tokens": read}
        elif self.provider == "openai-responses":
            said["usage"]["input_tokens_details"] = {"cached_tokens": read}
        else:
            said["usage"] |= {
                "input_tokens": 0,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": total - read,
            }
        return said


def _without_marks(part: Any) -> Any:
    """Return a part of a request without marks, and its texts as blocks: the cache sees no difference."""
    if isinstance(part, dict):
        plain = {name: _without_marks(value) for name, value in part.items() if name != "cache_control"}
        text = plain.get("content") if "role" in plain else None
        return {**plain, "content": [{"type": "text", "text": text}]} if isinstance(text, str) else plain
    return [_without_marks(one) for one in part] if isinstance(part, list) else part


MARK = {"cache_control": {"type": "ephemeral"}}


def marked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark the last message, as agents do."""
    last = messages[-1]
    content = last["content"] if isinstance(last["content"], list) else [{"type": "text", "text": last["content"]}]
    return [*messages[:-1], {**last, "content": [*content[:-1], {**content[-1], **MARK}]}]
