"""Observe model calls beside the proxy: place, govern, settle and record them, in a separate thread."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import get_context
from queue import PriorityQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cupel.errors import CupelError, SelectionError
from cupel.messages import Bill, MessageSession
from cupel.watch._conversations import Place, Store
from cupel.watch._govern import LARGE, ChosenWindow, Task, chosen_apart, chosen_by, session_for
from cupel.watch._headers import harmless, secrets_of, single
from cupel.watch._reading import ModelCall, ReadRequest, UnreadableError, read_answer, read_request

if TYPE_CHECKING:
    from cupel.watch._headers import Headers
    from cupel.watch._recordings import Recordings

_PATIENCE: Final = 10.0
"""Seconds after which a request is sent as it is, because governing takes too long."""
_PATIENCE_WITH_LARGE: Final = 30.0
_REFUSED: Final = 400
_LONGEST: Final = 500
T = TypeVar("T")
_log = logging.getLogger("cupel.watch")


@dataclass(slots=True, eq=False)
class Exchange:
    """One model call: the request as it came, the answer as it was forwarded, and where they belong."""

    call: ModelCall
    body: bytes
    headers: Headers
    path: str = ""
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


class Worker:
    """A thread that does the most urgent of its jobs first."""

    def __init__(self, name: str) -> None:
        self._jobs: PriorityQueue[tuple[int, int, Callable[[], object] | None]] = PriorityQueue()
        self._numbers = count()
        self._thread = Thread(target=self._run, name=name)
        self._thread.start()

    def submit(self, job: Callable[[], object] | None, *, later: int = 0) -> None:
        """Add a job; None ends the thread."""
        self._jobs.put((later, next(self._numbers), job))

    def finish(self) -> None:
        """Wait until all jobs are done that wait now, and those that they add."""
        done = Event()
        self.submit(done.set, later=2)
        done.wait()

    def close(self) -> None:
        """Wait until all jobs are done, and end the thread."""
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
        self._worker = Worker("cupel-watch")
        self._apart = ThreadPoolExecutor(1)
        """Waits for the processes that read large requests, one after the other."""
        self._closed = False
        self._open: set[Exchange] = set()
        self.seen = 0
        """Calls that were answered."""
        self.total = Bill()
        """The bill of these calls."""
        self.in_full = Bill()
        """The bill of the same calls, had every request been sent as the client wrote it; in parts an estimate."""
        self.changed = 0
        """Requests whose messages were replaced."""
        self.unread: Counter[str] = Counter()
        """Model calls that were not read, by method and path."""
        self.failures, self.reason = 0, ""
        """Other calls that were not observed or not governed, and why the last of them was not."""
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
        patience = _PATIENCE if len(exchange.body) <= LARGE else _PATIENCE_WITH_LARGE
        try:
            return await asyncio.wait_for(self._choose(exchange), patience)
        except Exception as error:  # noqa: BLE001  (governing never breaks a call)
            late = f"it took longer than {patience:g} seconds"
            said = late if isinstance(error, TimeoutError) else _said(error)
            self.withdraw(exchange, f"governing failed, the original request was sent: {said}")
            return None

    async def _choose(self, exchange: Exchange) -> bytes | None:
        """Return the body to send, chosen in the thread or, for a large request, in a process of its own."""
        found = await self._result(exchange, self._govern)
        if not isinstance(found, Task):
            return found
        choice = await asyncio.wrap_future(self._apart.submit(_chosen_apart, exchange, found))
        return await self._result(exchange, lambda exchange: self._adopt(exchange, choice))

    def _result(self, exchange: Exchange, job: Callable[[Exchange], T]) -> asyncio.Future[T]:
        """Do a job in the thread and return its result; only read the request if nobody waits for it any more."""
        result: Future[T] = Future()

        def work(exchange: Exchange) -> None:
            if not result.set_running_or_notify_cancel():  # the original was sent meanwhile
                if exchange.read is None:
                    self._begin(exchange)
                return
            try:
                result.set_result(job(exchange))
            except Exception as error:  # noqa: BLE001
                result.set_exception(error)

        self._submit(exchange, work)
        return asyncio.wrap_future(result)

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
        if self._closed:
            return
        self._closed = True
        self._worker.finish()
        self._apart.shutdown()
        self._worker.close()
        if self._recordings is not None:
            self._recordings.close()

    def _submit(self, exchange: Exchange, job: Callable[[Exchange], object], *, later: int = 0) -> None:
        def safe() -> None:
            try:
                job(exchange)
            except Exception as error:  # noqa: BLE001  (a failure of the observer stays here)
                self._failed(exchange, _said(error))
                exchange.notes.append(f"not observed: {_said(error)}")
                self._open.discard(exchange)

        self._open.add(exchange)
        self._worker.submit(safe, later=later)

    def _failed(self, exchange: Exchange, reason: str) -> None:
        if exchange.read is not None:  # it is counted as not read
            self.failures, self.reason = self.failures + 1, reason
        _log.warning("a call is not observed or not governed: %s", reason)

    def _begin(self, exchange: Exchange) -> ReadRequest:
        try:
            read = read_request(exchange.call, exchange.body, single(exchange.headers, b"content-encoding"))
        except Exception:
            self.unread[f"POST {exchange.path}"] += 1
            raise
        exchange.read = read
        if not exchange.call.counts:
            exchange.place = place = self.store.place(read, len(exchange.body), exchange.at)
            place.turn.notes, place.turn.headers = exchange.notes, harmless(exchange.headers)
            if self._recordings is not None:
                self._recordings.hide(secrets_of(exchange.headers, exchange.query))
            self.store.changes += 1
        return read

    def _govern(self, exchange: Exchange) -> bytes | Task | None:
        """Return the body to send, None for the client's own, or the task of another process."""
        read, place = self._begin(exchange), exchange.place
        if (task := self._task) is None:
            return None
        if place is None:  # it counts the tokens of a request
            match = self.store.find(read)
            if read.obstacle if match is None else match.live.obstacle(read):
                return None
            task = task._replace(state=None if match is None else match.live.branch.state)
            if len(exchange.body) > LARGE:
                return task
            window = chosen_by(session_for(read, task), read, None).window
            return None if window is None else read.with_messages(window)
        live, turn = place.live, place.turn
        asked = live.task(turn, read, task._replace(idle=place.idle))
        if asked is not None and live.is_large(place.added, known=live.governed.knows(read, asked)):
            return asked
        choice = None if asked is None else chosen_by(live.governed.of(read, asked), read, place.idle)
        body = live.govern(turn, read, choice)
        if not live.active and turn.notes:
            self._failed(exchange, turn.notes[-1])
        return body

    @property
    def _task(self) -> Task | None:
        """How requests are governed; None for a watcher that only looks."""
        return None if self.store.budget is None else Task(self.store.budget, self.store.recall)

    def _adopt(self, exchange: Exchange, choice: ChosenWindow) -> bytes | None:
        """Return the body for the choice of another process."""
        read, place = exchange.read, exchange.place
        if read is None:
            return None
        if place is None:
            return None if choice.window is None else read.with_messages(choice.window)
        if place.turn is not place.live.branch.turns[-1]:
            msg = "the next request of its conversation came before it was chosen"
            raise SelectionError(msg)
        place.live.governed.session = None  # it has not seen this turn
        return place.live.govern(place.turn, read, choice)

    def _withdraw(self, exchange: Exchange, note: str, *, refused: bool) -> None:
        self._failed(exchange, note)
        if exchange.place is not None:
            exchange.place.live.withdraw(exchange.place.turn, note, refused=refused)

    def _end(self, exchange: Exchange) -> None:
        if exchange.place is None:
            self._open.discard(exchange)
            return
        live, turn, read, task = exchange.place.live, exchange.place.turn, exchange.read, self._task
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
                if newest and live.active and read is not None and task is not None:
                    live.observe(turn, read, task)
            except (UnreadableError, CupelError, TypeError) as error:
                turn.notes.append(f"the answer is not read: {error}")
        live.unwritten += 1
        self._submit(exchange, self._keep, later=1)  # requests that wait to be governed come first

    def _keep(self, exchange: Exchange, counted: Future[ChosenWindow] | None = None) -> None:
        """Compute the bill, which another process does for a large request, and record the turn."""
        place, read = exchange.place, exchange.read
        if place is None or read is None:
            return
        live, turn, is_answered = place.live, place.turn, exchange.status < _REFUSED
        known = live.in_full(read, None)[0].session is not None
        if is_answered and counted is None and live.is_large(place.added, known=known):
            asked = self._apart.submit(_chosen_apart, exchange, live.in_full(read, place.idle)[1])
            asked.add_done_callback(lambda done: self._submit(exchange, partial(self._keep, counted=done), later=1))
            return
        try:
            if is_answered:
                live.settle(turn, read, place.idle, None if counted is None else counted.result())
                self.total += turn.bill or Bill()
                self.in_full += turn.appended or turn.bill or Bill()
        except Exception as error:  # noqa: BLE001  (without a bill, it is recorded all the same)
            turn.notes.append(f"no bill: {_said(error)}")
        self._open.discard(exchange)
        live.unwritten -= 1
        self.changed += turn.window is not None
        if self._recordings is not None and not live.unwritten:
            self._recordings.write(live.branch)
        self.store.changes += 1


def _chosen_apart(exchange: Exchange, task: Task) -> ChosenWindow:
    """Let a process of its own read a request: it stalls nobody here, and its memory is free again when it ends."""
    encoding = single(exchange.headers, b"content-encoding")
    ignored = signal.SIGINT, signal.SIG_IGN  # Ctrl-C in the terminal ends the command, and then this process
    with ProcessPoolExecutor(1, get_context("spawn"), signal.signal, ignored) as pool:
        return pool.submit(chosen_apart, exchange.call, exchange.body, encoding, task).result()


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST]
