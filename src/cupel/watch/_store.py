"""The conversations that were seen: the read-only side is what the page shows.

A `Store` holds conversations, a `Conversation` its branches, a `Branch` the newest messages and a `WatchedTurn` for
each request. `store.subscribe()` tells of every change. All of it is written by the proxy's own threads; everybody else
only reads. The page gets its routes from `_page.page_routes(store)`, which the server mounts at `/_cupel`.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from cupel.messages import Provider
from cupel.sessions import Bill

if TYPE_CHECKING:
    from cupel.watch._govern import Ledger

TurnAction = Literal["looked", "append", "repack", "retry", "original"]
_WAITING: Final = 256
"""Events that wait for a slow subscriber; then the oldest are dropped, so a subscriber re-reads what it shows."""
_WINDOWS: Final = 200
"""Turns of a branch whose governed requests stay in memory."""


class Event(NamedTuple):
    """A change: a turn began, or its answer ended."""

    conversation: str
    branch: str
    turn: int
    what: Literal["began", "ended"]


class SentWindow(NamedTuple):
    """The messages that were sent in place of the client's."""

    positions: Sequence[int]
    """The position of each in the client's request; -1 for a note in a separate message."""
    changed: Mapping[int, Any]
    """Messages that are not the client's own, by their place in this window."""


@dataclass(slots=True, eq=False)
class WatchedTurn:
    """One request and what is known of its answer."""

    number: int
    """Its place in the branch, from 0."""
    at: float
    """When it arrived, in seconds since 1970."""
    model: str
    count: int
    """The number of messages in the client's request."""
    action: TurnAction = "looked"
    """`append` and `repack` as the session decided; `retry` repeats the last request; `original` says that governing
    failed and the client's own request was sent."""
    seconds: float | None = None
    """How long the answer took; None while it runs."""
    status: int | None = None
    tokens: int = 0
    """Tokens of the request, by cupel's count."""
    usage: dict[str, Any] | None = None
    """The usage as the provider reported it."""
    bill: Bill | None = None
    """Cached, rewritten and new tokens and the price; settled with the usage where there is one."""
    appended: Bill | None = None
    """The bill of sending everything; None where that is what happened."""
    explain: str = ""
    """`turn.explain()` of the session; empty where nothing was governed."""
    changes: list[tuple[tuple[int, ...], str]] = field(default_factory=list[tuple[tuple[int, ...], str]])
    """Positions of messages that left, came back or changed their length, and why; not recorded."""
    notes: list[str] = field(default_factory=list[str])
    """Errors and remarks: a refused request, an interrupted stream."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Harmless headers of request and answer."""
    window: SentWindow | None = None
    """The messages that were sent in place of the client's; None where its own were sent, or for an old turn."""
    replaced: Any = None
    """The last message of this request, if the client changed it later."""
    branch: Branch | None = field(default=None, repr=False)

    @property
    def history(self) -> list[Any]:
        """The messages of the client's request."""
        found = [] if self.branch is None else self.branch.messages[: self.count]
        return found if self.replaced is None else [*found[:-1], self.replaced]

    @property
    def messages(self) -> list[Any]:
        """The messages that were sent."""
        history = self.history
        if self.window is None:
            return history
        changed = self.window.changed
        return [changed[at] if at in changed else history[of] for at, of in enumerate(self.window.positions)]

    @property
    def positions(self) -> list[int | None]:
        """The position in `history` of each message of `messages`; None for a note in a separate message."""
        if self.window is None:
            return list(range(self.count))
        return [None if of < 0 else of for of in self.window.positions]

    @property
    def shortened(self) -> list[int]:
        """Positions in `history` of the messages that were sent in a shorter form or with a note."""
        window = self.window
        return (
            [] if window is None else sorted(window.positions[at] for at in window.changed if window.positions[at] >= 0)
        )

    def send(self, messages: Sequence[Any], positions: Sequence[int | None], previous: WatchedTurn | None) -> None:
        """Remember the messages that are sent in place of the client's; equal ones of the turn before are shared."""
        history = self.history
        window = previous.window if previous is not None else None
        known = {} if window is None else {window.positions[at]: message for at, message in window.changed.items()}
        changed: dict[int, Any] = {}
        for at, (of, message) in enumerate(zip(positions, messages, strict=True)):
            if of is None or message is not history[of]:
                before = known.get(-1 if of is None else of)
                changed[at] = before if before == message else message
        self.window = SentWindow(array("l", [-1 if of is None else of for of in positions]), changed)


@dataclass(slots=True, eq=False)
class Branch:
    """Requests of which each continues the one before it."""

    name: str
    provider: Provider
    parent: str | None = None
    """The branch that this one continues differently, and after how many messages."""
    forked: int = 0
    messages: list[Any] = field(default_factory=list[Any])
    """The messages of the newest request."""
    answer: list[Any] = field(default_factory=list[Any])
    """The model's answer to it, as messages."""
    system: Any = None
    tools: list[Any] | None = None
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    """The other fields of the newest request."""
    turns: list[WatchedTurn] = field(default_factory=list[WatchedTurn])
    size: int = 0
    """Bytes of the newest request."""
    digests: list[bytes] = field(default_factory=list[bytes])
    """A digest of each message of the newest request."""
    opening: tuple[bytes, bytes] = (b"", b"")
    """Digests of its system prompt and its tools."""
    ledger: Ledger | None = None
    """Its sessions."""
    live: bool = False
    """Whether it has had a request since the watcher started."""

    @property
    def total(self) -> Bill:
        """The bill of all turns."""
        return sum((turn.bill for turn in self.turns if turn.bill is not None), Bill())

    @property
    def appended(self) -> Bill:
        """The bill of sending everything on all turns."""
        bills = (turn.appended or turn.bill for turn in self.turns)
        return sum((bill for bill in bills if bill is not None), Bill())

    def add(self, turn: WatchedTurn) -> None:
        """Append a turn; governed requests of old turns are forgotten."""
        turn.branch = self
        self.turns.append(turn)
        if len(self.turns) > _WINDOWS:
            self.turns[-_WINDOWS - 1].window = None


@dataclass(slots=True, eq=False)
class Conversation:
    """Branches that share messages."""

    name: str
    title: str
    """The beginning of the first message of the user."""
    branches: list[Branch] = field(default_factory=list[Branch])


class Store:
    """All conversations in memory, the least recently used first."""

    def __init__(self, *, budget: int | None = None, upstream: str = "") -> None:
        self.budget = budget
        """The tokens of a governed request; None for a watcher that only looks."""
        self.upstream = upstream
        self._conversations: OrderedDict[str, Conversation] = OrderedDict()
        self._subscribers: dict[asyncio.Queue[Event | None], asyncio.AbstractEventLoop] = {}

    @property
    def conversations(self) -> list[Conversation]:
        """The conversations, the newest activity first."""
        return list(self._conversations.values())[::-1]

    def conversation(self, name: str) -> Conversation | None:
        """Return a conversation by its name."""
        return self._conversations.get(name)

    def branch(self, conversation: str, name: str) -> Branch | None:
        """Return a branch by the names of its conversation and its own."""
        found = self._conversations.get(conversation)
        return None if found is None else next((one for one in found.branches if one.name == name), None)

    async def subscribe(self) -> AsyncIterator[Event]:
        """Yield events as they happen; a subscriber that is too slow misses the oldest ones."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._subscribers[queue] = asyncio.get_running_loop()
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            del self._subscribers[queue]

    def publish(self, event: Event | None) -> None:
        """Send an event to every subscriber, from any thread; None is the last one."""
        for queue, loop in list(self._subscribers.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(_put, queue, event)

    def touch(self, conversation: Conversation) -> None:
        """Add a conversation, or make it the newest."""
        self._conversations[conversation.name] = conversation
        self._conversations.move_to_end(conversation.name)

    def forget(self, name: str) -> None:
        """Remove a conversation from memory."""
        self._conversations.pop(name, None)


def _put(queue: asyncio.Queue[Event | None], event: Event | None) -> None:
    if queue.qsize() >= _WAITING:
        queue.get_nowait()
    queue.put_nowait(event)
