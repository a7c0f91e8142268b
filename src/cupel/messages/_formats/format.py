"""The interface of a format: how its messages are read and grouped, and which sequences of them are valid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cupel.messages._formats.marks import Mark
    from cupel.messages._formats.media import ImageRule
    from cupel.messages._plain import JSON
    from cupel.messages._units import MessageInfo, Unit
    from cupel.tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format of chat histories. Its module builds it, and the table lists it."""

    name: str
    read: Callable[[JSON, str, ImageRule], MessageInfo]
    """Read one message; the string is its path, for errors."""
    group: Callable[[Sequence[MessageInfo]], list[Unit]]
    """Group messages into units, and reject those that can never be sent."""
    tool_tokens: Callable[[Sequence[Any], TokenCounter], int]
    """Count the tokens of tool definitions."""
    recognises: Callable[[JSON], bool]
    """Whether a message has a trait that only this format has."""
    recognises_tool: Callable[[JSON], bool]
    """Whether a tool definition is one of this format."""
    mark: Mark | None = None
    """How a cache breakpoint is written."""
    strict_ends: bool = False
    """Whether the first message must be the user's, and the last one too unless the history ends with the assistant."""
    thinking: bool = False
    """Whether a running tool loop that began with thinking must still begin with it."""
    results_are_user: bool = False
    """Whether tool results are part of user messages, rather than separate messages."""
