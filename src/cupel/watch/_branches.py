"""The documents that are recorded and shown: a branch of a conversation, with a turn for each request.

The watcher's thread writes them; everybody else only reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from cupel.messages import Bill, Provider

TurnAction = Literal["looked", "append", "cut", "retry", "original"]


class WatchedTurn(msgspec.Struct, eq=False):
    """One request, and its answer as soon as there is one."""

    number: int
    """Its place in the branch, from 0."""
    at: float
    """When it arrived, in seconds since 1970."""
    model: str
    count: int
    """The number of messages in the client's request."""
    action: TurnAction = "looked"
    """`append` and `cut` as the session decided; `retry` repeats its choice for the same messages;
    `original` says that governing failed and the client's own request was sent."""
    seconds: float | None = None
    """How long the answer took; None while it runs."""
    status: int | None = None
    tokens: int = 0
    """Tokens of the request, by cupel's count."""
    usage: dict[str, Any] | None = None
    """The usage as the provider reported it."""
    bill: Bill | None = None
    """Cached, rewritten and new tokens and the price: the provider's own counts if it is `settled`, else estimated."""
    appended: Bill | None = None
    """The estimated bill of sending everything; None if everything was sent, on this turn and the one before."""
    explain: str = ""
    """`turn.explain()` of the session; empty where nothing was governed."""
    changes: list[tuple[tuple[int, ...], str]] = msgspec.field(default_factory=list[tuple[tuple[int, ...], str]])
    """Positions of messages that left, came back or changed their length, and why."""
    notes: list[str] = msgspec.field(default_factory=list[str])
    """Errors and remarks: a refused request, an interrupted stream."""
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Harmless headers of request and answer."""
    window: list[int] | None = None
    """The messages that were sent: positions in the client's request, or `~n` for number n of the branch's `forms`.

    None for the client's own messages; empty if they are not kept any more.
    """


class WindowMessage(NamedTuple):
    """A message that was sent in place of the client's own."""

    position: int | None
    """The position of the client's; None for a note in a separate message."""
    message: Any


class Branch(msgspec.Struct, eq=False, kw_only=True):
    """Requests of which each continues the one before it."""

    session: str
    """The names of the conversation and of the branch, with a dot between them."""
    title: str
    """The beginning of the first message of the user."""
    provider: Provider
    parent: str | None = None
    """The branch that this one continues differently, and after how many messages."""
    forked: int = 0
    replay_from: int = 0
    """The number of messages in its first request, if it is a fork: `cupel replay` counts no answer before these."""
    system: Any = None
    tools: list[Any] | None = None
    messages: list[Any] = msgspec.field(default_factory=list[Any])
    """The messages of the newest request, and the model's answer."""
    answered: int = 0
    """How many of the messages are the answer."""
    parameters: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """The other fields of the newest request."""
    turns: list[WatchedTurn] = msgspec.field(default_factory=list[WatchedTurn])
    forms: list[WindowMessage] = msgspec.field(default_factory=list[WindowMessage])
    """The messages that were sent in place of the client's own, in any turn."""
    state: str | None = None
    """The state of the session that governs it."""
    in_full: str | None = None
    """The state of the session that sends everything, to say what that costs."""

    @property
    def conversation(self) -> str:
        """The name of the conversation, which several branches share."""
        return self.session.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The number of the branch in its conversation."""
        return self.session.rpartition(".")[2]

    @property
    def asked(self) -> list[Any]:
        """The messages of the newest request."""
        return self.messages[: len(self.messages) - self.answered]

    @property
    def total(self) -> Bill:
        """The bill of all turns."""
        return sum((turn.bill for turn in self.turns if turn.bill is not None), Bill())

    @property
    def appended(self) -> Bill:
        """The bill of sending everything on all turns."""
        bills = (turn.appended or turn.bill for turn in self.turns)
        return sum((bill for bill in bills if bill is not None), Bill())

    def sent(self, turn: WatchedTurn) -> list[WindowMessage]:
        """Return the messages that a turn sent, and the position of each in the client's request."""
        window: Sequence[int] = range(turn.count) if turn.window is None else turn.window
        return [WindowMessage(at, self.messages[at]) if at >= 0 else self.forms[~at] for at in window]
