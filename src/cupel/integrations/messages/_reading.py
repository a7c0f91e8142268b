"""What a fit needs to know of one message, whatever its provider."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Role = Literal["assistant", "system", "tool", "user"]
"""Who speaks: `tool` is a message that answers calls, whatever its provider calls it."""


@dataclass(slots=True)
class Reading:
    """One message, read: who speaks, what it pairs with, what it weighs, and whether it can be sent at all."""

    role: Role
    calls: list[str] = field(default_factory=list[str])
    """Ids of the calls that must be answered."""
    results: list[str] = field(default_factory=list[str])
    """Ids of the calls that this answers."""
    tools: list[str] = field(default_factory=list[str])
    """Names of the tools called."""
    texts: list[str] = field(default_factory=list[str])
    """Everything that is counted as text."""
    extra: int = 0
    """Tokens that are not text: the message's frame, images, calls' frames."""
    opens_thinking: bool = False
    """Its first block is the model's reasoning."""
    ends_thinking: bool = False
    """Its last block is the model's reasoning, which something must follow."""
    ends_blank: bool = False
    """Its last text ends in white space."""
    flaw: str | None = None
    """Why no provider would take this message, wherever it stands."""

    def spoil(self, flaw: str) -> None:
        """Note that the message cannot be sent; the first reason stays."""
        if self.flaw is None:
            self.flaw = flaw


EMPTY_CONTENT = "empty content"
"""The flaw of a message, or of a block in it, that says nothing."""
