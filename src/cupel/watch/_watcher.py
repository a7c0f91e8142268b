"""Observe model calls beside the proxy: place, govern, settle and record them, in threads of their own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from cupel.errors import CupelError
from cupel.messages import MessageSession
from cupel.watch._conversations import MEMORY, BranchFinder, Place
from cupel.watch._govern import Ledger
from cupel.watch._headers import harmless, secrets_of, single
from cupel.watch._reading import (
    ModelCall,
    ReadRequest,
    UnreadableError,
    digests_of,
    opening_of,
    read_answer,
    read_request,
)
from cupel.watch._store import Branch, Event, Store

if TYPE_CHECKING:
    from cupel.watch._headers import Headers
    from cupel.watch._recordings import Recordings

_PATIENCE: Final = 10.0
"""Seconds after which a request is sent as it is, because governing takes too long."""
_REFUSED: Final = 400
_MOST_SESSIONS: Final = 128
"""Branches whose sessions stay in memory; others are restored from their states."""
_LONGEST: Final = 500
_log = logging.getLogger("cupel.watch")


@dataclass(slots=True, eq=False)
class WatchedCall:
    """One model call as the observer sees it."""

    call: ModelCall
    body: bytes
    headers: Headers
    query: bytes = b""
    at: float = field(default_factory=time.time)
    notes: list[str] = field(default_factory=list[str])
    read: ReadRequest | None = None
    place: Place | None = None
    idle: float | None = None
    """Seconds since the request before it."""
    size: int = 0
    """Bytes that it holds."""
    begun: bool = False
    """Whether it is being read."""

    def __post_init__(self) -> None:
        self.size = len(self.body)


class Watcher:
    """Keeps the store of all conversations; none of its failures reaches a caller."""

    def __init__(self, store: Store, recordings: Recordings | None = None, *, memory: int = MEMORY) -> None:
        self.store = store
        self._finder = BranchFinder(store, memory)
        self._recordings = recordings
        self._reader = ThreadPoolExecutor(1, "cupel-read")
        self._keeper = ThreadPoolExecutor(1, "cupel-keep")
        self._open: set[WatchedCall] = set()
        self._recent: OrderedDict[int, Branch] = OrderedDict()
        self._memory = memory
        self.seen = 0
        """Calls that were answered."""
        self.unread, self.reason = 0, ""
        """Calls that were only forwarded, and why the last of them was."""
        if recordings is not None:
            for conversation, branch in recordings.load(memory):
                known = store.conversation(conversation.name) or conversation
                known.branches.append(branch)
                store.touch(known)

    def warm_up(self) -> None:
        """Load the token counter, so that the first request need not wait for it."""
        self._reader.submit(MessageSession[Any](1).fit, [{"role": "user", "content": ""}])

    @property
    def held(self) -> int:
        """Bytes of the bodies that are in use or wait to be read."""
        return sum(exchange.size for exchange in list(self._open))

    def look(self, exchange: WatchedCall) -> None:
        """Read a request that is being forwarded, once."""
        if not exchange.begun:
            exchange.begun = True
            self._open.add(exchange)
            self._submit(self._reader, self._begin, exchange)

    async def govern(self, exchange: WatchedCall) -> bytes | None:
        """Return the body to send in place of the client's; None for the client's own, also after any failure."""
        self._open.add(exchange)
        try:
            job = asyncio.get_running_loop().run_in_executor(self._reader, self._govern, exchange)
            return await asyncio.wait_for(job, _PATIENCE)
        except Exception as error:  # noqa: BLE001  (governing never breaks a call)
            self.withdraw(exchange, f"governing failed, the original request was sent: {_said(error)}")
            return None

    def withdraw(self, exchange: WatchedCall, note: str, *, refused: bool = False) -> None:
        """Note that the original request was sent after all."""
        self._submit(self._reader, self._withdraw, exchange, note, refused)

    def answered(self, exchange: WatchedCall, status: int, headers: Headers, body: bytes) -> None:
        """Read an answer that was forwarded, settle the bill and record the turn."""
        exchange.size += len(body)
        self.seen += 1
        self._submit(self._reader, self._end, exchange, status, headers, body, time.time() - exchange.at)

    def close(self) -> None:
        """Finish everything that was seen."""
        self._reader.shutdown()
        self._keeper.shutdown()

    def _submit(
        self, threads: ThreadPoolExecutor, job: Callable[..., object], exchange: WatchedCall, *more: object
    ) -> None:
        def safe() -> None:
            try:
                job(exchange, *more)
            except Exception as error:  # noqa: BLE001  (a failure of the observer stays here)
                self.unread, self.reason = self.unread + 1, _said(error)
                _log.warning("a call is not observed: %s", self.reason)
                exchange.notes.append(f"not observed: {self.reason}")
                self._open.discard(exchange)

        with suppress(RuntimeError):  # the watcher is being closed
            threads.submit(safe)

    def _begin(self, exchange: WatchedCall) -> ReadRequest:
        exchange.read = read = read_request(exchange.call, exchange.body, single(exchange.headers, b"content-encoding"))
        if not exchange.call.counts:
            exchange.place = place = self._finder.place(read, len(exchange.body), exchange.at)
            turns = place.branch.turns
            exchange.idle = max(0.0, exchange.at - turns[-2].at) if len(turns) > 1 else None
            place.turn.notes, place.turn.headers = exchange.notes, harmless(exchange.headers)
            if place.branch.ledger is None:
                place.branch.ledger = Ledger.of(None if place.source is None else place.source.ledger)
            self._rest_old_sessions(place.branch)
            self.store.publish(Event(place.conversation.name, place.branch.name, place.turn.number, "began"))
        return read

    def _rest_old_sessions(self, newest: Branch) -> None:
        """Forget the sessions of branches that were not used lately: a session holds the messages of its branch."""
        self._recent[id(newest)] = newest
        self._recent.move_to_end(id(newest))
        held = sum(branch.size for branch in self._recent.values())
        while len(self._recent) > 1 and (len(self._recent) > _MOST_SESSIONS or held > self._memory):
            _, oldest = self._recent.popitem(last=False)
            held -= oldest.size
            if oldest.ledger is not None:
                oldest.ledger.rest()

    def _govern(self, exchange: WatchedCall) -> bytes | None:
        read, budget, place = self._begin(exchange), self.store.budget, exchange.place
        if budget is None:
            return None
        if place is None:
            match = self._finder.find(read, digests_of(read.messages), opening_of(read.system, read.tools))
            known = None if match is None else match.branch.ledger
            return (known or Ledger.of()).count(read, budget)
        return _ledger(place).govern(place, read, budget, exchange.idle)

    def _withdraw(self, exchange: WatchedCall, note: str, refused: bool) -> None:  # noqa: FBT001
        if exchange.place is None:
            self.unread, self.reason = self.unread + 1, note
        else:
            _ledger(exchange.place).withdraw(exchange.place.turn, note, refused=refused)

    def _end(self, exchange: WatchedCall, status: int, headers: Headers, body: bytes, seconds: float) -> None:
        place = exchange.place
        if place is None:
            self._open.discard(exchange)
            return
        turn, ledger = place.turn, _ledger(place)
        turn.status, turn.seconds, turn.headers = status, seconds, {**turn.headers, **harmless(headers)}
        encoding, kind = single(headers, b"content-encoding"), single(headers, b"content-type")
        newest = turn is place.branch.turns[-1]
        governed, succeeded = ledger.active and newest, status < _REFUSED
        if succeeded:
            try:
                answer, turn.usage = read_answer(exchange.call, body, encoding=encoding, content_type=kind)
                if newest:
                    place.branch.answer = answer
                if governed:
                    ledger.observe(turn)
            except (UnreadableError, CupelError, TypeError) as error:
                turn.notes.append(f"the answer is not read: {error}")
        else:
            turn.bill = None
        self._submit(self._keeper, self._keep, exchange, governed, succeeded)

    def _keep(self, exchange: WatchedCall, governed: bool, succeeded: bool) -> None:  # noqa: FBT001
        place, read = exchange.place, exchange.read
        if place is None or read is None:
            return
        try:
            if succeeded:
                _ledger(place).settle(place.turn, read, exchange.idle, governed=governed)
        except (CupelError, TypeError) as error:
            place.turn.notes.append(f"no bill: {error}")
        self._open.discard(exchange)
        if self._recordings is not None:
            self._recordings.write(place.conversation, place.branch, secrets_of(exchange.headers, exchange.query))
        self.store.publish(Event(place.conversation.name, place.branch.name, place.turn.number, "ended"))


def _ledger(place: Place) -> Ledger:
    return cast("Ledger", place.branch.ledger)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST]
