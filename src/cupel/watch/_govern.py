"""The sessions of a branch: one keeps its requests under the budget, one computes the cost of sending everything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from cupel.messages import MessageSession
from cupel.sessions import Bill, Prices

if TYPE_CHECKING:
    from cupel.watch._conversations import Place
    from cupel.watch._reading import ReadRequest
    from cupel.watch._store import WatchedTurn

_EVERYTHING: Final = 2**50
"""A budget that no history exceeds."""
_MOST_MARKS: Final = 4
"""Cache breakpoints that Anthropic accepts in a request, including those of the system prompt and tools."""
_MOST_REFUSALS: Final = 2
"""Refusals in a row after which the requests of a branch are no longer changed."""


@dataclass(slots=True)
class Thread:
    """A session, its state after each of the last two requests, and the parameters that it was made with."""

    state: str | None = None
    before: str | None = None
    session: MessageSession[Any] | None = None
    parameters: tuple[Any, ...] = ()

    def open(self, read: ReadRequest, budget: int) -> MessageSession[Any]:
        """Return the session for a request; restore it from its state if any of its parameters changed."""
        parameters = (budget, read.system, read.tools, read.marks)
        if self.session is None or self.parameters != parameters:
            self.session, self.parameters = opened(read, budget, self.state), parameters
        return self.session

    def step(self, session: MessageSession[Any]) -> None:
        """Remember the state after a request."""
        self.before, self.state = self.state, session.to_json()

    def back(self) -> None:
        """Return to the state before the last request, which was not sent."""
        self.state, self.session = self.before, None


@dataclass(slots=True)
class Ledger:
    """The session that governs a branch, and one that computes the cost of sending everything."""

    governed: Thread
    everything: Thread
    body: bytes | None = None
    """The newest governed body; None if the client's own was sent."""
    active: bool = False
    """Whether the session chose the newest request, even if it left it unchanged."""
    refusals: int = 0

    @classmethod
    def of(cls, source: Ledger | None = None) -> Ledger:
        """Return the ledger of a new branch, which continues from the states of another."""
        if source is None:
            return cls(Thread(), Thread())
        return cls(Thread(source.governed.state), Thread(source.everything.state))

    def rest(self) -> None:
        """Release the sessions; `Thread.open` restores them from their states."""
        self.governed.session = self.everything.session = None

    @property
    def _start(self) -> str | None:
        """The state to govern from; before the first governed request, the provider has seen everything."""
        return self.everything.state if self.governed.state is None else self.governed.state

    def govern(self, place: Place, read: ReadRequest, budget: int, idle: float | None) -> bytes | None:
        """Return the body to send; None for the client's own."""
        watched, turns = place.turn, place.branch.turns
        last = turns[-2] if len(turns) > 1 else None
        if watched.action == "retry" and last is not None:
            watched.tokens, watched.explain, watched.window = last.tokens, last.explain, last.window
            return self.body
        self.body, self.active = None, False
        obstacle = read.obstacle or ("two requests in a row were refused" if self.refusals >= _MOST_REFUSALS else "")
        if obstacle:
            watched.notes.append(f"not governed: {obstacle}")
            return None
        self.governed.state = self._start
        session = self.governed.open(read, budget)
        turn = session.fit(read.messages, idle=idle)
        if not _is_same(turn.messages, read.messages):
            self.body = read.with_messages(turn.messages if read.marks is None else turn.marked())
            watched.send(turn.messages, turn.positions, last)
        self.governed.step(session)
        self.active = True
        watched.action, watched.tokens, watched.bill = turn.action, turn.total_tokens, turn.bill
        watched.explain = turn.explain()
        watched.changes = [(change.positions, str(change)) for change in turn.changes]
        return self.body

    def count(self, read: ReadRequest, budget: int) -> bytes | None:
        """Return the body of a call that counts tokens, for the request that would be sent; nothing is remembered."""
        if read.obstacle or self.refusals >= _MOST_REFUSALS:
            return None
        messages = opened(read, budget, self._start).fit(read.messages).messages
        return None if _is_same(messages, read.messages) else read.with_messages(messages)

    def withdraw(self, watched: WatchedTurn, note: str, *, refused: bool) -> None:
        """Forget a request that was not sent after all, or could not be made."""
        if self.active:
            self.governed.back()
        self.governed.session = None
        self.body, self.active = None, False
        self.refusals += refused
        watched.action, watched.window, watched.bill, watched.explain = "original", None, None, ""
        watched.changes = []
        watched.notes.append(note)

    def observe(self, watched: WatchedTurn) -> None:
        """Settle the bill of a governed request with the provider's usage."""
        self.refusals = 0
        session = self.governed.session
        if session is not None and watched.usage:
            watched.bill = session.observe(watched.usage) or watched.bill
            self.governed.state = session.to_json()

    def settle(self, watched: WatchedTurn, read: ReadRequest, idle: float | None, *, governed: bool) -> None:
        """Compute the bill of sending everything: the turn's own, or the one that a governed turn is compared with."""
        session = self.everything.open(read, _EVERYTHING)
        turn = session.fit(read.messages, idle=idle)
        if governed and watched.bill is not None:
            watched.appended = _scaled(turn.bill, watched.bill.sent / max(watched.tokens, 1))
        else:
            watched.tokens = turn.total_tokens
            watched.bill = (session.observe(watched.usage) if watched.usage else None) or turn.bill
        self.everything.step(session)


def opened(read: ReadRequest, budget: int, state: str | None) -> MessageSession[Any]:
    """Return a session with the parameters of a request, from a state."""
    options: dict[str, Any] = {"provider": read.call.provider, "system": read.system, "tools": read.tools}
    if read.call.provider == "anthropic":
        reserved = bool(read.tools) or read.system is not None  # a session leaves one mark for these
        uncached = Prices(read=1.0, write=1.0, marks=0)
        left = max(0, _MOST_MARKS - (read.marks or 0)) + reserved
        options["prices"] = uncached if read.marks is None else Prices.marked(marks=left)
    if state is None:
        return MessageSession(budget, **options)
    return MessageSession[Any].from_json(state, budget, **options)


def _is_same(messages: list[Any], own: list[Any]) -> bool:
    return len(messages) == len(own) and all(one is other for one, other in zip(messages, own, strict=True))


def _scaled(bill: Bill, ratio: float) -> Bill:
    """Return a bill in the provider's tokens."""
    read, rewritten, new = (round(tokens * ratio) for tokens in (bill.read, bill.rewritten, bill.new))
    sent = read + rewritten + new
    return replace(bill, sent=sent, read=read, rewritten=rewritten, new=new, price=bill.price * ratio)
