"""A branch that goes on: the session that keeps its requests under the budget, and the cost of sending everything."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from operator import is_not
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from cupel._internal.digests import message_digest
from cupel.errors import ConfigurationError
from cupel.messages import Bill, MessageSession, Prices, default_prices
from cupel.watch._branches import Branch, TurnAction, WindowMessage
from cupel.watch._reading import ModelCall, digests_of, opening_of, read_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.watch._branches import WatchedTurn
    from cupel.watch._reading import ReadRequest

_log = logging.getLogger("cupel")
_EVERYTHING: Final = 2**50
"""A budget that no history exceeds."""
_MOST_REFUSALS: Final = 2
"""Refusals in a row after which the requests of a branch are no longer changed."""
_MOST_FORMS: Final = 2_000
"""Messages sent in place of the client's that are kept; beyond that, the windows of earlier turns are forgotten."""
_MOST_CACHES: Final = 4
"""Models, system prompts and tools of which a branch remembers the newest requests."""
_TELLING: Final = 200
"""Tokens from which on those of a request tell how the provider counts: it counts the frames of messages too."""
_FOREVER: Final = 1e9
"""Seconds after which no cache knows a request."""
LARGE: Final = 1_000_000
"""Bytes of a request from which it is read in a process of its own: others would have to wait for about a second."""

CacheKey: TypeAlias = tuple[str, tuple[bytes, bytes]]
"""What requests must have in common that one finds the other in the provider's cache: model, system prompt, tools."""


class Task(NamedTuple):
    """Everything but the request that the choice of its messages depends on."""

    budget: int
    recall: bool = False
    state: str | None = None
    """The state of the session."""
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

    def rate(self, ours: int, theirs: int) -> float:
        """Return the provider's tokens for one of ours in what a request added; 0 as long as too few have told it."""
        if ours > 0 and theirs > 0:
            self.ours += ours
            self.theirs += theirs
        if min(ours, theirs) >= _TELLING:
            return theirs / ours
        return self.theirs / self.ours if self.ours >= _TELLING else 0.0


class SettledTurn(NamedTuple):
    """A turn whose cost is known, and the tokens of the client's own request, by our count and by the provider's."""

    turn: WatchedTurn
    bill: Bill
    key: CacheKey
    tokens: int
    sent: float
    cacheable: float


@dataclass(slots=True, eq=False)
class KeptSession:
    """A session, or the state that it is restored from if it is not in memory or its parameters have changed."""

    state: str | None = None
    at: float = 0.0
    """When its last request came."""
    session: MessageSession[Any] | None = None
    _parameters: tuple[Any, ...] = ()

    def knows(self, read: ReadRequest, task: Task) -> bool:
        """Return whether it need not be restored for a request."""
        return self.session is not None and self._parameters == _parameters(read, task)

    def of(self, read: ReadRequest, task: Task) -> MessageSession[Any]:
        """Return the session for a request."""
        if self.session is None or not self.knows(read, task):
            self.session, self._parameters = session_for(read, task), _parameters(read, task)
        return self.session


@dataclass(slots=True, eq=False)
class LiveBranch:
    """A branch, and everything that is needed to continue it."""

    branch: Branch
    digests: list[bytes] = field(default_factory=list[bytes])
    """A digest of each message of the newest request."""
    opening: tuple[bytes, bytes] = (b"", b"")
    """Digests of its system prompt and its tools."""
    prices: Prices = field(default_factory=Prices)
    size: int = 0
    """Bytes of the newest request."""
    governed: KeptSession = field(default_factory=KeptSession)
    """The session that chooses the messages of its requests."""
    everything: dict[CacheKey, KeptSession] = field(default_factory=dict[CacheKey, KeptSession])
    """The sessions that send everything, one for each cache that the provider keeps, the newest last."""
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
    _before: str | None = None
    """The state before the newest request."""
    _settled: SettledTurn | None = None
    _forms: dict[tuple[int | None, bytes], int] = field(default_factory=dict[tuple[int | None, bytes], int])

    @classmethod
    def restored(cls, branch: Branch) -> LiveBranch:
        """Return a recorded branch, to be continued."""
        forms = {(form.position, message_digest(form.message)): at for at, form in enumerate(branch.forms)}
        size = len(msgspec.json.encode(branch.messages))
        digests, opening = digests_of(branch.asked), opening_of(branch.system, branch.tools)
        last = branch.turns[-1]
        kept = {(last.model, opening): KeptSession(branch.in_full, last.at)}
        return cls(branch, digests, opening, size=size, everything=kept, _forms=forms)

    def forked(self, branch: Branch) -> LiveBranch:
        """Return a new branch that begins as this one."""
        kept = {key: KeptSession(one.state, one.at) for key, one in self.everything.items()}
        return LiveBranch(branch, everything=kept, learned=self.learned)

    def put_aside(self) -> None:
        """Keep only the states of its sessions in memory."""
        for kept in (self.governed, *self.everything.values()):
            kept.session = None

    def follow(self, read: ReadRequest, at: float, siblings: Iterable[LiveBranch]) -> float | None:
        """Return the seconds since the last request that the cache knows this one by; None if it is the first."""
        key, newest = (read.model, read.opening), next(reversed(self.everything.values()), None)
        known = [self.everything.pop(key, None), *(one.everything.get(key) for one in siblings)]
        last = next((one for one in known if one is not None), None)
        idle = None if newest is None else _FOREVER if last is None else max(0.0, at - last.at)
        kept = known[0] or last or newest
        self.everything[key] = known[0] or KeptSession(None if kept is None else kept.state)
        self.everything[key].at = at
        for old in [*self.everything][:-_MOST_CACHES]:
            del self.everything[old]
        return idle

    def task(self, turn: WatchedTurn, read: ReadRequest, task: Task) -> Task | None:
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
        return task._replace(state=self.branch.in_full if self.branch.state is None else self.branch.state)

    def in_full(self, read: ReadRequest, idle: float | None) -> tuple[KeptSession, Task]:
        """Return the session that sends everything to the cache of a request."""
        kept = self.everything.setdefault((read.model, read.opening), KeptSession())
        return kept, Task(_EVERYTHING, state=kept.state, idle=idle)

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
        self.governed.session = self.choice = None
        self.active = False
        self.refusals += refused
        turn.action, turn.window, turn.bill, turn.explain, turn.changes = "original", None, None, "", []
        turn.notes.append(note)

    def observe(self, turn: WatchedTurn, read: ReadRequest, task: Task) -> None:
        """Settle the bill of a governed request with the provider's usage."""
        self.refusals = 0
        if turn.usage:
            session = self.governed.session or session_for(read, task._replace(state=self.branch.state))
            bill = session.observe(turn.usage) or self.prices.settle(turn.bill or Bill(), turn.usage)  # of a retry
            turn.bill, self.branch.state = bill if bill.sent else turn.bill, session.to_json()

    def settle(self, turn: WatchedTurn, read: ReadRequest, idle: float | None, full: ChosenWindow | None) -> None:
        """Settle the bill of a turn, and that of sending everything if another request was sent, now or before.

        Args:
            turn: The turn, with the bill of the session that governs if that was asked.
            read: Its request.
            idle: Seconds since the last request that the cache knows it by.
            full: The request of the session that sends everything, if another process has made it.
        """
        kept, task = self.in_full(read, idle)
        if full is None:
            session = kept.of(read, task)
            sent = session.fit(read.messages, idle=idle)
            appends, estimate = sent.action == "append", sent.bill
        else:  # not kept: it would have to read all of a large request
            session, kept.session = session_for(read, task._replace(state=full.state)), None
            appends, estimate = full.action == "append", full.bill
        if turn.window is None:
            turn.tokens, told = estimate.sent, session.observe(turn.usage) if turn.usage else None
            turn.bill = turn.bill or told or self._in_full(estimate, estimate.sent, estimate.new)
        kept.state = self.branch.in_full = session.to_json()
        if turn.bill is not None:
            self._compare(turn, turn.bill, estimate, read, repeats=appends and estimate.read > 0)

    def _compare(self, turn: WatchedTurn, bill: Bill, full: Bill, read: ReadRequest, *, repeats: bool) -> None:
        """Estimate the bill of sending everything, by the provider's count of what the turns add."""
        last, is_own, key = self._settled, turn.window is None, (read.model, read.opening)
        was_own, rate, sent = last is None or last.turn.window is None, 0.0, float(bill.sent)
        repeats = repeats and bill.settled
        if last is not None and last.key == key and repeats and (turn.action == "append" or (is_own and was_own)):
            rate = self.learned.rate(turn.tokens - last.turn.tokens, bill.sent - last.bill.sent)
            self.learned.cacheable += self.prices.cached(round(last.bill.sent * (last.cacheable if was_own else 1.0)))
            self.learned.read += bill.read
        rate = rate or self.learned.rate(0, 0) or (1.0 if last else bill.sent / max(turn.tokens, 1))
        if not is_own:
            sent = last.sent + rate * (full.sent - last.tokens) if last else rate * full.sent
        if not (is_own and was_own):
            share = last.cacheable if last else 1.0
            turn.appended = self._in_full(full, round(sent), round(min(full.new * rate, sent)), share)
        self._settled = SettledTurn(turn, bill, key, full.sent, sent, read.cacheable)

    def _in_full(self, estimate: Bill, sent: int, new: int, share: float = 1.0) -> Bill:
        """Return the bill of sending everything, from an estimate of ours, by the provider's tokens and its cache.

        The client has asked for a `share` of its last request to be cached.
        """
        same = round((sent - new) * share * estimate.read / max(estimate.read + estimate.rewritten, 1))
        again = min(round(self.prices.cached(same) * self.learned.served), same)
        return replace(self.prices, minimum=0, step=1).estimate(same=again, sent=sent, new=new)

    def is_large(self, added: int, *, known: bool) -> bool:
        """Return whether a session must read so much that other conversations would have to wait for it."""
        return (added if known else self.size) > LARGE

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
    """Return a session with the parameters of a request, from its state if there is one."""
    prices = prices_of(read)
    options: dict[str, Any] = {"provider": read.call.provider, "system": read.system, "tools": read.tools}
    if task.budget == _EVERYTHING:  # it says what a cache could serve; which part of it a cache does is learned
        prices = replace(prices, minimum=0, step=1)
    options |= {"prices": prices, "thinking": read.thinking, "recall": task.recall}
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


def chosen_apart(call: ModelCall, body: bytes, encoding: str, task: Task) -> ChosenWindow:
    """Return the messages that a session chooses for the body of a request.

    For a process of its own: everything that it takes and returns can be pickled.
    """
    read = read_request(call, body, encoding)
    return chosen_by(session_for(read, task), read, task.idle)


def prices_of(read: ReadRequest) -> Prices:
    """Return the prices of a request; where cache breakpoints are set by callers, one without any is not cached."""
    prices = default_prices(read.call.provider)
    if not prices.marks:
        return prices
    if read.marks is None:
        return Prices(read=1.0, write=1.0, marks=0)
    return replace(prices, marks=prices.marks - ("cache_control" in read.fields))


def common_run(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Return how many messages two requests have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (ours, theirs) in pairs if ours != theirs), min(len(one), len(other)))


def _parameters(read: ReadRequest, task: Task) -> tuple[Any, ...]:
    """Return everything that a session is made with."""
    return task.budget, task.recall, read.system, read.tools, read.marks, read.thinking
