"""The routes of the pages: one selection that Python answers, and the watched conversations below `/_cupel`."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from cupel import presets
from cupel._internal.counter import count_tokens
from cupel._internal.text import plural
from cupel.errors import CupelError
from cupel.messages import Message, read_message, to_items
from cupel.model import ContextBudget
from cupel.page import ConversationTexts, LivePage, Variant, render_page
from cupel.tokens import counter_or_default
from cupel.watch._verdict import verdict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

    from cupel.messages import Bill
    from cupel.watch._branches import Branch, WatchedTurn
    from cupel.watch._conversations import Store

_MOST_BYTES: Final = 4_000_000
"""The longest question of a page."""
_WINDOWS: Final = 4
"""The pages of single turns that are kept for their questions."""
_TURNS: Final = 200
"""Turns of a long conversation that are shown at once."""
_GLANCE: Final = 0.1
"""Seconds between two looks for changes."""
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
    windows: OrderedDict[tuple[str, int], LivePage] = OrderedDict()

    async def index(_request: Request) -> Response:
        empty = {"budget": store.budget, "strategies": [""], "conversations": []}
        return html_response({"title": "Watched conversations", "watch": {"upstream": store.upstream}, "turns": empty})

    async def events(_request: Request) -> Response:
        return StreamingResponse(_events(store), media_type="text/event-stream", headers=_SAFE)

    async def conversations(_request: Request) -> Response:
        return json_response(await run_in_threadpool(branch_rows, store))

    async def turns(request: Request) -> Response:
        branch = store.branch(request.query_params.get("session", ""))
        if branch is None:
            return json_response({"error": "this conversation is not in memory any more"}, 404)
        wanted = request.query_params.get("turn", "")
        return json_response(
            await run_in_threadpool(turns_payload, store, branch, int(wanted) if wanted.isdecimal() else None)
        )

    async def page_of(request: Request) -> LivePage | None:
        key = str(request.path_params["session"]), int(request.path_params["turn"])
        branch = store.branch(key[0])
        if key not in windows and branch is not None and key[1] < len(branch.turns):
            windows[key] = await run_in_threadpool(window_page, store, branch, branch.turns[key[1]])
            if len(windows) > _WINDOWS:
                windows.popitem(last=False)
        return windows.get(key)

    async def window(request: Request) -> Response:
        page = await page_of(request)
        if page is None:
            return json_response({"error": "this turn is not in memory any more"}, 404)
        return html_response(page.payload)

    async def ask(request: Request) -> Response:
        page = await page_of(request)
        return json_response({"error": "this turn is gone"}, 404) if page is None else await answered(page, request)

    place = "/window/{session}/{turn:int}"
    return [
        Route("/", index),
        Route("/events", events),
        Route("/conversations", conversations),
        Route("/turns", turns),
        Route(f"{place}/", window),
        Route(f"{place}/ask", ask, methods=["POST"]),
    ]


async def _events(store: Store) -> AsyncIterator[str]:
    """Yield a server-sent event after every change; the first line opens the stream."""
    yield ": watching\n\n"
    seen = store.changes
    while not store.closed:
        await asyncio.sleep(_GLANCE)
        if store.changes != seen:
            seen = store.changes
            yield "data: changed\n\n"


def branch_rows(store: Store) -> list[dict[str, Any]]:
    """Return every branch of every conversation with its totals."""
    return [_branch_row(live.branch) for live in store.live if live.branch.turns]


def _branch_row(branch: Branch) -> dict[str, Any]:
    total, last = branch.total, branch.turns[-1]
    return {
        "session": branch.session,
        "title": branch.title,
        "parent": branch.parent,
        "forked": branch.forked,
        "model": last.model,
        "turns": len(branch.turns),
        "sent": total.sent,
        "read": total.read,
        "price": total.price,
        "estimated": not total.settled,
        "appended": branch.appended.price,
        "waiting": last.seconds is None,
    }


def turns_payload(store: Store, branch: Branch, wanted: int | None = None) -> dict[str, Any]:
    """Return one page of a branch: each request with its cost and, if governed, the cost of sending everything.

    The page is the one with turn number `wanted`, counted from 1; by default the newest.
    """
    every = list(branch.turns)
    first = (min(max(wanted or len(every), 1), len(every)) - 1) // _TURNS * _TURNS
    turns = every[first : first + _TURNS]
    messages = branch.asked[: max(turn.count for turn in turns)]
    opening = [info for info in (_opening(branch.system), _opening(branch.tools)) if info is not None]

    def read(message: Any) -> Message:
        try:
            return read_message(message, branch.provider, path="a message")
        except (CupelError, TypeError):  # forwarded as it was; the provider may read it
            return Message("user", texts=[json.dumps(message, ensure_ascii=False, default=str)])

    texts = ConversationTexts(messages, read, _tokens)
    sent = [_turn(branch, turn, turn.bill, _request(branch, turn, texts)) for turn in turns]
    strategies = {"as sent": sent}
    if store.budget is not None:
        everything = [_turn(branch, turn, turn.appended or turn.bill, [0, turn.count]) for turn in turns]
        over = [row | {"over": True} if row["sent"] > store.budget else row for row in everything]
        strategies = {"sending everything": over, **strategies}
    talk = {
        "name": branch.conversation,
        "opening": [texts.row(info) for info in opening],
        "messages": len(messages),
        "strategies": list(strategies.values()),
        "texts": texts.rows,
        "steps": [turn.count for turn in turns],
    }
    window = f"window/{quote(branch.session, safe='')}"
    story = {"budget": store.budget, "strategies": list(strategies), "conversations": [talk], "window": window}
    told = verdict(branch.total, branch.appended) if any(turn.appended for turn in every) else ""
    return {**story, "first": first, "turns": len(every), "verdict": told}


def _tokens(message: Message) -> int:
    return message.extra + sum(map(_text_tokens, message.texts))


@lru_cache(maxsize=5_000)
def _text_tokens(text: str) -> int:
    """Count the tokens of a text, once and not every time that its page is drawn."""
    return count_tokens(counter_or_default(None), text) if text else 0


def _request(branch: Branch, turn: WatchedTurn, texts: ConversationTexts) -> list[int]:
    """Return the numbers of the texts that a turn sent, as runs."""
    sent = branch.sent(turn)
    return texts.request([form.message for form in sent], [form.position for form in sent])


def _turn(branch: Branch, turn: WatchedTurn, bill: Bill | None, request: list[int]) -> dict[str, Any]:
    """Return one turn with the tokens of a bill, which are the provider's own where it reported any."""
    everything = turn.appended or turn.bill
    row: dict[str, Any] = {"history": turn.tokens if everything is None else everything.sent, "request": request}
    if bill is None:
        return row | {"sent": 0, "read": 0, "new": 0, "price": 0.0, "waiting": turn.seconds is None, "told": turn.notes}
    counted = "These are the provider's own counts." if bill.settled else "These counts are cupel's estimate."
    took = (
        "" if turn.seconds is None else f" {turn.model} answered in {turn.seconds:,.1f} s, with status {turn.status}."
    )
    told = [f"{counted}{took}", *(_governed(branch, turn) if bill is turn.bill else []), *turn.notes]
    numbers = {"sent": bill.sent, "read": bill.read, "new": bill.new, "price": bill.price}
    notes = [{"at": positions, "words": words} for positions, words in turn.changes] if bill is turn.bill else []
    return row | numbers | {"told": told, "notes": notes}


def _governed(branch: Branch, turn: WatchedTurn) -> list[str]:
    """Return how the session changed a request, and its reasons."""
    if not turn.explain:
        return []
    changed = sum(one < 0 and branch.forms[~one].position is not None for one in turn.window or ())
    shortened = f", {changed:,} of them shortened or with a note" if changed else ""
    told = f"{len(branch.sent(turn)):,} of {plural(turn.count, 'message')} are sent{shortened}."
    if turn.window == []:
        told = "The messages of this request are not kept any more."
    lines = turn.explain.splitlines()[1:]  # the first one says the same in short
    return [told, *(lines[:1] if turn.changes else lines)]


def _opening(content: Any) -> Message | None:
    """Return the system prompt or the tools as a message."""
    if not content:
        return None
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    return Message("system", texts=[text])


def window_page(store: Store, branch: Branch, turn: WatchedTurn) -> LivePage:
    """Return the page of one turn's history, under the watcher's budget or with room for everything."""
    items = to_items(branch.messages[: turn.count], provider=branch.provider)
    tokens = store.budget or max(1, sum(item.tokens for item in items))
    variants = [Variant(getattr(presets, name)(), name.replace("_", "-"), "") for name in presets.__all__]
    title = f"Turn {turn.number + 1}, {turn.model}"
    budget = ContextBudget(tokens, tokens)
    return LivePage(items, budget, variants, title=title, source=None, fixed_window=False)
