"""The three formats, what each allows, and how to tell them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from cupel.errors import ConfigurationError
from cupel.integrations.messages import _anthropic, _openai, _responses
from cupel.integrations.messages._ends import Ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cupel.integrations.messages._media import ImageRule
    from cupel.integrations.messages._plain import JSON
    from cupel.integrations.messages._reading import Reading
    from cupel.integrations.messages._unit import Unit

Provider = Literal["anthropic", "openai", "openai-responses"]
"""The wire format of a history."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One format: how its messages are read and grouped, and which sequences it takes."""

    name: str
    read: Callable[[JSON, str, ImageRule], Reading]
    group: Callable[[Sequence[Reading]], list[Unit]]
    strict_ends: bool
    """The user must speak first, and last unless the history ends with the assistant, whatever had to be dropped."""
    request: int
    """Tokens of a request besides its messages."""
    tools: int
    """Tokens that tools cost besides their schemas."""


def _group_between_users(readings: Sequence[Reading]) -> list[Unit]:
    units = _openai.group(readings)
    Ends.strict(len(readings)).spoil(units)
    return units


DIALECTS = {
    "anthropic": Dialect("anthropic", _anthropic.read, _anthropic.group, strict_ends=True, request=3, tools=346),
    "openai": Dialect("openai", _openai.read, _openai.group, strict_ends=False, request=3, tools=12),
    "openai-responses": Dialect(
        "openai-responses", _responses.read, _responses.group, strict_ends=False, request=3, tools=12
    ),
}
FRAMEWORK = Dialect("framework", _openai.read, _group_between_users, strict_ends=True, request=3, tools=346)
"""For histories that a framework will translate for any provider: pairs like OpenAI's, ends like Anthropic's."""

_ANTHROPIC_BLOCKS = frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"))
_OPENAI_PARTS = frozenset(("image_url", "input_audio", "refusal", "file"))
_RESPONSES_PARTS = frozenset(("input_text", "output_text", "input_image", "input_file"))


def dialect_of(messages: Sequence[JSON], provider: str | None, *, system: object) -> Dialect:
    """The dialect a caller named, or else the one that the messages speak."""
    if provider is not None:
        if provider not in DIALECTS:
            msg = f"provider must be one of {', '.join(get_args(Provider))}, got {provider!r}"
            raise ConfigurationError(msg)
        return DIALECTS[provider]
    spoken = set(_marks(messages))
    weak = spoken & {"system-role", "not-anthropic"}
    spoken -= weak
    if (weak and not spoken and system is None) or ("not-anthropic" in weak and "anthropic" in spoken):
        spoken.add("openai")
    if len(spoken) > 1:
        msg = f"messages mix the formats {' and '.join(sorted(spoken))}; convert them to one, or name it with provider="
        raise ConfigurationError(msg)
    # Plain user and assistant texts are the same in every format; the strictest rules then serve all of them.
    return DIALECTS[spoken.pop() if spoken else "anthropic"]


def _marks(messages: Sequence[JSON]) -> Iterable[str]:
    """The format that each telling trait belongs to, or what a system message rules out."""
    for position, message in enumerate(messages):
        # The messages that Anthropic's API returns have a type too, and name their model.
        if "type" in message and not (message["type"] == "message" and "model" in message):
            yield "openai-responses"
        role = message.get("role")
        if role in ("tool", "function") or message.get("tool_calls") or message.get("function_call"):
            yield "openai"
        elif role == "developer" or (role == "system" and position == 0):
            yield "not-anthropic"
        elif role == "system":
            yield "system-role"
        content: Any = message.get("content")
        for part in content if isinstance(content, list) else ():  # pyright: ignore[reportUnknownVariableType]
            yield from _part_marks(part)


def _part_marks(part: Any) -> Iterable[str]:
    kind = part.get("type") if isinstance(part, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if kind in _ANTHROPIC_BLOCKS:
        yield "anthropic"
    elif kind in _RESPONSES_PARTS:
        yield "openai-responses"
    elif kind in _OPENAI_PARTS:
        yield "openai"
