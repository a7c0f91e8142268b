"""What providers report of a request's tokens, and what a session learns from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec.structs import replace

from cupel._checks import shown, wrong_type
from cupel._planning._bill import Bill, billed
from cupel.errors import ConfigurationError

if TYPE_CHECKING:
    from cupel._planning._prices import Prices
    from cupel._planning._state import State

_UNCACHED_ONLY = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Where these are reported, `input_tokens` counts neither."""
_TOTALS = ("prompt_tokens", "input_tokens", "prompt_token_count", "promptTokenCount")
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
MOST_TOKENS = 2**53
"""What a session counts: as far as doubles, in which it weighs and bills, hold every integer."""


class Usage(NamedTuple):
    """The prompt's tokens as the provider counts them, and those of them that its cache served."""

    sent: int
    read: int


def read_usage(usage: object) -> Usage:
    """Read the `usage` of a response: an SDK's object or a mapping, of Anthropic, OpenAI, Gemini or DeepSeek.

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
    if any(number is not None for number in beside) and _number(usage, "prompt_tokens") is None:
        read, written = (number or 0 for number in beside)
        return Usage(total + read + written, read)
    cached = next((found for path in _CACHED if (found := _number(usage, *path))), 0)
    return Usage(total, min(cached, total))


def _number(usage: object, *path: str) -> int | None:
    value: object = usage
    for name in path:
        value = (
            cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        )
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(f"usage.{'.'.join(path)}", "an integer", value)
    if not 0 <= value <= MOST_TOKENS:
        msg = f"usage.{'.'.join(path)} must be from 0 to 2**53, got {shown(value)}"
        raise ConfigurationError(msg)
    return value


def settle(state: State, usage: object, prices: Prices) -> tuple[State, Bill | None]:
    """Return the state after the provider's own account of the last request, and the bill; None if it has one already.

    More tokens than were counted count at once, fewer slowly: a request must not exceed the budget.
    """
    sent, read = read_usage(usage)
    estimate = state.pending
    if estimate is None or not estimate.sent or not sent:
        return state, None
    observed = sent / estimate.sent
    smoothed = _FORGETTING * state.ratio + (1 - _FORGETTING) * observed if state.observed else observed
    expected = estimate.read * observed
    expiry = state.expiry
    if expected:
        expiry = _FORGETTING * expiry + (1 - _FORGETTING) * (read < expected / 2)
    bill = billed(
        prices,
        sent=sent,
        read=read,
        new=min(round(estimate.new * observed), sent - read),
        reselecting=estimate.reselecting * observed,
        settled=True,
    )
    after = replace(
        state,
        ratio=max(observed, smoothed),
        expiry=expiry,
        observed=state.observed + 1,
        pending=None,
        before=state.before + bill,
    )
    return after, bill
