"""The table of formats, and how to tell them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast, get_args

from cupel._internal.checks import as_text, did_you_mean, shown, wrong_type
from cupel.errors import ConfigurationError
from cupel.messages._formats import anthropic, bedrock, chat, gemini, openai, responses
from cupel.messages._formats.media import ImageRule
from cupel.messages._plain import fields, is_sequence, plain, plain_message
from cupel.messages._units import NO_CALL, NO_RESULT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.messages._formats.format import Format
    from cupel.messages._plain import JSON
    from cupel.messages._units import Message

Provider = Literal["anthropic", "bedrock", "gemini", "openai", "openai-responses"]
"""The wire format of a history."""
REPLY_FRAME = 3
"""Tokens that begin the model's reply."""

_MODULES = (anthropic, bedrock, gemini, openai, responses)
FORMATS: dict[str, Format] = {one.FORMAT.name: one.FORMAT for one in _MODULES}
FRAMEWORK = replace(
    openai.FORMAT,
    name="framework",
    check=chat.unchecked,
    tool_tokens=anthropic.tool_tokens,
    prices=anthropic.FORMAT.prices,
    strict_ends=True,
    thinking_opens_loops=True,
)
"""For histories that a framework translates for any provider: pairs like OpenAI's, ends and loops like Anthropic's.

A message thinks if its `reasoning` is not empty, or if its first part is of type `thinking` or `redacted_thinking`.
Parts that are Anthropic's blocks of server tools are held together as there.
"""
PLAIN = replace(anthropic.FORMAT, tool_tokens=anthropic.schema_tokens)
"""User and assistant texts are the same in every format; the strictest rules then suit all of them."""

_OPENAI_PARTS = frozenset(("input_audio", "refusal"))
"""Parts that both of OpenAI's formats have."""
_OPENAI, _SYSTEM = "one of OpenAI's", "system role"
"""Traits of messages that are no format's own."""


def provider_of(
    messages: Sequence[object], *, system: object = None, tools: Sequence[object] | None = None
) -> Provider:
    """Return the format of a history, as `fit` recognises it; one that any format would take counts as Anthropic's.

    >>> provider_of([{"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}])
    'openai-responses'
    """
    if not is_sequence(messages):
        raise wrong_type("messages", "a list of messages", messages)
    traits = [traits_of(plain_message(message, f"messages[{index}]")) for index, message in enumerate(messages)]
    return cast("Provider", detect_format(traits, None, system=system, tools=plain(tools, "tools")).name)


def read_message(message: object, provider: Provider, *, path: str = "message") -> Message:
    """Return the role, texts, calls and results of one message, without changing it; `path` names it in errors.

    >>> call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"page": 2}'}}
    >>> info = read_message({"role": "assistant", "content": "I look.", "tool_calls": [call]}, "openai")
    >>> info.role, info.calls, info.tools, info.arguments
    ('assistant', ['1'], ['look'], ['{"page": 2}'])
    """
    fmt = FORMATS[provider]
    return fmt.read(fmt.normal(plain_message(message, path)), path, ImageRule(None))


def has_all_pairs(infos: Sequence[Message], provider: Provider) -> bool:
    """Return whether each call among the messages of a request has its result, and each result its call, in its place.

    >>> call = {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}
    >>> has_all_pairs([read_message(call, "openai-responses")], "openai-responses")
    False
    """
    units = FORMATS[provider].group(infos)
    return all(unit.rejection not in (NO_CALL, NO_RESULT) for unit in units)


def traits_of(message: JSON) -> frozenset[str]:
    """Return the formats that a message belongs to, and the traits that say which it does not belong to."""
    role, content = message.get("role"), message.get("content")
    found = {name for name, one in FORMATS.items() if one.recognises(message)}
    parts = content if is_sequence(content) else ()
    if role == "developer" or any(fields(part).get("type") in _OPENAI_PARTS for part in parts):
        found.add(_OPENAI)
    if role == "system":
        found.add(_SYSTEM)
    return frozenset(found)


def detect_format(traits: Sequence[frozenset[str]], provider: str | None, *, system: object, tools: object) -> Format:
    """Return the format that a caller named, or else that of the messages, or else that of the tools."""
    if provider is not None:
        if as_text("provider", provider) not in FORMATS:
            hint = did_you_mean(provider, FORMATS)
            msg = f"provider must be one of {', '.join(get_args(Provider))}, got {shown(provider)}{hint}"
            raise ConfigurationError(msg)
        return FORMATS[provider]
    everywhere = frozenset[str]().union(*traits)
    found = set(everywhere & FORMATS.keys())
    opens_with_system = bool(traits) and _SYSTEM in traits[0]
    if found == {"anthropic"} and opens_with_system and _OPENAI not in everywhere:
        return FORMATS["anthropic"]  # whose reader says where the system prompt belongs
    if found <= {"anthropic"} and (_OPENAI in everywhere or opens_with_system):
        found.add("openai")
    if not found and system is None and _SYSTEM in everywhere:
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
