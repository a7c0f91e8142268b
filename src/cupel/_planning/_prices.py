"""Provider prices for cached prompts, and the cost of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from cupel._internal.checks import as_finite, as_integer, shown
from cupel._internal.notebook import bar
from cupel.errors import ConfigurationError

if TYPE_CHECKING:
    from cupel._planning._planner import Change

AMOUNTS: Final = ("sent", "read", "rewritten", "new", "price")
"""The fields of a bill that add up."""
_THOUSAND: Final = 1000
_PRINTABLE: Final = 2**53
_ROWS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """How a provider caches prompts, in units of one uncached input token.

    A mechanism, not a price list: whatever the model costs, a token that is read from the cache costs `read` of it and
    one that is written `write`. Start from `marked()`, `automatic()` or `automatic_paid()` and change what differs.

    >>> Prices.marked(ttl=3600, write=2).write
    2.0
    """

    read: float = 0.1
    """The price of a token that the cache serves."""
    write: float = 1.25
    """The price of a token that it does not."""
    ttl: float = 300.0
    """How many seconds a prompt is remembered after its last use."""
    marks: int = 4
    """How many cache breakpoints a request may carry; 0 where the provider finds the common prefix by itself."""
    minimum: int = 0
    """The shortest prefix that is cached, in tokens."""
    step: int = 1
    """The cached prefix is a multiple of this many tokens."""

    def __post_init__(self) -> None:
        for name in ("read", "write", "ttl"):
            object.__setattr__(self, name, as_finite(name, getattr(self, name), least=0, error=ConfigurationError))
        for name, least in (("marks", 0), ("minimum", 0), ("step", 1)):
            object.__setattr__(self, name, as_integer(name, getattr(self, name), least=least, error=ConfigurationError))
        if self.read > self.write:
            msg = f"read must not exceed write, got read={self.read}, write={self.write}: caching would never pay"
            raise ConfigurationError(msg)

    @classmethod
    def marked(cls, *, read: float = 0.1, write: float = 1.25, ttl: float = 300, marks: int = 4) -> Prices:
        """Return prices for a provider whose callers set cache breakpoints; writing costs more than sending."""
        return cls(read=read, write=write, ttl=ttl, marks=marks)

    @classmethod
    def automatic(
        cls, *, read: float = 0.1, write: float = 1.0, ttl: float = 300, minimum: int = 1024, step: int = 128
    ) -> Prices:
        """Return prices for a provider that finds the common prefix by itself; writing costs nothing extra."""
        return cls(read=read, write=write, ttl=ttl, marks=0, minimum=minimum, step=step)

    @classmethod
    def automatic_paid(cls, *, read: float = 0.1, write: float = 1.25, ttl: float = 1800) -> Prices:
        """Return prices for a provider that finds the common prefix by itself; writing costs more than sending."""
        return cls(read=read, write=write, ttl=ttl, marks=0)

    def cached(self, tokens: int) -> int:
        """Return how many of a common prefix's tokens the cache serves.

        >>> Prices.automatic().cached(1500), Prices.automatic().cached(1000)
        (1408, 0)
        """
        return 0 if tokens < self.minimum else tokens // self.step * self.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    r"""The tokens of one request, or of several, and their price in uncached input tokens.

    `read + rewritten + new == sent`. Bills add up with `+`.

    >>> bill = Bill(sent=100, read=80, rewritten=5, new=15, price=33.0)
    >>> (bill + bill).price
    66.0
    >>> print(str(bill).replace("; ", "\n"))
    100 tokens sent: 80 read from the cache, 5 written again, 15 new
    price of 33 uncached tokens
    """

    sent: int = 0
    read: int = 0
    """Served by the provider's cache."""
    rewritten: int = 0
    """Sent before and not served: after the first difference, or forgotten by the provider."""
    new: int = 0
    """Tokens that came since the last request."""
    price: float = 0.0
    settled: bool = True
    """Whether these are the provider's own counts; an estimate otherwise."""
    mistake: str = ""
    """Why the cache served less than was estimated, as the provider's diagnostics say; sums have none."""

    def __add__(self, other: Bill) -> Bill:
        settled = self.settled and other.settled
        return Bill(**{name: getattr(self, name) + getattr(other, name) for name in AMOUNTS}, settled=settled)

    def __str__(self) -> str:
        parts = f"{_k(self.read)} read from the cache, {_k(self.rewritten)} written again, {_k(self.new)} new"
        estimated = "" if self.settled else ", estimated"
        mistake = f"; the estimate was wrong: {self.mistake}" if self.mistake else ""
        price = f"price of {_k(self.price)} uncached tokens{estimated}"
        return f"{_k(self.sent)} tokens sent: {parts}; {price}{mistake}"


def billed(prices: Prices, *, sent: int, read: int, new: int, settled: bool) -> Bill:
    """Return the bill of a request of which the cache serves `read` tokens."""
    missed = sent - read
    return Bill(
        sent=sent,
        read=read,
        rewritten=missed - new,
        new=new,
        price=prices.read * read + prices.write * missed,
        settled=settled,
    )


def estimated(prices: Prices, *, same: int, sent: int, new: int) -> Bill:
    """Return the bill of a request whose first `same` tokens the provider has seen."""
    return billed(prices, sent=sent, read=min(prices.cached(same), sent - new), new=new, settled=False)


def turn_html(bill: Bill, reason: str, changes: Sequence[Change]) -> str:
    """Return a turn for a notebook: its bill as a bar and in words, and the first of its changes.

    >>> from cupel._planning import Bill
    >>> "<b>" in turn_html(Bill(sent=3, new=3), "<b>", ())
    False
    """
    parts = {"read from the cache": bill.read, "written again": bill.rewritten, "new": bill.new}
    said = "".join(f"<li>{escape(str(change))}</li>" for change in changes[:_ROWS])
    more = f"<li>… and {len(changes) - _ROWS:,} more</li>" if len(changes) > _ROWS else ""
    listed = f"<ul>{said}{more}</ul>" if said else ""
    suffix = "" if bill.settled else ", estimated"
    return (
        f"<div><p><strong>{bill.sent:,} tokens sent for {bill.price:,.0f}{suffix}</strong>: {escape(reason)}</p>"
        f"{bar(parts, bill.sent)}{listed}</div>"
    )


def _k(tokens: float) -> str:
    if not 0 <= tokens <= _PRINTABLE:
        return shown(tokens)
    return f"{tokens:.0f}" if tokens < _THOUSAND else f"{tokens / _THOUSAND:,.1f}k"
