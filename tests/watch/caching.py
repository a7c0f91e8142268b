"""A provider with a prompt cache: it keeps the prefixes of requests, and reports what it served from them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, NamedTuple

from tests.watch.agent import FIELD, says
from tests.watch.upstream import Received, Reply, answer


class Served(NamedTuple):
    """The tokens of a request."""

    total: int
    read: int
    written: int
    """Those that the request asked to cache and that were not in the cache."""
    again: int
    """Those that had been sent before and were not in the cache."""


class CachingProvider:
    """Counts tokens in its own way and caches whole blocks of 128 tokens; Anthropic's caches up to each mark.

    Args:
        provider: The format that it speaks.
        rate: Its tokens for four bytes of the messages.
        overhead: Its tokens for four bytes of everything else.
        miss: Every so many requests, nothing is found in the cache; 0 always finds everything.
        spread: The rates of messages differ by up to this share.
        block: Tokens of a cached block, but for Anthropic.
    """

    def __init__(
        self,
        provider: str,
        *,
        rate: float = 1.0,
        overhead: float = 1.0,
        miss: int = 0,
        spread: float = 0.0,
        block: int = 128,
    ) -> None:
        self.provider, self.rate, self.overhead, self.miss = provider, rate, overhead, miss
        self.spread, self.block = spread, block
        self.known: set[bytes] = set()
        """Prefixes, each of one model."""
        self.sent: set[bytes] = set()
        """Messages and other parts of requests."""
        self.served: list[Served] = []
        self.asked = 0

    def __call__(self, request: Received) -> Reply:
        return answer(self._told(*self.serve(request.json)[:3]))

    def serve(self, sent: dict[str, Any]) -> Served:
        """Remember a request; return its tokens and where they came from."""
        parts = [(part, self.overhead) for part in _opening(sent)]
        parts += [(part, self.rate) for part in sent[FIELD[self.provider]]]
        total = read = written = again = 0
        digest, ends = str(sent.get("model")).encode(), []
        for part, rate in parts:
            text = json.dumps(_without_marks(part))
            alone = blake2b(text.encode(), digest_size=12).digest()
            digest = blake2b(digest + alone, digest_size=12).digest()
            tokens = round(len(text) / 4 * rate * (1 + self.spread * (alone[0] / 128 - 1)))
            total += tokens
            again += tokens if alone in self.sent else 0
            self.sent.add(alone)
            read = total if digest in self.known else read
            if self.provider != "anthropic" or "cache_control" in json.dumps(part):
                ends.append(digest)
                written = total
        self.known.update(ends)
        self.asked += 1
        if self.miss and self.asked % self.miss == 0:
            read = 0
        if self.provider != "anthropic":
            read = 0 if read < 8 * self.block else read // self.block * self.block
        self.served.append(Served(total, read, max(0, written - read), max(0, again - read)))
        return self.served[-1]

    def expire(self) -> None:
        """Forget every prefix, as after the time to live."""
        self.known.clear()

    def _told(self, total: int, read: int, written: int) -> dict[str, Any]:
        said = says(self.provider, "Done.", total)
        if self.provider == "openai":
            said["usage"]["prompt_tokens_details"] = {"cached_tokens": read}
        elif self.provider == "openai-responses":
            said["usage"]["input_tokens_details"] = {"cached_tokens": read}
        else:
            said["usage"] |= {
                "input_tokens": total - read - written,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
            }
        return said


def _opening(sent: dict[str, Any]) -> list[Any]:
    """Return what comes before the messages; Claude Code's billing header, which changes at times, is no part of it."""
    system = sent.get("system") or sent.get("instructions") or []
    blocks = system if isinstance(system, list) else [{"type": "text", "text": system}]
    return [sent.get("tools"), *(one for one in blocks if not one["text"].startswith("x-anthropic-billing"))]


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
