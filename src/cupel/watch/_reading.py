"""Read the bodies of model calls: Chat Completions, Responses and Anthropic Messages, whole or streamed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import msgspec

from cupel._digests import message_digest
from cupel._documents import is_list, is_object
from cupel.messages import Provider

MAX_BODY: Final = 64_000_000
"""Bytes of a body, unpacked, that are read; a longer one is only forwarded."""
_BILLING: Final = "x-anthropic-billing-header"
"""Claude Code begins its system prompt with such a block; it differs from call to call and is no part of the prompt."""
_MARK: Final = b'"cache_control"'
_RAW_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


class ModelCall(NamedTuple):
    """A kind of call whose messages can be read."""

    provider: Provider
    messages: str
    """The field that holds the messages."""
    system: str | None
    """The field that holds the system prompt, where that is not a message."""
    counts: bool = False
    """Whether it only counts the tokens of a request."""


_CALLS: Final = {
    "/chat/completions": ModelCall("openai", "messages", None),
    "/responses": ModelCall("openai-responses", "input", "instructions"),
    "/responses/input_tokens": ModelCall("openai-responses", "input", "instructions", counts=True),
    "/v1/messages": ModelCall("anthropic", "messages", "system"),
    "/v1/messages/count_tokens": ModelCall("anthropic", "messages", "system", counts=True),
}


def call_of(method: str, path: str) -> ModelCall | None:
    """Return the kind of a call, by its path; None for everything that is only forwarded.

    >>> call_of("POST", "/openai/chat/completions").provider, call_of("POST", "/v1/embeddings")
    ('openai', None)
    """
    if method != "POST":
        return None
    return next((call for ending, call in _CALLS.items() if path.endswith(ending)), None)


class UnreadableError(ValueError):
    """A body is not one that can be read; it is forwarded all the same."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The body of a model call."""

    call: ModelCall
    fields: dict[str, msgspec.Raw]
    """Every field, as the client wrote it."""
    raw: list[msgspec.Raw]
    messages: list[Any]
    system: Any
    tools: list[Any] | None
    obstacle: str
    """Why the messages must be sent as they are; empty if they may be replaced."""

    @property
    def model(self) -> str:
        """The name of the model."""
        return str(self.value("model") or "")

    @property
    def parameters(self) -> dict[str, Any]:
        """Every field but messages, system prompt and tools."""
        apart = (self.call.messages, self.call.system, "tools")
        return {name: self.value(name) for name in self.fields if name not in apart}

    @property
    def marks(self) -> int | None:
        """The cache marks before the messages; None for a request without any mark, which is not cached."""
        before = sum(bytes(raw).count(_MARK) for name, raw in self.fields.items() if name != self.call.messages)
        before += "cache_control" in self.fields
        return before if before or any(_MARK in bytes(raw) for raw in self.raw) else None

    def value(self, name: str) -> Any:
        """Return a field, decoded; None if there is none."""
        return _decoded(self.fields[name]) if name in self.fields else None

    def with_messages(self, messages: Sequence[Any]) -> bytes:
        """Return the body with other messages; the client's own, and all other fields, keep their bytes."""
        own = {id(message): raw for message, raw in zip(self.messages, self.raw, strict=True)}
        chosen = [own.get(id(message), message) for message in messages]
        return msgspec.json.encode({**self.fields, self.call.messages: chosen})


def read_request(call: ModelCall, body: bytes, encoding: str = "") -> ReadRequest:
    """Read the body of a model call; raise UnreadableError if it is none."""
    try:
        fields = _RAW_FIELDS.decode(unpacked_body(body, encoding))
        given = fields.get(call.messages)
        listed = given is not None and bytes(given).lstrip().startswith(b"[")
        raw = _RAW_LIST.decode(given) if given is not None and listed else []
        messages = [_decoded(one) for one in raw]
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"the request is no JSON object: {error}") from error
    if given is not None and not listed:
        messages, raw = [{"role": "user", "content": _decoded(given)}], [given]
    system = _decoded(fields[call.system]) if call.system in fields else None
    tools = _decoded(fields["tools"]) if "tools" in fields else None
    obstacle = "" if listed else f"{call.messages} is not a list"
    for name in ("previous_response_id", "conversation"):
        if call.provider == "openai-responses" and name in fields and _decoded(fields[name]) is not None:
            obstacle = f"the provider keeps the history ({name})"
    return ReadRequest(
        call, fields, raw, messages, _without_billing(system), tools if is_list(tools) else None, obstacle
    )


def _decoded(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except ValueError:
        return json.loads(bytes(raw))  # lone surrogates


def _without_billing(system: Any) -> Any:
    if not is_list(system):
        return system
    return [block for block in system if not (is_object(block) and str(block.get("text")).startswith(_BILLING))] or None


def digests_of(messages: Sequence[Any]) -> list[bytes]:
    """Return a digest of each message."""
    return list(map(message_digest, messages))


def opening_of(system: Any, tools: Any) -> tuple[bytes, bytes]:
    """Return digests of the system prompt and of the tools."""
    return message_digest(system), message_digest(tools)


def unpacked_body(body: bytes, encoding: str) -> bytes:
    """Return a body without its content encoding, up to `MAX_BODY` bytes."""
    for name in reversed([one.strip().lower() for one in encoding.split(",")]):
        if name in {"gzip", "x-gzip", "deflate"}:
            body = _inflated(body, name)
        elif name not in {"", "identity"}:
            raise UnreadableError(f"it is compressed with {name}")
    if len(body) > MAX_BODY:
        raise UnreadableError(f"it has more than {MAX_BODY:,} bytes")
    return body


def _inflated(body: bytes, name: str) -> bytes:
    """Return as much of a compressed body as there is: an interrupted answer has no end."""
    bare = name == "deflate" and body[:1] != b"\x78"  # some servers leave out the header of zlib
    try:
        return zlib.decompressobj(-15 if bare else 47).decompress(body, MAX_BODY + 1)
    except zlib.error as error:
        raise UnreadableError(f"it cannot be unpacked: {error}") from error


class ReadAnswer(NamedTuple):
    """The model's answer."""

    messages: list[Any]
    """As messages that can be sent back."""
    usage: dict[str, Any] | None


def read_answer(call: ModelCall, body: bytes, *, encoding: str = "", content_type: str = "") -> ReadAnswer:
    """Read an answer, whole or streamed, as far as it goes; raise UnreadableError if it is none."""
    text = unpacked_body(body, encoding)
    try:
        if content_type.startswith("text/event-stream"):
            return _STREAMED[call.provider](list(_events(text)))
        return _whole(call, json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"the answer cannot be read: {error!r}") from error


def _whole(call: ModelCall, answer: Any) -> ReadAnswer:
    usage = answer.get("usage") if is_object(answer) else None
    if call.counts or not is_object(answer):
        return ReadAnswer([], None)
    messages: list[Any]
    if call.provider == "openai":
        messages = [choice["message"] for choice in _entries(answer, "choices")[:1]]
    elif call.provider == "openai-responses":
        messages = _entries(answer, "output")
    else:
        messages = [_assistant(answer["content"])] if answer.get("content") else []
    return ReadAnswer(messages, usage if is_object(usage) else None)


def _entries(fields: Any, name: str) -> list[Any]:
    found = fields.get(name)
    return found if is_list(found) else []


def _assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def _events(text: bytes) -> Iterator[dict[str, Any]]:
    """Yield the data of server-sent events, up to the last whole one."""
    for event in text.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if data and data != b"[DONE]":
            try:
                found = json.loads(data)
            except ValueError:
                return  # the stream was interrupted here
            if is_object(found):
                yield found


def _chat(events: Sequence[dict[str, Any]]) -> ReadAnswer:
    usage: dict[str, Any] | None = None
    texts: dict[str, str] = {}
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        usage = event.get("usage") or usage
        for delta in [choice["delta"] for choice in _entries(event, "choices") if not choice.get("index")]:
            for name in ("content", "refusal", "reasoning_content"):
                if isinstance(delta.get(name), str):
                    texts[name] = texts.get(name, "") + delta[name]
            for part in _entries(delta, "tool_calls"):
                function = part["function"]
                call = calls.setdefault(
                    part.get("index", len(calls)),
                    {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
                )
                call["id"] = part.get("id") or call["id"]
                call["function"]["name"] += function.get("name") or ""
                call["function"]["arguments"] += function.get("arguments") or ""
    if not texts and not calls:
        return ReadAnswer([], usage)
    message: dict[str, Any] = {"role": "assistant", "content": None, **texts}
    if calls:
        message["tool_calls"] = [calls[at] for at in sorted(calls)]
    return ReadAnswer([message], usage)


def _responses(events: Sequence[dict[str, Any]]) -> ReadAnswer:
    ended = [
        event["response"] for event in events if is_object(event.get("response")) and event["response"].get("output")
    ]
    if ended:
        return ReadAnswer(list(ended[-1]["output"]), ended[-1].get("usage"))
    return ReadAnswer([event["item"] for event in events if event.get("type") == "response.output_item.done"], None)


_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def _anthropic(events: Sequence[dict[str, Any]]) -> ReadAnswer:
    usage: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in events:
        kind, at = event.get("type"), cast("int", event.get("index", 0))
        if kind == "message_start":
            usage |= event["message"].get("usage") or {}
        elif kind == "message_delta":
            ended = event.get("usage")
            usage |= {name: value for name, value in ended.items() if value is not None} if is_object(ended) else {}
        elif kind == "content_block_start":
            blocks[at] = dict(event["content_block"])
        elif kind == "content_block_delta" and at in blocks:
            delta = event["delta"]
            if delta.get("type") == "input_json_delta":
                inputs[at] = inputs.get(at, "") + delta["partial_json"]
            elif name := _DELTAS.get(delta.get("type")):
                blocks[at][name] = blocks[at].get(name, "") + delta[name]
    for at, text in inputs.items():
        blocks[at]["input"] = json.loads(text) if text else {}
    content = [blocks[at] for at in sorted(blocks)]
    return ReadAnswer([_assistant(content)] if content else [], usage or None)


_STREAMED: Final = {"openai": _chat, "openai-responses": _responses, "anthropic": _anthropic}
