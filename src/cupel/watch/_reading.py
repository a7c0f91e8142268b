"""Read the bodies of model calls: Chat Completions, Responses and Anthropic Messages, whole or streamed."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import msgspec

from cupel._internal.digests import message_digest
from cupel._internal.documents import is_list, is_object
from cupel.messages import Provider
from cupel.watch._branches import WindowMessage

MAX_BODY: Final = 64_000_000
"""Bytes of a body, unpacked, that are read; a longer one is only forwarded."""
_BILLING: Final = "x-anthropic-billing-header"
"""Claude Code begins its system prompt with such a block; it differs from call to call and is no part of the prompt."""
_MODEL: Final = re.compile(r"claude-([a-z]+)-(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_BOUND: Final = {"fable": (5, 1), "mythos": (5, 1)}
"""The versions from which models check what comes before their thinking, if not 5.5."""
_MARK: Final = b'"cache_control"'
_KEPT_HISTORIES: Final = ("previous_response_id", "conversation")
"""Fields that name a history which the provider keeps; only the Responses API has them."""
_RAW_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


Answer = tuple[list[Any], dict[str, Any] | None]
"""The model's messages, which can be sent back, and the usage."""
_Assemble = Callable[[Sequence[dict[str, Any]]], dict[str, Any]]
_Messages = Callable[[dict[str, Any]], list[Any]]


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


_BELOW_VERSION: Final = ("/messages", "/messages/count_tokens")
"""Paths of clients whose base URL for Anthropic ends in `/v1`."""
_PATH: Final = re.compile(
    r"(/(messages|completions?|responses|chat|generate|converse|invoke)(-[a-z-]+)?|enerateContent)$"
)
_BODY: Final = re.compile(rb'"(messages|contents|prompt)"\s*:')


def call_of(method: str, path: str) -> ModelCall | None:
    """Return the kind of a call, by its path below the upstream; None for everything that is only forwarded.

    >>> call_of("POST", "/openai/chat/completions").provider, call_of("POST", "/v1/embeddings")
    ('openai', None)
    """
    if method != "POST":
        return None
    full = f"/v1{path}" if path in _BELOW_VERSION else path
    return next((call for ending, call in _CALLS.items() if full.endswith(ending)), None)


def path_at(base: str, path: str) -> str:
    """Return the path of a call at an upstream, with its version once: clients differ in whether their base URL has it.

    >>> path_at("/v1", "/v1/messages"), path_at("/", "/messages"), path_at("/gateway", "")
    ('/v1/messages', '/v1/messages', '/gateway')
    """
    base = base.rstrip("/")
    if base.endswith("/v1") and f"{path}/".startswith("/v1/"):
        path = path[3:]
    elif path in _BELOW_VERSION and not base.endswith("/v1"):
        path = f"/v1{path}"
    return f"{base}{path}" or "/"


def looks_like_call(method: str, path: str, beginning: bytes) -> bool:
    """Return whether a request asks a model for something, as its path or the beginning of its body tells.

    >>> looks_like_call("POST", "/v1beta/models/m:generateContent", b""), looks_like_call("POST", "/v1/files", b"{}")
    (True, False)
    """
    return method == "POST" and bool(_PATH.search(path) or (b'"model"' in beginning and _BODY.search(beginning)))


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
    digests: list[bytes]
    """A digest of each message."""
    opening: tuple[bytes, bytes]
    """Digests of the system prompt and of the tools."""

    @property
    def model(self) -> str:
        """The name of the model."""
        return str(self.value("model") or "")

    @property
    def thinking(self) -> Literal["bound", "loop"]:
        """What the model demands of its thinking: older ones think on a budget that the request sets."""
        named = _MODEL.search(self.model)
        if named and (int(named[2]), int(named[3] or 0)) >= _BOUND.get(named[1], (5, 5)):
            return "bound"
        given: object = self.value("thinking")
        is_manual = isinstance(given, dict) and ("type", "enabled") in given.items()  # pyright: ignore[reportUnknownMemberType]
        return "loop" if is_manual else "bound"

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
        return msgspec.json.decode(self.fields[name]) if name in self.fields else None

    @property
    def cacheable(self) -> float:
        """The share of its bytes that a cache may hold: those up to the last mark, or all where callers set none."""
        if self.call.provider != "anthropic" or "cache_control" in self.fields:
            return 1.0
        beyond = sum(len(bytes(raw)) for raw in self.raw[max(self.marked, default=-1) + 1 :])
        return 1 - beyond / sum(len(bytes(raw)) for raw in self.fields.values())

    @property
    def marked(self) -> list[int]:
        """The positions of messages with a cache mark."""
        return [at for at, raw in enumerate(self.raw) if _MARK in bytes(raw)]

    def with_messages(self, window: Sequence[int | WindowMessage]) -> bytes:
        """Return the body with other messages; the client's own, and all other fields, keep their bytes."""
        chosen = [self.raw[one] if isinstance(one, int) else one.message for one in window]
        return msgspec.json.encode({**self.fields, self.call.messages: chosen})


def read_request(call: ModelCall, body: bytes, encoding: str = "") -> ReadRequest:
    """Read the body of a model call; raise UnreadableError if it is none."""
    try:
        fields = _RAW_FIELDS.decode(unpacked_body(body, encoding))
        given = fields.get(call.messages)
        listed = given is not None and bytes(given).lstrip().startswith(b"[")
        raw = _RAW_LIST.decode(given) if given is not None and listed else []
        messages = [msgspec.json.decode(one) for one in raw]
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"the request is no JSON object: {error}") from error
    if given is not None and not listed:
        messages, raw = [{"role": "user", "content": msgspec.json.decode(given)}], [given]
    system = _without_billing(msgspec.json.decode(fields[call.system]) if call.system in fields else None)
    tools = msgspec.json.decode(fields["tools"]) if "tools" in fields else None
    obstacle = "" if listed else f"{call.messages} is not a list"
    for name in _KEPT_HISTORIES:
        if name in fields and msgspec.json.decode(fields[name]) is not None:
            obstacle = f"the provider keeps the history ({name})"
    tools = tools if is_list(tools) else None
    digests, opening = digests_of(messages), opening_of(system, tools)
    return ReadRequest(call, fields, raw, messages, system, tools, obstacle, digests, opening)


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


def read_answer(call: ModelCall, body: bytes, *, encoding: str = "", content_type: str = "") -> Answer:
    """Read an answer, whole or streamed, up to where it ends; raise UnreadableError if it is none."""
    assemble, messages_of = _ANSWERS[call.provider]
    text = unpacked_body(body, encoding)
    try:
        streamed = content_type.startswith("text/event-stream")
        answer = assemble(list(_events(text))) if streamed else json.loads(text)
        if call.counts or not is_object(answer):
            return [], None
        usage = answer.get("usage")
        return messages_of(answer), usage if is_object(usage) and usage else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"the answer cannot be read: {error!r}") from error


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


def _merge(whole: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add the next part of a streamed object: texts grow, and entries of lists are told apart by their index."""
    for name, value in delta.items():
        before = whole.get(name)
        if isinstance(before, str) and isinstance(value, str) and name not in _WHOLE_TEXTS:
            whole[name] = before + value
        elif is_object(before) and is_object(value):
            _merge(before, value)
        elif is_list(before) and is_list(value):
            for part in value:
                same = [one for one in before if is_object(part) and one.get("index") == part.get("index")]
                if same:
                    _merge(same[0], part)
                else:
                    before.append(part)
        elif value is not None or name not in whole:
            whole[name] = value


_WHOLE_TEXTS: Final = frozenset(("id", "role", "type"))
"""Texts that are not streamed in parts; some providers repeat them."""


def _chat(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": None}}]}
    message, said = answer["choices"][0]["message"], False
    for event in events:
        answer["usage"] = event.get("usage") or answer.get("usage")
        for choice in event.get("choices") or ():
            if not choice.get("index"):
                _merge(message, choice["delta"])
                said = said or bool(choice["delta"])
    for call in message.get("tool_calls") or ():
        call.pop("index", None)
    return answer if said else answer | {"choices": []}


def _responses(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    whole = [found for event in events if is_object(found := event.get("response")) and found.get("output")]
    done = [event["item"] for event in events if event.get("type") == "response.output_item.done"]
    return whole[-1] if whole else {"output": done}


def _anthropic(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {"usage": {}}
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            _merge(answer, {"usage": event["message"].get("usage") or {}})
        elif kind == "message_delta":
            _merge(answer, {"usage": event.get("usage") or {}})
        elif kind == "content_block_start":
            blocks[event["index"]] = event["content_block"]
        elif kind == "content_block_delta":
            part = event["delta"]
            _merge(blocks[event["index"]], {name: part[name] for name in _PARTS if name in part})
    for block in blocks.values():
        if "partial_json" in block:
            block["input"] = json.loads(block.pop("partial_json") or "{}")
    return answer | {"content": [blocks[at] for at in sorted(blocks)]}


_PARTS: Final = ("text", "thinking", "signature", "partial_json")
"""The fields of a delta that are parts of a block."""
_ANSWERS: Final[dict[str, tuple[_Assemble, _Messages]]] = {
    "openai": (_chat, lambda answer: [choice["message"] for choice in answer.get("choices") or ()][:1]),
    "openai-responses": (_responses, lambda answer: list(answer.get("output") or ())),
    "anthropic": (
        _anthropic,
        lambda answer: [{"role": "assistant", "content": answer["content"]}] if answer.get("content") else [],
    ),
}
"""For each format, how a streamed answer is put together, and where the messages of an answer are."""
