"""The table of formats, and how to tell them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast, get_args

from cupel._checks import as_text, did_you_mean, shown, wrong_type
from cupel.errors import ConfigurationError
from cupel.messages._formats import anthropic, openai, responses
from cupel.messages._formats.media import ImageRule
from cupel.messages._plain import fields, is_sequence, plain, plain_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.messages._formats.format import Format
    from cupel.messages._plain import JSON
    from cupel.messages._units import MessageInfo

Provider = Literal["anthropic", "openai", "openai-responses"]
"""The wire format of a history."""
REPLY_FRAME = 3
"""Tokens that begin the model's reply."""

FORMATS: dict[str, Format] = {one.name: one for one in (anthropic.FORMAT, openai.FORMAT, responses.FORMAT)}
FRAMEWORK = replace(openai.FORMAT, name="framework", tool_tokens=anthropic.tool_tokens, strict_ends=True, thinking=True)
"""For histories that a framework translates for any provider: pairs like OpenAI's, ends and loops like Anthropic's.

A message thinks if its `reasoning` is not empty, or if its first part is of type `thinking` or `redacted_thinking`.
Parts that are Anthropic's blocks of server tools are held together as there.
"""
PLAIN = replace(anthropic.FORMAT, tool_tokens=anthropic.schema_tokens)
"""User and assistant texts are the same in every format; the strictest rules then suit all of them."""

_OPENAI_PARTS = frozenset(("input_audio", "refusal"))
"""Parts that both of OpenAI's formats have."""


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
    return cast("Provider", detect_format(views, None, system=system, tools=plain(tools, "tools")).name)


def read_message(message: object, provider: Provider, *, path: str = "message") -> MessageInfo:
    """Return the role, texts, calls and results of one message, without changing it; `path` names it in errors.

    >>> call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"page": 2}'}}
    >>> info = read_message({"role": "assistant", "content": "I look.", "tool_calls": [call]}, "openai")
    >>> info.role, info.calls, info.tools, info.arguments
    ('assistant', ['1'], ['look'], ['{"page": 2}'])
    """
    return FORMATS[provider].read(plain_message(message, path), path, ImageRule(None))


def detect_format(messages: Sequence[JSON], provider: str | None, *, system: object, tools: object) -> Format:
    """Return the format that a caller named, or else that of the messages, or else that of the tools."""
    if provider is not None:
        if as_text("provider", provider) not in FORMATS:
            hint = did_you_mean(provider, FORMATS)
            msg = f"provider must be one of {', '.join(get_args(Provider))}, got {shown(provider)}{hint}"
            raise ConfigurationError(msg)
        return FORMATS[provider]
    found = {name for name, one in FORMATS.items() if any(map(one.recognises, messages))}
    if found == {"anthropic"} and messages[0].get("role") == "system" and not _are_openai(messages[1:]):
        return FORMATS["anthropic"]  # whose reader says where the system prompt belongs
    if (found <= {"anthropic"} and _are_openai(messages)) or (not found and system is None and _have_system(messages)):
        found.add("openai")
    if len(found) > 1:
        msg = f"messages mix the formats {' and '.join(sorted(found))}; convert them to one, or name it with provider="
        raise ConfigurationError(msg)
    if not found:
        listed = [fields(tool) for tool in tools] if is_sequence(tools) else []
        found = {name for name, one in FORMATS.items() if any(map(one.recognises_tool, listed))}
    if not found and system is not None:
        found = {"anthropic"}
    return FORMATS[found.pop()] if len(found) == 1 else PLAIN


def _are_openai(messages: Sequence[JSON]) -> bool:
    """Return whether messages have a trait of both OpenAI formats that Anthropic's has not."""
    for position, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role == "developer" or (role == "system" and position == 0):
            return True
        if any(fields(part).get("type") in _OPENAI_PARTS for part in (content if is_sequence(content) else ())):
            return True
    return False


def _have_system(messages: Sequence[JSON]) -> bool:
    return any(message.get("role") == "system" for message in messages)
