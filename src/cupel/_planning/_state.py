"""The state of a session between two requests, and the corrections it learns from the provider's usage."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Annotated, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from cupel._internal.checks import MOST_TOKENS, as_text, shown, wrong_type
from cupel._planning._planner import Entry
from cupel._planning._prices import AMOUNTS, Bill, Prices, billed
from cupel.errors import ConfigurationError

VERSION = 1

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
_FORGETTING = 0.9
_SAMPLES = 8
"""Observations that the scale is learned from: the newest ones."""
_LOWEST_RATIO, _HIGHEST_RATIO = 0.5, 3.0
"""Tokenizers differ by less than these factors; more than that is an overhead, or a usage of something else."""
_LIKELY_RATIO = 1.5
"""A first observation below this factor is attributed to the tokenizer; above it, to tokens that were not counted."""
_SURPRISE = 0.25
"""By how much of it the newest observation may exceed the others and still be believed."""
_APART = 0.05
"""Counts of a request that differ by less than this share are taken as equal."""

_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class Scale(NamedTuple):
    """How the provider counts: `overhead + ratio * ours`."""

    ratio: float = 1.0
    overhead: float = 0.0

    def predicted(self, ours: float) -> float:
        """Return the provider's count for one of ours."""
        return self.overhead + self.ratio * ours


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """A note that the caller's function wrote, and the omitted messages it covers, by their first and last key."""

    first: str
    last: str
    text: str


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last request and the corrections learned so far; a few kilobytes as JSON."""

    version: int = VERSION
    turns: _Count = 0
    opening: str = ""
    """A digest of tools and system prompt, which come before the entries."""
    last: tuple[Entry, ...] = ()
    reselected: _Amount = 0.0
    """The smoothed value of a freshly selected window."""
    growth: _Amount = 0.0
    """Smoothed tokens that a turn adds."""
    expiry: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """How often the cache was found cold, smoothed."""
    usage: Annotated[tuple[tuple[_Count, _Count], ...], msgspec.Meta(max_length=_SAMPLES)] = ()
    """The newest observations: our tokens of a request and the provider's."""
    answers: tuple[Answer, ...] = ()
    """The notes that the caller's function wrote for the last request."""
    pending: Bill | None = None
    """The last request's bill, as long as the provider has not settled it."""
    before: Bill = msgspec.field(default_factory=Bill)
    """The sum of all others."""

    @property
    def total(self) -> Bill:
        """The bill of all requests so far."""
        return self.before if self.pending is None else self.before + self.pending

    @property
    def scale(self) -> Scale:
        """How the provider counts, from the usage observed so far."""
        return learned(self.usage)

    def to_json(self) -> str:
        """Write the state."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> State:
        """Read a state; one of another version, or anything else, is refused."""
        try:
            version = msgspec.json.decode(as_text("state", text), type=_Versioned).version
            if version != VERSION:
                msg = f"state is of version {version}, this is version {VERSION}: start a new session"
                raise ConfigurationError(msg)
            state = msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            msg = f"state must be the text that to_json returned, got {shown(text)}: {error}"
            raise ConfigurationError(msg) from error
        for bill in (state.before, *(() if state.pending is None else (state.pending,))):
            _check(bill)
        return state


class _Versioned(msgspec.Struct):
    version: int


def _check(bill: Bill) -> None:
    """Refuse amounts that no session can have reached."""
    for name in AMOUNTS:
        if not 0 <= getattr(bill, name) <= MOST_TOKENS:
            got = shown(getattr(bill, name))
            msg = f"state must be the text that to_json returned: {name} of a bill is from 0 to 2**53, got {got}"
            raise ConfigurationError(msg)


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


def learned(usage: Sequence[tuple[int, int]]) -> Scale:
    """Return how the provider counts, by observations of our tokens and its own.

    The ratio is the median slope between requests of different sizes, so one usage of something else, such as a sum
    over many requests, changes little. The overhead is the rest: tools and prompts that were not counted.

    >>> learned([(8, 1508)])
    Scale(ratio=1.0, overhead=1500.0)
    >>> learned([(1000, 2700), (2000, 3900)])
    Scale(ratio=1.2, overhead=1500.0)
    """
    if not usage:
        return Scale()
    slopes = [
        (theirs - other_theirs) / (ours - other)
        for (ours, theirs), (other, other_theirs) in combinations(usage, 2)
        if abs(ours - other) > _APART * max(ours, other)
    ]
    first = median(theirs / max(ours, 1) for ours, theirs in usage)
    ratio = median(slopes) if slopes else (first if first <= _LIKELY_RATIO else 1.0)
    ratio = min(max(ratio, _LOWEST_RATIO), _HIGHEST_RATIO)
    found = Scale(ratio, max(0.0, median(theirs - ratio * ours for ours, theirs in usage)))
    ours, theirs = usage[-1]
    missing = theirs - found.predicted(ours)
    # More tokens than expected count at once: a request must not exceed the budget. Far more are not one request's.
    return found._replace(overhead=found.overhead + missing) if 0 < missing <= _SURPRISE * theirs else found


def median(numbers: Iterable[float]) -> float:
    """Return the middle one of some numbers, or the mean of the two in the middle."""
    ordered = sorted(numbers)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def settle(state: State, usage: object, prices: Prices, diagnostics: object = None) -> tuple[State, Bill | None]:
    """Return the state after the provider's usage of the last request, and the bill; None if it has one already."""
    sent, read = read_usage(usage)
    miss = read_diagnostics(diagnostics)
    estimate = state.pending
    if estimate is None or not estimate.sent or not sent:
        return state, None
    observed = sent / estimate.sent
    expected = estimate.read * observed
    expiry = state.expiry
    if expected and miss is None:  # a request that differs says nothing about forgetting
        expiry = _FORGETTING * expiry + (1 - _FORGETTING) * (read < expected / 2)
    bill = billed(
        prices,
        sent=sent,
        read=read,
        new=min(round(estimate.new * observed), sent - read),
        settled=True,
    )
    if miss is not None and miss.tokens > estimate.rewritten * observed + _APART * sent:
        bill = dataclasses.replace(bill, mistake=f"{miss.cause}, {miss.tokens:,} tokens were not read")
    after = replace(
        state,
        expiry=expiry,
        usage=(*state.usage, (estimate.sent, sent))[-_SAMPLES:],
        pending=None,
        before=state.before + bill,
    )
    return after, bill
