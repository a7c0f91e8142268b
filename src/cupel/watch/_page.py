"""The routes of the pages: one selection that Python answers, and the watched conversations below `/_cupel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from cupel.errors import CupelError
from cupel.page import render_page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from cupel.page import LivePage
    from cupel.watch._store import Store

_MOST_BYTES: Final = 4_000_000
"""The longest question of a page."""
_SAFE: Final = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every answer; a page's own content security policy lets nothing run but its script."""


def html_response(payload: Mapping[str, Any]) -> HTMLResponse:
    """Return a page with its content security policy as a header too, where it also forbids frames."""
    text = render_page(dict(payload))
    policy = text.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    return HTMLResponse(text, headers=_SAFE | {"content-security-policy": f"{policy}; frame-ancestors 'none'"})


def json_response(data: object, status: int = 200) -> Response:
    """Return data as JSON."""
    return Response(msgspec.json.encode(data), status, headers=_SAFE, media_type="application/json")


def live_routes(page: LivePage, payload: Mapping[str, Any]) -> list[BaseRoute]:
    """Return the routes of one page: the page itself, and the answers to its questions."""

    async def index(_request: Request) -> HTMLResponse:
        return html_response(payload)

    async def ask(request: Request) -> Response:
        return await answered(page, request)

    return [Route("/", index), Route("/ask", ask, methods=["POST"])]


async def answered(page: LivePage, request: Request) -> Response:
    """Answer a question of a page; only its own script can send JSON."""
    if request.headers.get("content-type") != "application/json":
        return json_response({"error": "send the question as application/json"}, 415)
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            return json_response({"error": f"a question has at most {_MOST_BYTES:,} bytes"}, 413)
    try:
        return json_response(await run_in_threadpool(page.answer, body))
    except CupelError as error:
        return json_response({"error": str(error)}, 400)


def page_routes(store: Store) -> list[BaseRoute]:
    """Return the routes that the server mounts at `/_cupel`; the host of a request was checked before."""

    async def index(_request: Request) -> JSONResponse:
        found = [
            {"name": one.name, "title": one.title, "turns": [len(branch.turns) for branch in one.branches]}
            for one in store.conversations
        ]
        return JSONResponse({"conversations": found})

    return [Route("/", index)]
