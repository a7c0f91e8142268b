"""A branch that goes on: the session that keeps its requests under the budget, and the cost of sending everything."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cupel._internal.counter import count_tokens
from cupel._internal.digests import message_digest
from cupel._planning import State, estimated, settle
from cupel.messages import MessageInfo, MessageSession, default_prices, read_message
from cupel.sessions import Bill, Prices
from cupel.tokens import counter_or_default
from cupel.watch._branches import Branch, WindowMessage
from cupel.watch._reading import digests_of, opening_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.tokens import TokenCounter
    from cupel.watch._branches import WatchedTurn
    from cupel.watch._reading import ReadRequest

_EVERYTHING: Final = 2**50
"""A budget that no history exceeds."""
_MOST_REFUSALS: Final = 2
"""Refusals in a row after which the requests of a branch are no longer changed."""
_MOST_FORMS: Final = 2_000
"""Messages sent in place of the client's that are kept; beyond that, the windows of earlier turns are forgotten."""
_MOST_COUNTED: Final = 100_000
_counted: dict[bytes, int] = {}


@dataclass(slots=True, eq=False)
class LiveBranch:
    """A branch, and everything that is needed to continue it."""

    branch: Branch
    digests: list[bytes] = field(default_factory=list[bytes])
    """A digest of each message of the newest request."""
    opening: tuple[bytes, bytes] = (b"", b"")
    """Digests of its system prompt and its tools."""
    size: int = 0
    """Bytes of the newest request."""
    begun: bool = False
    """Whether it has had a request since the watcher started."""
    body: bytes | None = None
    """The newest governed body; None if the client's own was sent."""
    active: bool = False
    """Whether the session chose the newest request, even if it left it unchanged."""
    refusals: int = 0
    unwritten: int = 0
    """Answers that wait to be recorded."""
    session: MessageSession[Any] | None = None
    """Is restored from the branch's state if there is none."""
    _parameters: tuple[Any, ...] = ()
    """The budget and the parts of a request that the session was made with."""
    _before: str | None = None
    """The state before the newest request."""
    _served: float = 1.0
    """The share of the tokens that could be cached which the provider's cache served last."""
    _sizes: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Tokens of messages, by their digests."""
    _opening_tokens: tuple[tuple[bytes, bytes], int] | None = None
    _forms: dict[tuple[int | None, bytes], int] = field(default_factory=dict[tuple[int | None, bytes], int])

    @classmethod
    def restored(cls, branch: Branch) -> LiveBranch:
        """Return a recorded branch, to be continued."""
        forms = {(form.position, message_digest(form.message)): at for at, form in enumerate(branch.forms)}
        size = len(msgspec.json.encode(branch.messages))
        return cls(branch, digests_of(branch.asked), opening_of(branch.system, branch.tools), size, _forms=forms)

    def govern(self, turn: WatchedTurn, read: ReadRequest, budget: int, idle: float | None) -> bytes | None:
        """Return the body to send; None for the client's own."""
        branch = self.branch
        last = branch.turns[-2] if len(branch.turns) > 1 else None
        if turn.action == "retry" and last is not None:
            turn.tokens, turn.explain, turn.window = last.tokens, last.explain, last.window
            return self.body
        if obstacle := self.obstacle(read):
            turn.notes.append(f"not governed: {obstacle}")
            return None
        if branch.state is None and last is not None:
            branch.state = _state_after(read, last)
        session = self._opened(read, budget)
        chosen = session.fit(read.messages, idle=idle)
        if len(branch.forms) > _MOST_FORMS:
            self._forget_windows()
        if not _is_same(chosen.messages, read.messages):
            self.body = read.with_messages(chosen.messages if read.marks is None else chosen.marked())
            pairs = zip(chosen.positions, chosen.messages, strict=True)
            own = {id(message) for message in read.messages}
            turn.window = [at if at is not None and id(one) in own else self.number(at, one) for at, one in pairs]
        self._before, branch.state = branch.state, session.to_json()
        self.active = True
        turn.action, turn.tokens, turn.bill = chosen.action, chosen.total_tokens, chosen.bill
        turn.explain = chosen.explain()
        turn.changes = [(change.positions, str(change)) for change in chosen.changes]
        return self.body

    def withdraw(self, turn: WatchedTurn, note: str, *, refused: bool) -> None:
        """Forget a request that was not sent after all, or could not be made."""
        if self.active:
            self.branch.state = self._before
        self.session = self.body = None
        self.active = False
        self.refusals += refused
        turn.action, turn.window, turn.bill, turn.explain, turn.changes = "original", None, None, "", []
        turn.notes.append(note)

    def observe(self, turn: WatchedTurn) -> None:
        """Settle the bill of a governed request with the provider's usage."""
        self.refusals = 0
        if self.session is not None and turn.usage:
            estimate, turn.bill = turn.bill, self.session.observe(turn.usage) or turn.bill
            self.branch.state = self.session.to_json()
            self._learn(estimate, turn.bill)

    def settle(self, turn: WatchedTurn, read: ReadRequest, previous: Sequence[bytes], idle: float | None) -> None:
        """Compute the bill of sending everything: the turn's own, or the one that a governed turn is compared with.

        Args:
            turn: The turn; its bill is None unless a session chose its request.
            read: The client's request.
            previous: Digests of the messages of the request before it.
            idle: Seconds since that request.
        """
        prices, digests = prices_of(read), read.digests
        known, provider = self._sizes, read.call.provider
        self._sizes = {
            digest: known.get(digest) or message_tokens(read_message(message, provider))
            for digest, message in zip(digests, read.messages, strict=True)
        }
        opening = self._tokens_of_opening(read)
        sizes = [self._sizes[digest] for digest in digests]
        sent, seen = opening + sum(sizes), set(previous)
        new = sum(size for digest, size in zip(digests, sizes, strict=True) if digest not in seen)
        forgotten = not previous or (idle is not None and idle > prices.ttl)
        same = 0 if forgotten else opening + sum(sizes[: common_run(previous, digests)])
        bill = estimated(prices, same=same, sent=sent, new=new if previous else sent)
        own = bill if turn.window is None or turn.bill is None else turn.bill
        if own is bill:
            turn.tokens = sent
        if turn.usage and not own.settled:
            estimate, own = own, settle(State(pending=own), turn.usage, prices)[1] or own
            self._learn(estimate, own)
        if turn.window is not None:
            turn.appended = _scaled(bill, prices, own.sent / max(turn.tokens, 1), self._served)
        turn.bill = own

    def _learn(self, estimate: Bill | None, bill: Bill | None) -> None:
        """Learn from a settled bill how much of the tokens that could be cached the provider's cache serves."""
        if estimate is not None and bill is not None and estimate.read:
            self._served = min(1.0, bill.read / bill.sent * estimate.sent / estimate.read)

    def number(self, position: int | None, message: Any) -> int:
        """Return the number of a message that is not the client's own, for `WatchedTurn.window`."""
        key = position, message_digest(message)
        if key not in self._forms:
            self._forms[key] = len(self.branch.forms)
            self.branch.forms.append(WindowMessage(position, message))
        return ~self._forms[key]

    def _forget_windows(self) -> None:
        for turn in self.branch.turns:
            turn.window = None if turn.window is None else []
        self.branch.forms.clear()
        self._forms.clear()

    def obstacle(self, read: ReadRequest) -> str:
        """Return why a request is sent as it is; empty if it can be governed."""
        return read.obstacle or ("two requests in a row were refused" if self.refusals >= _MOST_REFUSALS else "")

    def _opened(self, read: ReadRequest, budget: int) -> MessageSession[Any]:
        """Return the session for a request; restore it from its state if any of its parameters changed."""
        parameters = (budget, read.system, read.tools, read.marks)
        if self.session is None or self._parameters != parameters:
            self.session, self._parameters = opened(read, budget, self.branch.state), parameters
        return self.session

    def _tokens_of_opening(self, read: ReadRequest) -> int:
        """Return the tokens of a request without messages, counted once for the same system prompt and tools."""
        if self._opening_tokens is None or self._opening_tokens[0] != self.opening:
            self._opening_tokens = self.opening, opened(read, _EVERYTHING, None).fit([]).total_tokens
        return self._opening_tokens[1]


def opened(read: ReadRequest, budget: int, state: str | None) -> MessageSession[Any]:
    """Return a session with the parameters of a request, from a state."""
    options: dict[str, Any] = {"provider": read.call.provider, "system": read.system, "tools": read.tools}
    options["prices"] = prices_of(read)
    if state is None:
        return MessageSession(budget, **options)
    return MessageSession[Any].from_json(state, budget, **options)


def count_body(read: ReadRequest, budget: int, live: LiveBranch | None) -> bytes | None:
    """Return the body of a call that counts tokens, for the request that a branch would send; None for the client's."""
    if read.obstacle if live is None else live.obstacle(read):
        return None
    messages = opened(read, budget, None if live is None else live.branch.state).fit(read.messages).messages
    return None if _is_same(messages, read.messages) else read.with_messages(messages)


def prices_of(read: ReadRequest) -> Prices:
    """Return the prices of a request; where cache breakpoints are set by callers, one without any is not cached."""
    prices = default_prices(read.call.provider)
    if not prices.marks:
        return prices
    if read.marks is None:
        return Prices(read=1.0, write=1.0, marks=0)
    reserved = bool(read.tools) or read.system is not None  # a session leaves one breakpoint for these
    return replace(prices, marks=max(0, prices.marks - read.marks) + reserved)


def message_tokens(info: MessageInfo) -> int:
    """Count the tokens of a message, each of its texts once and not every time that its conversation goes on."""
    return info.extra + sum(map(_text_tokens, info.texts))


def common_run(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Return how many messages two requests have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (ours, theirs) in pairs if ours != theirs), min(len(one), len(other)))


@cache
def _counter() -> TokenCounter:
    return counter_or_default(None)


def _text_tokens(text: str) -> int:
    key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()
    if key not in _counted:
        if len(_counted) >= _MOST_COUNTED:
            _counted.clear()
        _counted[key] = count_tokens(_counter(), text) if text else 0
    return _counted[key]


def _state_after(read: ReadRequest, last: WatchedTurn) -> str:
    """Return the state of a session that has sent the last request, for a branch that was only looked at so far."""
    session = opened(read, _EVERYTHING, None)
    session.fit(read.messages[: last.count])
    if last.usage:
        session.observe(last.usage)
    return session.to_json()


def _is_same(messages: list[Any], own: list[Any]) -> bool:
    return len(messages) == len(own) and all(one is other for one, other in zip(messages, own, strict=True))


def _scaled(bill: Bill, prices: Prices, ratio: float, served: float) -> Bill:
    """Return a bill in the provider's tokens; `served` is the share of its cached tokens that are read."""
    sent, read, new = (round(tokens * ratio) for tokens in (bill.sent, bill.read * served, bill.new))
    return estimated(replace(prices, minimum=0, step=1), same=read, sent=sent, new=new)
