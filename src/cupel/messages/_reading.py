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
    speaks: bool = False
    """It holds words of the user or the assistant; a message of results, if there are words beside them."""
    standing: bool = False
    """It holds for the rest of the conversation, whatever becomes of system messages."""
    calls: list[str] = field(default_factory=list[str])
    """Ids of the calls that must be answered."""
    results: list[str] = field(default_factory=list[str])
    """Ids of the calls that this answers."""
    begun: list[str] = field(default_factory=list[str])
    """Ids of work on the provider's side that begins here and ends in a later message: server tools, programs."""
    ended: list[str] = field(default_factory=list[str])
    """Ids of such work that began in an earlier message."""
    within: list[str] = field(default_factory=list[str])
    """Ids of the work that made this message's calls, where the model did not make them itself."""
    tools: list[str] = field(default_factory=list[str])
    """Names of the tools called."""
    texts: list[str] = field(default_factory=list[str])
    """Everything that is counted as text."""
    extra: int = 0
    """Tokens that are not text: the message's frame, images, calls' frames."""
    item_id: str | None = None
    """The id that the message has for itself, where those must differ."""
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
TWO_CALLS = "two calls with one id"
NO_CALL = "result without its call"
NO_RESULT = "call without its result"
