"""The three formats, what each allows, and how to tell them apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from cupel._checks import as_text, shown, wrong_type
from cupel.errors import ConfigurationError
from cupel.messages import _anthropic, _openai, _responses
from cupel.messages._plain import fields, is_sequence, plain, plain_message
from cupel.messages._tools import anthropic_tools, openai_tools, schema_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cupel.messages._media import ImageRule
    from cupel.messages._plain import JSON
    from cupel.messages._reading import Reading
    from cupel.messages._unit import Unit
    from cupel.tokens import TokenCounter

Provider = Literal["anthropic", "openai", "openai-responses"]
"""The wire format of a history."""
REPLY_FRAME = 3
"""Tokens that begin the model's reply."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One format: how its messages are read and grouped, which sequences it takes, and what its tools cost."""

    name: str
    read: Callable[[JSON, str, ImageRule], Reading]
    group: Callable[[Sequence[Reading]], list[Unit]]
    tools: Callable[[Sequence[Any], TokenCounter], int]
    strict_ends: bool = False
    """The user must speak first, and last unless the history ends with the assistant, whatever had to be dropped."""
    thinking: bool = False
    """A running tool loop that began with thinking must still begin with it."""
    results_are_user: bool = False
    """Results are the user's messages; elsewhere they are messages of their own, which no turn is counted by."""


DIALECTS = {
    "anthropic": Dialect(
        "anthropic",
        _anthropic.read,
        _anthropic.group,
        anthropic_tools,
        strict_ends=True,
        thinking=True,
        results_are_user=True,
    ),
    "openai": Dialect("openai", _openai.read, _openai.group, openai_tools),
    "openai-responses": Dialect("openai-responses", _responses.read, _responses.group, openai_tools),
}
FRAMEWORK = Dialect("framework", _openai.read, _openai.group, anthropic_tools, strict_ends=True, thinking=True)
"""For histories that a framework will translate for any provider: pairs like OpenAI's, ends and loops like Anthropic's.

A message thinks if its `reasoning` is not empty, or if its first part is of type `thinking` or `redacted_thinking`.
Parts that are Anthropic's blocks of server tools are held together as there.
"""
PLAIN = replace(DIALECTS["anthropic"], tools=schema_tokens)
"""User and assistant texts are the same in every format; the strictest rules then serve all of them."""

_PART_MARKS = {
    "container_upload": "anthropic",
    "document": "anthropic",
    "file": "openai",
    "image": "anthropic",
    "image_url": "openai",
    "input_audio": "not-anthropic",
    "input_file": "openai-responses",
    "input_image": "openai-responses",
    "input_text": "openai-responses",
    "mcp_tool_use": "anthropic",
    "output_text": "openai-responses",
    "redacted_thinking": "anthropic",
    "refusal": "not-anthropic",
    "search_result": "anthropic",
    "server_tool_use": "anthropic",
    "thinking": "anthropic",
    "tool_result": "anthropic",
    "tool_use": "anthropic",
}
"""The format that a part of a message belongs to; both of OpenAI's have some."""
_OPENAI_FIELDS = ("audio", "function_call", "refusal", "tool_calls")


def provider_of(
    messages: Sequence[object], *, system: object = None, tools: Sequence[object] | None = None
) -> Provider:
    """Return the format of a history, as `fit` recognises it; one that any format would take counts as Anthropic's.

    >>> provider_of([{"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}])
    'openai-responses'
    """
    if not is_sequence(messages):
        raise wrong_type("messages", "a list of messages", messages)
    views = [plain_message(message, f"messages[{index}]") for index, message in enumerate(messages)]
    return cast("Provider", dialect_of(views, None, system=system, tools=plain(tools, "tools")).name)


def dialect_of(messages: Sequence[JSON], provider: str | None, *, system: object, tools: object) -> Dialect:
    """Return the dialect a caller named, or else the one that the messages speak, or else their tools."""
    if provider is not None:
        if as_text("provider", provider) not in DIALECTS:
            msg = f"provider must be one of {', '.join(get_args(Provider))}, got {shown(provider)}"
            raise ConfigurationError(msg)
        return DIALECTS[provider]
    marks = set(_marks(messages))
    spoken = marks & DIALECTS.keys()
    denied = "not-anthropic" in marks and spoken <= {"anthropic"}
    if denied or (not spoken and "system-role" in marks and system is None):
        spoken.add("openai")
    if len(spoken) > 1:
        msg = f"messages mix the formats {' and '.join(sorted(spoken))}; convert them to one, or name it with provider="
        raise ConfigurationError(msg)
    spoken = spoken or set(_tool_marks(tools)) or ({"anthropic"} if system is not None else set())
    return DIALECTS[spoken.pop()] if len(spoken) == 1 else PLAIN


def _marks(messages: Sequence[JSON]) -> Iterable[str]:
    """Return the format that each telling trait belongs to, or what it rules out."""
    for position, message in enumerate(messages):
        # The messages that Anthropic's API returns have a type too, and name their model.
        if "type" in message and not (message["type"] == "message" and "model" in message):
            yield "openai-responses"
        role = message.get("role")
        if role in ("tool", "function") or any(field in message for field in _OPENAI_FIELDS):
            yield "openai"
        elif role == "developer" or (role == "system" and position == 0):
            yield "not-anthropic"
        elif role == "system":
            yield "system-role"
        content: object = message.get("content")
        for part in content if is_sequence(content) else ():
            kind = str(fields(part).get("type"))
            mark = "anthropic" if kind.endswith("_tool_result") else _PART_MARKS.get(kind)
            if mark is not None:
                yield mark


def _tool_marks(tools: object) -> Iterable[str]:
    for tool in map(fields, tools if is_sequence(tools) else ()):
        if "input_schema" in tool:
            yield "anthropic"
        elif "function" in tool:
            yield "openai"
        elif tool.get("type") == "function":
            yield "openai-responses"
