"""Observe model calls beside the proxy: place, govern, settle and record them, in a separate thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from queue import PriorityQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from cupel.errors import CupelError
from cupel.messages import MessageSession
from cupel.sessions import Bill
from cupel.watch._conversations import Place, Store
from cupel.watch._govern import count_body
from cupel.watch._headers import harmless, secrets_of, single
from cupel.watch._reading import ModelCall, ReadRequest, UnreadableError, read_answer, read_request

if TYPE_CHECKING:
    from cupel.watch._headers import Headers
    from cupel.watch._recordings import Recordings

_PATIENCE: Final = 10.0
"""Seconds after which a request is sent as it is, because governing takes too long."""
_REFUSED: Final = 400
_LONGEST: Final = 500
_log = logging.getLogger("cupel.watch")


@dataclass(slots=True, eq=False)
class Exchange:
    """One model call: the request as it came, the answer as it was forwarded, and where they belong."""

    call: ModelCall
    body: bytes
    headers: Headers
    query: bytes = b""
    governs: bool = False
    """Whether its messages may be replaced."""
    at: float = field(default_factory=time.time)
    notes: list[str] = field(default_factory=list[str])
    status: int = 499
    """By default the status that servers log if the client disconnects before the answer."""
    answer_headers: Headers = field(default_factory=list[tuple[bytes, bytes]])
    answer: bytearray = field(default_factory=bytearray)
    seconds: float = 0.0
    looked: bool = False
    """Whether it is being read."""
    read: ReadRequest | None = None
    place: Place | None = None
    idle: float | None = None
    """Seconds since the request before it."""


class Worker:
    """A thread that does the most urgent of its jobs first."""

    def __init__(self) -> None:
        self._jobs: PriorityQueue[tuple[int, int, Callable[[], object] | None]] = PriorityQueue()
        self._numbers = count()
        self._thread = Thread(target=self._run, name="cupel-watch")
        self._thread.start()

    def submit(self, job: Callable[[], object] | None, *, later: int = 0) -> None:
        """Add a job; None ends the thread."""
        self._jobs.put((later, next(self._numbers), job))

    def close(self) -> None:
        """Wait until all jobs are done."""
        self.submit(None, later=2)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()[2]) is not None:
            job()


class Watcher:
    """Keeps the store of all conversations; none of its failures reaches a caller."""

    def __init__(self, store: Store, recordings: Recordings | None = None) -> None:
        self.store = store
        self._recordings = recordings
        self._worker = Worker()
        self._open: set[Exchange] = set()
        self.seen = 0
        """Calls that were answered."""
        self.total = Bill()
        """The bill of these calls."""
        self.failures, self.reason = 0, ""
        """Calls that were not read, or not governed, and why the last of them was not."""
        for live in () if recordings is None else recordings.load(store.memory):
            store.touch(live)

    def warm_up(self) -> None:
        """Load the token counter, so that the first request need not wait for it."""
        self._worker.submit(lambda: MessageSession[Any](100).fit([{"role": "user", "content": "Hello"}]))

    @property
    def held(self) -> int:
        """Bytes of the bodies that are in use or wait to be read."""
        return sum(len(exchange.body) + len(exchange.answer) for exchange in list(self._open))

    def look(self, exchange: Exchange) -> None:
        """Read a request that is being forwarded, once."""
        if not exchange.looked:
            exchange.looked = True
            self._submit(exchange, self._begin)

    async def govern(self, exchange: Exchange) -> bytes | None:
        """Return the body to send in place of the client's; None for the client's own, also after any failure."""
        chosen: Future[bytes | None] = Future()

        def choose(exchange: Exchange) -> None:
            if not chosen.set_running_or_notify_cancel():  # the original was sent meanwhile
                self._begin(exchange)
                return
            try:
                chosen.set_result(self._govern(exchange))
            except Exception as error:  # noqa: BLE001  (governing never breaks a call)
                chosen.set_exception(error)

        self._submit(exchange, choose)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(chosen), _PATIENCE)
        except Exception as error:  # noqa: BLE001
            late = f"it took longer than {_PATIENCE:g} seconds"
            said = late if isinstance(error, TimeoutError) else _said(error)
            self.withdraw(exchange, f"governing failed, the original request was sent: {said}")
            return None

    def withdraw(self, exchange: Exchange, note: str, *, refused: bool = False) -> None:
        """Note that the original request was sent after all."""
        self._submit(exchange, lambda exchange: self._withdraw(exchange, note, refused=refused))

    def answered(self, exchange: Exchange) -> None:
        """Read an answer that was forwarded, settle the bill and record the turn."""
        if not exchange.governs:
            self.look(exchange)
        self.seen += 1
        exchange.seconds = time.time() - exchange.at
        self._submit(exchange, self._end)

    def close(self) -> None:
        """Finish everything that was seen."""
        self._worker.close()
        if self._recordings is not None:
            self._recordings.close()

    def _submit(self, exchange: Exchange, job: Callable[[Exchange], object], *, later: int = 0) -> None:
        def safe() -> None:
            try:
                job(exchange)
            except Exception as error:  # noqa: BLE001  (a failure of the observer stays here)
                self._failed(_said(error))
                exchange.notes.append(f"not observed: {self.reason}")
                self._open.discard(exchange)

        self._open.add(exchange)
        self._worker.submit(safe, later=later)

    def _failed(self, reason: str) -> None:
        self.failures, self.reason = self.failures + 1, reason
        _log.warning("a call is not observed or not governed: %s", reason)

    def _begin(self, exchange: Exchange) -> ReadRequest:
        exchange.read = read = read_request(exchange.call, exchange.body, single(exchange.headers, b"content-encoding"))
        if not exchange.call.counts:
            exchange.place = place = self.store.place(read, len(exchange.body), exchange.at)
            turns = place.live.branch.turns
            exchange.idle = max(0.0, exchange.at - turns[-2].at) if len(turns) > 1 else None
            place.turn.notes, place.turn.headers = exchange.notes, harmless(exchange.headers)
            if self._recordings is not None:
                self._recordings.hide(secrets_of(exchange.headers, exchange.query))
            self.store.changes += 1
        return read

    def _govern(self, exchange: Exchange) -> bytes | None:
        read, budget, place = self._begin(exchange), self.store.budget, exchange.place
        if budget is None:
            return None
        if place is None:
            match = self.store.find(read)
            return count_body(read, budget, None if match is None else match.live)
        body = place.live.govern(place.turn, read, budget, exchange.idle)
        if not place.live.active and place.turn.notes:
            self._failed(place.turn.notes[-1])
        return body

    def _withdraw(self, exchange: Exchange, note: str, *, refused: bool) -> None:
        self._failed(note)
        if exchange.place is not None:
            exchange.place.live.withdraw(exchange.place.turn, note, refused=refused)

    def _end(self, exchange: Exchange) -> None:
        if exchange.place is None:
            self._open.discard(exchange)
            return
        live, turn, _ = exchange.place
        headers = exchange.answer_headers
        turn.status, turn.seconds, turn.headers = exchange.status, exchange.seconds, turn.headers | harmless(headers)
        if exchange.status >= _REFUSED:
            turn.bill = None
        else:
            newest = turn is live.branch.turns[-1]
            encoding, kind = single(headers, b"content-encoding"), single(headers, b"content-type")
            try:
                answer, turn.usage = read_answer(
                    exchange.call, bytes(exchange.answer), encoding=encoding, content_type=kind
                )
                if newest:
                    live.branch.messages, live.branch.answered = [*live.branch.asked, *answer], len(answer)
                if newest and live.active:
                    live.observe(turn)
            except (UnreadableError, CupelError, TypeError) as error:
                turn.notes.append(f"the answer is not read: {error}")
        live.unwritten += 1
        self._submit(exchange, self._keep, later=1)  # requests that wait to be governed come first

    def _keep(self, exchange: Exchange) -> None:
        place, read = exchange.place, exchange.read
        if place is None or read is None:
            return
        live, turn, previous = place
        try:
            if exchange.status < _REFUSED:
                live.settle(turn, read, previous, exchange.idle)
                self.total += turn.bill or Bill()
        except (CupelError, TypeError) as error:
            turn.notes.append(f"no bill: {error}")
        self._open.discard(exchange)
        live.unwritten -= 1
        if self._recordings is not None and not live.unwritten:
            self._recordings.write(live.branch)
        self.store.changes += 1


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST]
