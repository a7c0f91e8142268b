"""The proxy: forwards every byte to the configured upstream, and passes a copy to a watcher."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from cupel.errors import MissingExtraError
from cupel.watch._headers import Headers, foreign_site, is_local, is_signed, single, to_client, to_upstream
from cupel.watch._reading import MAX_BODY, call_of, looks_like_call, path_at
from cupel.watch._watcher import Exchange

try:
    import httpx2 as httpx
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.routing import Mount

    from cupel.watch._page import page_routes
except ImportError as error:
    raise MissingExtraError(error.name or "starlette", "watch") from None

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from cupel.watch._watcher import Watcher

PAGE: Final = "/_cupel"
_SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_REFUSALS: Final = (400, 422)
"""Statuses of a governed request after which the original one is sent."""
_MOST_HELD: Final = 256_000_000
"""Bytes of bodies held in memory at once; further calls are forwarded without being read."""
_AFTERWARDS: Final = 0.02
"""Seconds after which a forwarded request is read, so that reading does not delay it."""
_POOLS: Final = 16
"""Pools of connections to upstreams, because httpx looks at every connection of a pool for each request."""
_TIMEOUT: Final = httpx.Timeout(None, connect=30)
_LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=10, keepalive_expiry=30)
_BEGINNING: Final = 64_000
"""Bytes of a body by which a call that is not read may be recognised."""
_LONGEST: Final = 500
"""Characters of a refusal that a note quotes."""


class _Upload:
    """The body of a request, as it arrives."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._chunks = request.stream()
        self._begun: list[bytes] = []
        self.beginning = b""
        self._ended = asyncio.Event()

    async def whole(self, limit: int) -> bytes | None:
        """Return the body, or None if it is longer than the limit; `stream` still yields all of it."""
        size = 0
        async for chunk in self._chunks:
            self._begun.append(chunk)
            size += len(chunk)
            if size > limit:
                return None
        self._ended.set()
        return b"".join(self._begun)

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body, beginning with the chunks that were already read."""
        for chunk in self._begun:
            yield chunk
        async for chunk in self._chunks:
            self.beginning += chunk[: _BEGINNING - len(self.beginning)]
            yield chunk
        self._ended.set()

    async def gone(self) -> None:
        """Wait until the client goes away, after the whole body has arrived."""
        await self._ended.wait()
        while (await self._request.receive())["type"] != "http.disconnect":
            pass


class WatchApp:
    """An ASGI application that forwards each path prefix to one upstream, and nothing to any other host.

    Args:
        watcher: Observes, and governs if its store has a budget.
        upstreams: The base URL for each prefix, such as `{"": "https://api.openai.com"}`.
        hosts: Names that a Host header may have, besides those of the loopback interface.
        any_address: Accept every IP address in a Host header, for a server that other machines can reach.
        origins: Origins of web pages whose calls are forwarded.
    """

    def __init__(
        self,
        watcher: Watcher,
        upstreams: Mapping[str, str],
        *,
        hosts: tuple[str, ...] = (),
        any_address: bool = False,
        origins: tuple[str, ...] = (),
    ) -> None:
        self._watcher = watcher
        self._upstreams = sorted(upstreams.items(), key=lambda pair: len(pair[0]), reverse=True)
        self._hosts = hosts
        self._any_address = any_address
        self._origins = frozenset(origins)
        self.token = secrets.token_urlsafe(16)
        """Opens the page."""
        self._page = Starlette(routes=[Mount(PAGE, routes=page_routes(watcher.store))])
        context = httpx.create_ssl_context()
        self._pools = [httpx.AsyncClient(verify=context, timeout=_TIMEOUT, limits=_LIMITS) for _ in range(_POOLS)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            with suppress(ClientDisconnect):
                await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        for pool in self._pools:
            await pool.aclose()
        await asyncio.to_thread(self._watcher.close)
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        path: str = scope["path"]
        known = next((one for one in self._upstreams if f"{path}/".startswith(f"{one[0]}/")), None)
        if not is_local(single(headers, b"host"), names=self._hosts, any_address=self._any_address):
            await _refuse(send, 421, "the Host header does not name this machine; --allow-host allows a name")
        elif path == PAGE or path.startswith(f"{PAGE}/"):
            await self._show(scope, receive, send)
        elif scope["method"] not in _SAFE_METHODS and (site := foreign_site(headers)) not in self._origins | {""}:
            await _refuse(send, 403, f"calls of web pages ({site}) are not forwarded; --allow-origin allows an origin")
        elif single(headers, b"content-length") and single(headers, b"transfer-encoding"):
            await _refuse(send, 400, "a request has either Content-Length or Transfer-Encoding", close=True)
        elif single(headers, b"upgrade").lower() == "websocket":
            await _refuse(send, 426, "WebSockets are not forwarded: use HTTP")
        elif known is None:
            prefixes = ", ".join(f"{prefix}/…" for prefix, _ in self._upstreams)
            await _refuse(send, 404, f"there is no upstream for {path} (known: {prefixes})")
        else:
            await self._forward(Request(scope, receive), send, *known)

    async def _show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the page: the address with the token sets a cookie for those that follow."""
        request = Request(scope, receive)
        name, given = f"cupel-watch-{(scope['server'] or ('', 0))[1]}", request.query_params.get("token", "")
        known = [one for one in (given, request.cookies.get(name, "")) if _is_same(one, self.token)]

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start" and known[0] == given:
                cookie = f"{name}={self.token}; Path={PAGE}; HttpOnly; SameSite=Strict"
                message["headers"] = [*message["headers"], (b"set-cookie", cookie.encode())]
            await send(message)

        if single(scope["headers"], b"sec-fetch-site") in {"cross-site", "same-site"}:
            await _refuse(send, 403, "other sites may not read this page")
        elif not known:
            await _refuse(send, 403, "open the page at the address that cupel watch printed; it ends in a token")
        else:
            await self._page(scope, receive, with_cookie)

    async def _forward(self, client: Request, send: Send, prefix: str, upstream: str) -> None:
        """Forward one call; if it is a model's, pass a copy of it and of its answer to the watcher."""
        scope, headers, upload = client.scope, cast("Headers", client.scope["headers"]), _Upload(client)
        path: str = scope["raw_path"].decode("ascii")[len(prefix) :]
        call, signed = call_of(client.method, path), is_signed(headers)
        governs = self._watcher.store.budget is not None and not signed
        body, exchange = None, None
        if call is not None and self._watcher.held < _MOST_HELD and (governs or not call.counts):
            body = await upload.whole(MAX_BODY)
            notes = ["signed by AWS SigV4: forwarded as it is"] if signed else []
            if body is not None:
                exchange = Exchange(
                    call, body, headers, prefix + path, scope["query_string"], governs=governs, notes=notes
                )
        elif not any(name in {b"content-length", b"transfer-encoding"} for name, _ in headers):
            body = await upload.whole(0)
        url = httpx.URL(upstream)
        target = path_at(url.raw_path.decode("ascii"), path).encode("ascii")
        target += b"?" + scope["query_string"] if scope["query_string"] else b""
        pool = self._pools[(client.client.port if client.client else 0) % _POOLS]

        async def ask(governed: bytes | None) -> httpx.Response:
            content = upload.stream() if body is None else body or None
            changed = to_upstream(headers, host=url.netloc, readable=exchange is not None and not signed)
            if governed is not None:
                content = governed
                changed = [one for one in changed if one[0] not in {b"content-length", b"content-encoding"}]
            request = httpx.Request(client.method, url, headers=changed, content=content)
            request.extensions["target"] = target
            try:
                return await pool.send(request, stream=True)
            finally:
                is_call = not call.counts if call else looks_like_call(client.method, path, upload.beginning)
                if exchange is None and is_call:
                    self._watcher.unread[f"{client.method} {prefix}{path}"] += 1

        work = asyncio.create_task(self._exchange(ask, send, exchange))
        gone = asyncio.create_task(upload.gone())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if exchange is not None and not work.done():
                exchange.notes.append("the client went away")
            for task in (work, gone):
                task.cancel()
            results = await asyncio.gather(work, gone, return_exceptions=True)
            if exchange is not None:
                with suppress(Exception):  # a failure of the observer never reaches the client
                    self._watcher.answered(exchange)
        if isinstance(results[0], Exception):
            raise results[0]

    async def _exchange(
        self, ask: Callable[[bytes | None], Awaitable[httpx.Response]], send: Send, exchange: Exchange | None
    ) -> None:
        """Send a request and forward the answer; a governed one that is refused is replaced by the original."""
        governed = None
        if exchange is not None and exchange.governs:
            governed = await self._watcher.govern(exchange)
        elif exchange is not None:
            asyncio.get_running_loop().call_later(_AFTERWARDS, self._look, exchange)
        try:
            response = await ask(governed)
            if exchange is not None and governed is not None and response.status_code in _REFUSALS:
                self._watcher.withdraw(exchange, await _refusal(response), refused=True)
                response = await ask(None)
        except httpx.HTTPError as error:
            note = f"the upstream cannot be reached: {type(error).__name__}: {error}"
            if exchange is not None:
                exchange.status = 502
                exchange.notes.append(note)
            await _refuse(send, 502, note)
            return
        await _relay(response, send, exchange)

    def _look(self, exchange: Exchange) -> None:
        with suppress(Exception):  # a failure of the observer never stops a request
            self._watcher.look(exchange)


async def _relay(response: httpx.Response, send: Send, exchange: Exchange | None) -> None:
    """Forward an answer chunk by chunk, without changing a byte."""
    headers = [(name.lower(), value) for name, value in response.headers.raw]
    if exchange is not None:
        exchange.status, exchange.answer_headers = response.status_code, headers
    try:
        await send({"type": "http.response.start", "status": response.status_code, "headers": to_client(headers)})
        async for chunk in response.aiter_raw():
            if exchange is not None and len(exchange.answer) <= MAX_BODY:
                exchange.answer += chunk
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except httpx.HTTPError as error:  # without the end of the body, the server closes the connection
        if exchange is not None:
            exchange.notes.append(f"the upstream went away: {type(error).__name__}: {error}")
    finally:
        await response.aclose()


async def _refusal(response: httpx.Response) -> str:
    """Return a note on an answer that refuses a governed request."""
    said = ""
    with suppress(httpx.HTTPError):
        said = (await response.aread()).decode("utf-8", "replace")[:_LONGEST]
    await response.aclose()
    return f"the governed request was refused, the original was sent: {response.status_code} {said}"


def _is_same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


async def _refuse(send: Send, status: int, message: str, *, close: bool = False) -> None:
    """Answer in place of the upstream, with an error in the form that providers use."""
    error = {"type": "cupel_watch", "message": f"cupel watch: {message}"}
    body = json.dumps({"type": "error", "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers += [(b"connection", b"close")] if close else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
