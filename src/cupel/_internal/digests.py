"""Digests of chat messages, which depend neither on the order of fields nor on cache breakpoints."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final, cast

import msgspec

_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
"""Fields that callers move from message to message while the conversation stays the same."""


def message_digest(message: object) -> bytes:
    """Return a digest of a message, or of any other part of a request."""
    return blake2b(message_json(message), digest_size=12).digest()


def message_json(message: object) -> bytes:
    """Return a message as JSON with sorted keys, without cache breakpoints; other objects by their class.

    >>> message_json({"role": "user", "content": "Hi", "cache_control": {"type": "ephemeral"}})
    b'{"content":"Hi","role":"user"}'
    """
    try:
        text = _ENCODER.encode(message)
        if any(mark.encode() in text for mark in _MARKS):
            text = _ENCODER.encode(_unmarked(msgspec.json.decode(text)))
    except (OverflowError, RecursionError, TypeError, ValueError):  # large integers, lone surrogates, cycles
        try:
            return json.dumps(message, sort_keys=True, default=_plain).encode()
        except (RecursionError, TypeError, ValueError):
            return repr(message).encode("utf-8", "surrogatepass")
    return text


def _unmarked(value: object) -> object:
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value)
        return {key: _unmarked(inner) for key, inner in entries.items() if key not in _MARKS}
    if isinstance(value, list):
        return [_unmarked(inner) for inner in cast("list[object]", value)]
    return value


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_none=True) if callable(dump) else type(value).__qualname__


_ENCODER: Final = msgspec.json.Encoder(order="sorted", enc_hook=_plain)
