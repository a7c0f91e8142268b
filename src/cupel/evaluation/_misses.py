"""What the requests of a log cost, and why the provider's cache did not serve what had been sent before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any, Final, NamedTuple

from cupel._internal.documents import is_object
from cupel.messages import Bill, Prices, Provider, default_prices

MODEL: Final = "model switched"
IDLE: Final = "idle beyond the time to live"
OPENING: Final = "instructions or tools changed"
COMPACTED: Final = "compaction"
EDITED: Final = "messages edited or rewound"
TAIL: Final = "end of the last request not cached"
UNKNOWN: Final = "no cause in the log"
COLD: Final = frozenset((MODEL, IDLE, OPENING, UNKNOWN))
"""Causes that have nothing to do with the messages."""
_TOLD: Final = {"model": MODEL, "system": OPENING, "tools": OPENING, "messages": EDITED, "ttl": IDLE, "expired": IDLE}
"""The causes that a provider's diagnostics name, by their first word."""
_RATE: Final = 0.3
"""Tokens of a character, where no request of a log tells."""
_LEAST: Final = 200
"""Characters from which a message tells it."""
_NEAR: Final = 1.05
"""An estimate of the tokens before the first message is at most so much too small."""
_WRITTEN: Final = ("cache_creation_input_tokens", "cache_creation", "cache_write_input_tokens")
"""Tokens written to the cache, for how long, and whether Codex pays for them."""


class LoggedRequest(NamedTuple):
    """A request as a log tells of it."""

    at: int
    time: float
    answered: float
    model: str
    sent: int
    read: int
    cached: int | None
    """The tokens that the cache holds afterwards, if the provider says so."""
    prices: Prices | None
    """What the usage tells of the prices of this request and those that follow."""
    size: int
    """Characters of its messages."""
    fresh: int
    """Characters of its messages that the last request did not have."""
    change: str
    """Why it does not begin with the messages of the last request; empty if it does."""
    told: str
    """Why the cache was missed, if the log says so."""
    prompted: bool
    """Whether the user has spoken since the last request; if not, it is a step of the same task."""


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A request that was sent: its cost by the provider's own count, and why tokens were written again."""

    at: int
    """How many messages of the recording it had."""
    time: float
    """When it was sent, in seconds since 1970."""
    model: str
    bill: Bill
    causes: Mapping[str, int]
    """For each cause, the tokens that had been sent before and were not served."""
    idle: float
    """Seconds since the request before."""


def calls_of(provider: Provider, requests: Sequence[LoggedRequest]) -> list[LoggedCall]:
    """Return the cost of each request of a session and why its cache was missed."""
    rate, prices = _rate(requests), default_prices(provider)
    found: list[LoggedCall] = []
    opening = 0.0
    for request, last in zip(requests, [None, *requests], strict=False):
        ttl, prices = prices.ttl, request.prices or prices
        missed = request.sent - request.read
        base, new = (0.0, missed) if last is None else _known(request, last, rate, opening)
        new = min(max(round(new), 0), missed)
        causes: dict[str, int] = {}
        if last is not None:
            held = prices.cached(round(base)) if request.change or last.cached is None else last.cached
            lost = min(max(round(min(base, held)) - request.read, 0), missed - new)
            cause = _cause(request, last, replace(prices, ttl=ttl), opening, rate)
            for name, tokens in ((cause, lost), (request.change or TAIL, missed - new - lost)):
                causes[name] = causes.get(name, 0) + tokens
        causes = {name: tokens for name, tokens in causes.items() if tokens}
        if last is None or request.model != last.model or request.change or OPENING in causes:
            opening = max(0.0, request.sent - rate * request.size)
        price = prices.read * request.read + prices.write * missed
        bill = Bill(sent=request.sent, read=request.read, rewritten=missed - new, new=new, price=price)
        idle = 0.0 if last is None else _idle(request, last)
        found.append(LoggedCall(request.at, request.time, request.model, bill, causes, idle))
    return found


def _known(request: LoggedRequest, last: LoggedRequest, rate: float, opening: float) -> tuple[float, float]:
    """Return the tokens of a request that had been sent before at its beginning, and those that are new."""
    sent, before, fresh = request.sent, last.sent, rate * request.fresh
    if request.change == COMPACTED:
        return min(opening, sent - fresh), fresh
    base = before if sent >= before and not request.change else max(0.0, sent - fresh)
    return base, sent - base


def _cause(request: LoggedRequest, last: LoggedRequest, prices: Prices, opening: float, rate: float) -> str:
    """Return why a beginning that is as the last request had it was not served."""
    sent, read, before = request.sent, request.read, last.sent
    if request.told:
        return request.told
    if request.model != last.model:
        return MODEL
    if read > _NEAR * opening or (request.change and read > opening / 2):
        return request.change or (EDITED if sent < before else UNKNOWN)
    if _idle(request, last) > prices.ttl:
        return IDLE
    grown = abs(sent - before - rate * request.fresh)
    if (prices.marks and request.prompted) or request.change or grown > max(_LEAST * rate, rate * request.fresh / 4):
        return OPENING
    return UNKNOWN


def _idle(request: LoggedRequest, last: LoggedRequest) -> float:
    """Return the seconds between two requests, each sent after the last message and before the answer."""
    return max(request.time - last.time, request.answered - last.answered)


def counted(usage: Mapping[str, Any]) -> tuple[int, int, int | None, Prices | None]:
    """Return the counts of a usage, and what it tells of the cache."""
    bill = Prices().settle(Bill(), usage)
    written, lives, paid = (usage.get(name) for name in _WRITTEN)
    cached = bill.read + written if isinstance(written, int) else None
    if is_object(lives) and lives.get("ephemeral_1h_input_tokens"):
        return bill.sent, bill.read, cached, Prices.marked(ttl=3600, write=2)
    return bill.sent, bill.read, cached, Prices.automatic_paid() if paid else None


def told_by(diagnostics: object) -> str:
    """Return the cause that the provider's diagnostics of an answer name; empty if they name none.

    >>> told_by({"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 900}})
    'instructions or tools changed'
    """
    reason = diagnostics.get("cache_miss_reason") if is_object(diagnostics) else None
    kind = str(reason.get("type")) if is_object(reason) else ""
    return _TOLD.get(kind.partition("_")[0], kind.replace("_", " "))


def _rate(requests: Sequence[LoggedRequest]) -> float:
    """Return the provider's tokens for a character of a message."""
    told = [
        (one.sent - last.sent) / one.fresh
        for last, one in pairwise(requests)
        if not one.change and one.model == last.model and one.fresh >= _LEAST
    ]
    return max(median(told), 0.0) if told else _RATE
