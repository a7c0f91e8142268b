"""A provider on loopback that keeps the bytes it gets, and a proxy in front of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

import pytest

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("httpx2")

from cupel.watch._branches import Branch, WatchedTurn  # noqa: E402
from cupel.watch._conversations import Store  # noqa: E402
from cupel.watch._launch import SERVER  # noqa: E402
from cupel.watch._recordings import Recordings  # noqa: E402
from cupel.watch._server import WatchApp  # noqa: E402
from cupel.watch._watcher import Watcher  # noqa: E402

GO_AWAY = b""
"""In place of a piece of an answer: close the connection."""


@dataclass
class Received:
    """A request as it arrived."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def path(self) -> str:
        return self.line.split()[1]

    @property
    def json(self):
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


Reply = list[bytes | float]
"""The bytes of an answer, in pieces; a number is a pause in seconds."""


def answer(body: object, status: int = 200, headers: str = "content-type: application/json") -> Reply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\n{headers}\r\ncontent-length: {len(raw)}\r\n\r\n"
    return [head.encode() + raw]


def stream(events: list[bytes], wait: float = 0.0, *, ends: bool = True) -> Reply:
    pieces: Reply = [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"]
    for event in events:
        pieces += [wait, b"%x\r\n%s\r\n" % (len(event), event)]
    return [*pieces, b"0\r\n\r\n" if ends else GO_AWAY]


@dataclass
class Upstream:
    """Answers each request by `reply`."""

    reply: Callable[[Received], Reply]
    received: list[Received] = field(default_factory=list)
    gone: list[float] = field(default_factory=list)
    """When a client went away before its answer was complete."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *fields = head.decode("latin-1").strip().split("\r\n")
                headers = [(name, value.strip()) for name, _, value in (one.partition(":") for one in fields)]
                request = Received(line, headers, b"")
                request.body = await _body(reader, request)
                self.received.append(request)
                for piece in self.reply(request):
                    if isinstance(piece, float):
                        await asyncio.sleep(piece)
                    elif piece == GO_AWAY:
                        writer.transport.abort()
                        return
                    else:
                        writer.write(piece)
                        await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except ConnectionError:
            self.gone.append(monotonic())
        finally:
            writer.close()


async def _body(reader: asyncio.StreamReader, request: Received) -> bytes:
    if (request.header("transfer-encoding") or "") != "chunked":
        return await reader.readexactly(int(request.header("content-length") or 0))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


@contextmanager
def running(reply: Callable[[Received], Reply]) -> Iterator[Upstream]:
    """Run a provider in a thread of its own."""
    upstream, loop, ready = Upstream(reply), asyncio.new_event_loop(), threading.Event()

    def run() -> None:
        server = loop.run_until_complete(asyncio.start_server(upstream.serve, "127.0.0.1", 0, limit=1 << 26))
        upstream.port = server.sockets[0].getsockname()[1]
        ready.set()
        loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(5)
    try:
        yield upstream
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)


@dataclass
class Proxy:
    """A proxy in a thread of its own."""

    url: str
    watcher: Watcher
    token: str

    @property
    def cookies(self) -> dict[str, str]:
        """What a browser sends that has opened the printed address."""
        return {f"cupel-watch-{self.url.rpartition(':')[2]}": self.token}

    @property
    def store(self) -> Store:
        return self.watcher.store

    @property
    def branches(self) -> list[Branch]:
        return [live.branch for live in self.store.live[::-1]]

    def branch_of(self, turn: WatchedTurn) -> Branch:
        return next(branch for branch in self.branches if turn in branch.turns)

    def sent(self, turn: WatchedTurn) -> list[object]:
        return [form.message for form in self.branch_of(turn).sent(turn)]

    def turns(self, count: int) -> list[WatchedTurn]:
        """Wait until this many turns are settled, and return them in their order."""
        until = monotonic() + 10
        while monotonic() < until:
            found = [turn for branch in self.branches for turn in branch.turns]
            if len(found) == count and all(turn.seconds is not None for turn in found) and not self.watcher.held:
                return sorted(found, key=lambda turn: turn.at)
            sleep(0.005)
        raise AssertionError([(turn.number, turn.seconds, turn.notes) for turn in found])


@contextmanager
def proxied(
    upstream: str | dict[str, str], *, budget: int | None = None, folder: Path | None = None, **options: object
) -> Iterator[Proxy]:
    """Run a proxy in front of an upstream."""
    watcher = Watcher(Store(budget=budget), None if folder is None else Recordings(folder))
    app = WatchApp(watcher, {"": upstream} if isinstance(upstream, str) else upstream, **options)
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="on", **SERVER))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        sleep(0.002)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Proxy(f"http://127.0.0.1:{port}", watcher, app.token)
    finally:
        server.should_exit = True
        thread.join(10)
