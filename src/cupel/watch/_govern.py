"""A branch that goes on: the session that keeps its requests under the budget, and the cost of sending everything."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from operator import is_not
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from cupel._internal.counter import count_tokens
from cupel._internal.digests import message_digest
from cupel.errors import ConfigurationError
from cupel.messages import Bill, Message, MessageSession, Prices, default_prices, opening_tokens, read_message
from cupel.tokens import counter_or_default
from cupel.watch._branches import Branch, TurnAction, WindowMessage
from cupel.watch._reading import ModelCall, digests_of, opening_of, read_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.tokens import TokenCounter
    from cupel.watch._branches import WatchedTurn
    from cupel.watch._conversations import Place
    from cupel.watch._reading import ReadRequest

_log = logging.getLogger("cupel")
_EVERYTHING: Final = 2**50
"""A budget that no history exceeds."""
_MOST_REFUSALS: Final = 2
"""Refusals in a row after which the requests of a branch are no longer changed."""
_MOST_FORMS: Final = 2_000
"""Messages sent in place of the client's that are kept; beyond that, the windows of earlier turns are forgotten."""
_MOST_COUNTED: Final = 100_000
LARGE: Final = 1_000_000
"""Bytes of a request from which it is read in a process of its own: others would have to wait for about a second."""
_counted: dict[bytes, int] = {}

CacheKey: TypeAlias = tuple[str, tuple[bytes, bytes]]
"""What requests must have in common that one finds the other in the provider's cache: model, system prompt, tools."""


class Sizes(NamedTuple):
    """The tokens of a request: those of system prompt, tools and the frame, and of each message."""

    opening: int
    messages: list[int]


class CachedRequest(NamedTuple):
    """A request that the provider's cache may hold."""

    digests: list[bytes]
    reach: int
    """How many of its messages the provider was asked to cache."""
    at: float


class Task(NamedTuple):
    """Everything but the request that the choice of its messages depends on."""

    budget: int
    state: str | None = None
    """The state of the branch's session."""
    looked: tuple[int, Any] | None = None
    """If there is no state, the number of messages of the request before, which was only looked at, and its usage."""
    idle: float | None = None


class ChosenWindow(NamedTuple):
    """The messages that a session chose for a request."""

    window: list[int | WindowMessage] | None
    """Positions of the client's own messages, and messages in place of others; None for all of the client's own."""
    state: str
    """The session's state afterwards."""
    action: TurnAction
    tokens: int
    bill: Bill
    explain: str
    changes: list[tuple[tuple[int, ...], str]]
    marks: tuple[int | None, list[int]]
    """The client's cache marks: how many are before the messages, and which messages have one."""


@dataclass(slots=True)
class Learned:
    """What the usage of requests tells that append to the one before: about the provider's tokens and its cache.

    A request that the session rewrote says nothing of how the cache would have served the client's own.
    """

    ours: int = 0
    theirs: int = 0
    """Tokens that these requests added, by the provider's count."""
    cacheable: int = 0
    """Tokens that these requests repeated."""
    read: int = 0
    """The part of them that the cache served."""

    @property
    def served(self) -> float:
        """What the provider's cache serves of the tokens that could be cached; above 1 if its blocks are smaller."""
        return self.read / self.cacheable if self.cacheable else 1.0

    @property
    def rate(self) -> float:
        """The provider's tokens for one of ours; 0 if it is not known."""
        return self.theirs / self.ours if self.ours else 0.0


@dataclass(slots=True, eq=False)
class LiveBranch:
    """A branch, and everything that is needed to continue it."""

    branch: Branch
    digests: list[bytes] = field(default_factory=list[bytes])
    """A digest of each message of the newest request."""
    opening: tuple[bytes, bytes] = (b"", b"")
    """Digests of its system prompt and its tools."""
    reach: int = 0
    """How many of its messages the provider was asked to cache."""
    cached: dict[CacheKey, CachedRequest] = field(default_factory=dict[CacheKey, CachedRequest])
    """Its newest requests with different models, system prompts or tools, the newest last."""
    size: int = 0
    """Bytes of the newest request."""
    learned: Learned = field(default_factory=Learned)
    begun: bool = False
    """Whether it has had a request since the watcher started."""
    choice: ChosenWindow | None = None
    """What was chosen for the messages of the newest request; None if the client's own were sent unasked."""
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
    _settled: WatchedTurn | None = None
    """The newest turn whose cost is known."""
    _whole: tuple[int, float] = (0, 0.0)
    """The tokens of the client's own request on that turn, by our count and by the provider's."""
    _sizes: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Tokens of messages, by their digests."""
    _opening_tokens: tuple[tuple[bytes, bytes], int] | None = None
    _forms: dict[tuple[int | None, bytes], int] = field(default_factory=dict[tuple[int | None, bytes], int])

    @classmethod
    def restored(cls, branch: Branch) -> LiveBranch:
        """Return a recorded branch, to be continued."""
        forms = {(form.position, message_digest(form.message)): at for at, form in enumerate(branch.forms)}
        size = len(msgspec.json.encode(branch.messages))
        digests, opening = digests_of(branch.asked), opening_of(branch.system, branch.tools)
        cached = {(turn.model, opening): CachedRequest(digests, len(digests), turn.at) for turn in branch.turns[-1:]}
        return cls(branch, digests, opening, reach=len(digests), cached=cached, size=size, _forms=forms)

    def task(self, turn: WatchedTurn, read: ReadRequest, budget: int, idle: float | None) -> Task | None:
        """Return what the session is to choose; None if the client's own messages are sent, or a choice is repeated."""
        last = self.branch.turns[-2] if len(self.branch.turns) > 1 else None
        if obstacle := self.obstacle(read):
            turn.notes.append(f"not governed: {obstacle}")
            self.choice = None
            return None
        if turn.action == "retry" and last is not None:
            if last.action == "original":  # it would fail again
                turn.action = "original"
                return None
            if self.choice is not None and self.choice.marks == (read.marks, read.marked):
                return None
            turn.action = "looked"
        state = self.branch.state
        looked = None if state is not None or last is None else (last.count, last.usage)
        return Task(budget, state, looked, idle)

    def is_large(self, read: ReadRequest, task: Task, place: Place) -> bool:
        """Return whether a session must read so much that other conversations would have to wait for it."""
        knows = self.session is not None and self._parameters == _parameters(read, task.budget)
        return (place.added if knows else self.size) > LARGE

    def choose(self, read: ReadRequest, task: Task) -> ChosenWindow:
        """Let the branch's session choose the messages of a request; open it if any of its parameters changed."""
        parameters = _parameters(read, task.budget)
        if self.session is None or self._parameters != parameters:
            self.session, self._parameters = session_for(read, task), parameters
        return chosen_by(self.session, read, task.idle)

    def govern(self, turn: WatchedTurn, read: ReadRequest, choice: ChosenWindow | None) -> bytes | None:
        """Return the body to send for a choice, or again for the newest one; None for the client's own."""
        if choice is not None:
            self._before, self.branch.state, self.choice = self.branch.state, choice.state, choice
            turn.action, turn.changes = choice.action, choice.changes
            if len(self.branch.forms) > _MOST_FORMS:
                self._forget_windows()
        if self.choice is None:
            return None
        self.active = True
        turn.tokens, turn.bill, turn.explain = self.choice.tokens, self.choice.bill, self.choice.explain
        if self.choice.window is None:
            return None
        turn.window = [one if isinstance(one, int) else self.number(*one) for one in self.choice.window]
        return read.with_messages(self.choice.window)

    def withdraw(self, turn: WatchedTurn, note: str, *, refused: bool) -> None:
        """Forget a request that was not sent after all, or could not be made."""
        if self.active:
            self.branch.state = self._before
        self.session = self.choice = None
        self.active = False
        self.refusals += refused
        turn.action, turn.window, turn.bill, turn.explain, turn.changes = "original", None, None, "", []
        turn.notes.append(note)

    def observe(self, turn: WatchedTurn, read: ReadRequest, budget: int) -> None:
        """Settle the bill of a governed request with the provider's usage."""
        self.refusals = 0
        if turn.usage:
            session = self.session or session_for(read, Task(budget, self.branch.state))
            turn.bill = session.observe(turn.usage) or turn.bill
            self.branch.state = session.to_json()

    def settle(self, turn: WatchedTurn, read: ReadRequest, place: Place) -> None:
        """Compute the bill of a turn, and that of sending everything if another request was sent, now or before."""
        prices, sizes, last = prices_of(read), self.sizes(read), self._settled
        whole, seen = sizes.opening + sum(sizes.messages), set(place.previous)
        added = [size for size, digest in zip(sizes.messages, read.digests, strict=True) if digest not in seen]
        new = sum(added) if place.previous else whole
        same = 0 if place.prefix is None else sizes.opening + sum(sizes.messages[: place.prefix])
        own = turn.bill or _bill(prices, sent=whole, read=prices.cached(same), new=new)
        if turn.bill is None or turn.window is None:
            turn.tokens = whole
        if turn.usage and not own.settled:
            own = _settled(own, turn.usage, prices)
        turn.bill = own
        held = sizes.opening + sum(sizes.messages[: common_run(place.previous, read.digests)])
        rate = 0.0
        if last is not None and place.prefix is not None and place.is_next:
            rate = self._learn(prices, turn, last, min(1.0, same / max(held, 1)))
        theirs, (ours, before) = self._in_full(turn, own, whole, held, rate), self._whole
        self._whole, self._settled = (whole, theirs), turn
        if turn.window is not None or (last is not None and last.window is not None):
            density = before / ours if ours else theirs / whole
            again = min(prices.cached(round(same * density)) * self.learned.served, same * density)
            fresh = (theirs - held * density) * new / max(whole - held, 1)
            turn.appended = _bill(prices, sent=round(theirs), read=round(again), new=round(fresh))

    def _in_full(self, turn: WatchedTurn, own: Bill, whole: int, held: int, rate: float) -> float:
        """Return the provider's tokens for the client's own request, of which ours are known.

        Its beginning was counted with the request before; only what was added is estimated, at the `rate` of what this
        turn added to the last one where that is known.
        """
        if turn.window is None:
            return own.sent
        (ours, theirs), overall = self._whole, own.sent / max(turn.tokens, 1)
        if not ours:
            return overall * whole
        return theirs * held / ours + (rate or self.learned.rate or overall) * (whole - held)

    def _learn(self, prices: Prices, turn: WatchedTurn, last: WatchedTurn, marked: float) -> float:
        """Learn from a turn that appends to the last one; `marked` is the share that the client asked to cache.

        Return the provider's tokens for one of ours in what it added; 0 if they are not known.
        """
        bill, before, learned, is_own = turn.bill, last.bill, self.learned, turn.window is None is last.window
        if bill is None or before is None or not (bill.settled and before.settled):
            return 0.0
        if turn.action != "append" and not (is_own and turn.action == "looked"):
            return 0.0
        learned.cacheable += prices.cached(round(before.sent * marked) if is_own else before.sent)
        learned.read += bill.read
        ours, theirs = turn.tokens - last.tokens, bill.sent - before.sent
        if ours <= 0 or theirs <= 0:
            return 0.0
        learned.ours += ours
        learned.theirs += theirs
        return theirs / ours

    def sizes(self, read: ReadRequest) -> Sizes:
        """Return the tokens of a request, each message counted once."""
        known, provider = self._sizes, read.call.provider
        self._sizes = {
            digest: known.get(digest) or message_tokens(read_message(message, provider))
            for digest, message in zip(read.digests, read.messages, strict=True)
        }
        if self._opening_tokens is None or self._opening_tokens[0] != read.opening:
            self._opening_tokens = read.opening, opening_tokens(provider, system=read.system, tools=read.tools)
        return Sizes(self._opening_tokens[1], [self._sizes[digest] for digest in read.digests])

    def remember(self, read: ReadRequest, sizes: Sizes) -> None:
        """Keep the tokens that another process counted."""
        self._opening_tokens = read.opening, sizes.opening
        self._sizes = dict(zip(read.digests, sizes.messages, strict=True))

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


def session_for(read: ReadRequest, task: Task) -> MessageSession[Any]:
    """Return a session with the parameters of a request, from its state or from the request before."""
    if task.looked is not None:
        count, usage = task.looked
        before = session_for(read, Task(_EVERYTHING))
        before.fit(read.messages[:count])
        if usage:
            before.observe(usage)
        task = task._replace(state=before.to_json(), looked=None)
    options: dict[str, Any] = {"provider": read.call.provider, "system": read.system, "tools": read.tools}
    options |= {"prices": prices_of(read), "thinking": read.thinking}
    if task.state is not None:
        try:
            return MessageSession[Any].from_json(task.state, task.budget, **options)
        except ConfigurationError as error:  # a recording of an older version
            _log.warning("the conversation begins anew: %s", error)
    return MessageSession(task.budget, **options)


def chosen_by(session: MessageSession[Any], read: ReadRequest, idle: float | None) -> ChosenWindow:
    """Return the messages that a session chooses for a request."""
    turn, own = session.fit(read.messages, idle=idle), read.messages
    window: list[int | WindowMessage] | None = None
    if len(turn.messages) != len(own) or any(map(is_not, turn.messages, own)):
        pairs = zip(turn.positions, turn.messages if read.marks is None else turn.marked(), strict=True)
        window = [at if at is not None and message is own[at] else WindowMessage(at, message) for at, message in pairs]
    changes = [(change.positions, str(change)) for change in turn.changes]
    state, marks = session.to_json(), (read.marks, read.marked)
    return ChosenWindow(window, state, turn.action, turn.total_tokens, turn.bill, turn.explain(), changes, marks)


def chosen_apart(call: ModelCall, body: bytes, encoding: str, task: Task | None) -> tuple[ChosenWindow | None, Sizes]:
    """Return what a session chooses for the body of a request, if it is asked, and the tokens of the whole request.

    For a process of its own: everything that it takes and returns can be pickled.
    """
    read = read_request(call, body, encoding)
    choice = None if task is None else chosen_by(session_for(read, task), read, task.idle)
    return choice, LiveBranch(Branch(session="", title="", provider=call.provider)).sizes(read)


def prices_of(read: ReadRequest) -> Prices:
    """Return the prices of a request; where cache breakpoints are set by callers, one without any is not cached."""
    prices = default_prices(read.call.provider)
    return Prices(read=1.0, write=1.0, marks=0) if prices.marks and read.marks is None else prices


def message_tokens(info: Message) -> int:
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


def _parameters(read: ReadRequest, budget: int) -> tuple[Any, ...]:
    """Return the budget and the parts of a request that a session is made with."""
    return budget, read.system, read.tools, read.marks, read.thinking


def _bill(prices: Prices, *, sent: int, read: int, new: int) -> Bill:
    """Return the bill of a request of which the cache serves `read` tokens, as long as they are not new."""
    return replace(prices, minimum=0, step=1).estimate(same=read, sent=sent, new=min(new, sent))


def _settled(estimate: Bill, usage: dict[str, Any], prices: Prices) -> Bill:
    """Return the bill of a request with the provider's own counts; the estimate if there are none."""
    bill = prices.settle(estimate, usage)
    return bill if bill.sent else estimate
