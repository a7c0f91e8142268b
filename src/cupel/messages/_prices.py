"""Provider prices for cached prompts, and the cost of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, cast

from cupel._internal.checks import MOST_TOKENS, as_finite, as_integer, shown, wrong_type
from cupel.errors import ConfigurationError

AMOUNTS: Final = ("sent", "read", "rewritten", "new", "price")
"""The fields of a bill that add up."""
_UNCACHED_ONLY = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Where these are reported, `input_tokens` counts neither."""
_TOTALS = ("prompt_tokens", "input_tokens", "prompt_token_count", "promptTokenCount", "inputTokens")
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("input_token_details", "cache_read"),  # LangChain, whose `input_tokens` counts everything
    ("cache_read_tokens",),  # Pydantic AI, likewise
    ("prompt_cache_hit_tokens",),
    ("cached_content_token_count",),
    ("cachedContentTokenCount",),
)
_APART: Final = 0.05
"""Counts of a request that differ by less than this share are taken as equal."""
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

    def estimate(self, *, same: int, sent: int, new: int) -> Bill:
        """Return the bill of a request whose first `same` tokens the provider has seen.

        >>> Prices.marked().estimate(same=800, sent=1000, new=150).rewritten
        50
        """
        return self._billed(sent, min(self.cached(same), sent - new), new, settled=False)

    def settle(self, estimate: Bill, usage: object, diagnostics: object = None) -> Bill:
        """Return the bill of a request by the provider's own counts; `estimate` says how much of it was new.

        >>> usage = {"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0}
        >>> Prices.marked().settle(Prices.marked().estimate(same=900, sent=1000, new=100), usage).price
        215.0
        """
        sent, read = read_usage(usage)
        miss = read_diagnostics(diagnostics)
        observed = sent / estimate.sent if estimate.sent else 0.0
        bill = self._billed(sent, read, min(round(estimate.new * observed), sent - read), settled=True)
        if miss is not None and miss.tokens > estimate.rewritten * observed + _APART * sent:
            return replace(bill, mistake=f"{miss.cause}, {miss.tokens:,} tokens were not read")
        return bill

    def _billed(self, sent: int, read: int, new: int, *, settled: bool) -> Bill:
        missed = sent - read
        price = self.read * read + self.write * missed
        return Bill(sent=sent, read=read, rewritten=missed - new, new=new, price=price, settled=settled)

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


Action = Literal["append", "cut"]
"""Whether a request begins with the whole of the last one."""
What = Literal["evicted", "recalled", "restored", "shortened"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference between this request and the last one.

    >>> print(Change(what="evicted", label="messages[3:5] (read_file)", positions=(3, 4), tokens=90))
    evicted messages[3:5] (read_file) (90 tokens)
    """

    what: What
    label: str
    """A readable name of the messages."""
    positions: tuple[int, ...] = ()
    """Their positions in the history."""
    tokens: int
    """Their tokens now, or before they were evicted."""
    before: int = 0
    """Their tokens before they were shortened or restored."""

    def __str__(self) -> str:
        if self.what in ("shortened", "restored"):
            return f"{self.what} {self.label} ({self.before:,} → {self.tokens:,} tokens)"
        return f"{self.what} {self.label} ({self.tokens:,} tokens)"


def turn_html(bill: Bill, reason: str, changes: Sequence[Change]) -> str:
    """Return a turn for a notebook: its bill as a bar and in words, and the first of its changes.

    >>> from cupel.messages import Bill
    >>> "<b>" in turn_html(Bill(sent=3, new=3), "<b>", ())
    False
    """
    from html import escape  # whose table of names would cost every import

    from cupel._internal.notebook import bar

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


class Usage(NamedTuple):
    """The prompt's tokens as the provider counts them, and the part that its cache served."""

    sent: int
    read: int


def read_usage(usage: object) -> Usage:
    """Read the `usage` of a response: an SDK's object or a mapping, of Anthropic, Bedrock, OpenAI, Gemini or DeepSeek.

    >>> read_usage({"input_tokens": 12, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 88})
    Usage(sent=1000, read=900)
    >>> read_usage({"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 896}})
    Usage(sent=1000, read=896)
    """
    if usage is None or isinstance(usage, (str, bytes, int, float)):
        raise wrong_type("usage", "the usage of a response, or a mapping", usage)
    total = next((found for name in _TOTALS if (found := _number(usage, name)) is not None), None)
    if total is None:
        msg = f"usage must report the prompt's tokens as one of {', '.join(_TOTALS)}"
        raise ConfigurationError(msg)
    beside = [_number(usage, name) for name in _UNCACHED_ONLY]
    if _number(usage, "inputTokens") is not None:  # Bedrock
        beside = [_number(usage, "cacheReadInputTokens"), _number(usage, "cacheWriteInputTokens")]
    if any(number is not None for number in beside) and _number(usage, "prompt_tokens") is None:
        read, written = (number or 0 for number in beside)
        return Usage(total + read + written, read)
    cached = next((found for path in _CACHED if (found := _number(usage, *path))), 0)
    return Usage(total, min(cached, total))


class Miss(NamedTuple):
    """Where a request differs from the one before, as the provider sees it, and the tokens that it cost."""

    cause: str
    tokens: int


def read_diagnostics(diagnostics: object) -> Miss | None:
    """Read the `diagnostics` of an answer of Anthropic's; None if they name no difference.

    >>> read_diagnostics({"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 900}})
    Miss(cause='tools changed', tokens=900)
    """
    if isinstance(diagnostics, (str, bytes, int, float)):
        raise wrong_type("diagnostics", "the diagnostics of a response, or a mapping", diagnostics)
    reason = _field(diagnostics, "cache_miss_reason")
    tokens = _number(reason, "cache_missed_input_tokens")
    return None if tokens is None else Miss(str(_field(reason, "type")).replace("_", " "), tokens)


def _field(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _number(usage: object, *path: str) -> int | None:
    value: object = usage
    for name in path:
        value = _field(value, name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(f"usage.{'.'.join(path)}", "an integer", value)
    if not 0 <= value <= MOST_TOKENS:
        msg = f"usage.{'.'.join(path)} must be from 0 to 2**53, got {shown(value)}"
        raise ConfigurationError(msg)
    return value
