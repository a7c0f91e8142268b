"""What a request costs."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cupel._planning._prices import Prices

_THOUSAND = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The tokens of one request, or of several, and their price in uncached input tokens.

    `read + rewritten + new == sent`. Bills add up with `+`.

    >>> bill = Bill(sent=100, read=80, rewritten=5, new=15, price=33.0, without_cache=100.0, reselecting=125.0)
    >>> (bill + bill).price
    66.0
    """

    sent: int = 0
    read: int = 0
    """Served by the provider's cache."""
    rewritten: int = 0
    """Not served, though it came before the last request: behind the first difference, or forgotten by the provider."""
    new: int = 0
    """What came since the last request."""
    price: float = 0.0
    without_cache: float = 0.0
    """The price of the same request without a cache."""
    reselecting: float = 0.0
    """The price of a window of this size chosen anew, of which only the opening is in the cache."""
    settled: bool = True
    """Whether the provider's own counts stand here; an estimate otherwise."""

    def __add__(self, other: Bill) -> Bill:
        settled = self.settled and other.settled
        numbers = (field.name for field in fields(Bill) if field.name != "settled")
        return Bill(**{name: getattr(self, name) + getattr(other, name) for name in numbers}, settled=settled)

    def __str__(self) -> str:
        parts = f"{_k(self.sent)} sent = {_k(self.read)} read + {_k(self.rewritten)} re-written + {_k(self.new)} new"
        beside = f"{_k(self.without_cache)} without a cache, {_k(self.reselecting)} re-selecting"
        return f"{parts}   {_k(self.price)} ({beside}){'' if self.settled else ', estimated'}"


def billed(prices: Prices, *, sent: int, read: int, new: int, reselecting: float, settled: bool) -> Bill:
    """Return the bill of a request of which the cache serves `read` tokens."""
    missed = sent - read
    return Bill(
        sent=sent,
        read=read,
        rewritten=missed - new,
        new=new,
        price=prices.read * read + prices.write * missed,
        without_cache=float(sent),
        reselecting=reselecting,
        settled=settled,
    )


def estimated(prices: Prices, *, opening: int, same: int, sent: int, new: int) -> Bill:
    """Return the bill of a request whose first `same` tokens the provider has seen, `opening` of them in any case."""
    served = min(prices.cached(opening), sent)
    anew = prices.read * served + prices.write * (sent - served)
    return billed(
        prices, sent=sent, read=min(prices.cached(same), sent - new), new=new, reselecting=anew, settled=False
    )


def _k(tokens: float) -> str:
    return f"{tokens:.0f}" if tokens < _THOUSAND else f"{tokens / _THOUSAND:.1f}k"
