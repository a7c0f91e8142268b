"""Token counters: estimated, cached, calibrated."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from threading import Lock

from cupel._internal.checks import as_instance, as_integer
from cupel._internal.counter import TokenCounter, as_counter, count_tokens
from cupel.errors import ConfigurationError
from cupel.model import ContextItem


def with_token_count(item: ContextItem, counter: TokenCounter) -> ContextItem:
    """Return a copy of `item` whose `tokens` is the counter's count of its content; every other field is kept.

    >>> from cupel import ContextItem
    >>> from cupel.tokens import CharacterEstimate
    >>> with_token_count(ContextItem("twelve chars", 0, tags=["kept"]), CharacterEstimate()).tokens
    2
    """
    as_instance("item", item, ContextItem)
    return item.replace(tokens=count_tokens(as_counter("counter", counter), item.content))


_DIGEST_FROM = 64
"""Longer texts are remembered by digest, so the cache's memory is bounded by its entries, not by their texts."""


class CachedCounter:
    """Counts each distinct text once, keeping the `max_entries` most recently used counts.

    Agents count the same history again on every step; with this, only the new messages are tokenised. Safe to share
    between threads.

    >>> from cupel.tokens import CharacterEstimate
    >>> counter = CachedCounter(CharacterEstimate(), max_entries=1000)
    >>> counter.count("same text"), counter.count("same text"), counter.hits
    (2, 2, 1)
    """

    def __init__(self, inner: TokenCounter, *, max_entries: int = 65_536) -> None:
        self.inner = as_counter("inner", inner)
        self.max_entries = as_integer("max_entries", max_entries, least=1, error=ConfigurationError)
        self.hits = 0
        self.misses = 0
        self._counts: OrderedDict[str | bytes, int] = OrderedDict()
        self._lock = Lock()

    def count(self, text: str, /) -> int:
        """Return the inner counter's count of `text`, from the cache if it is there."""
        key: str | bytes = text
        if len(text) > _DIGEST_FROM:
            key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            known = self._counts.get(key)
            if known is not None:
                self._counts.move_to_end(key)
                self.hits += 1
                return known
        counted = count_tokens(self.inner, text)  # outside the lock: tokenising is the slow part
        with self._lock:
            self.misses += 1
            self._counts[key] = counted
            if len(self._counts) > self.max_entries:
                self._counts.popitem(last=False)
        return counted

    def __reduce__(self) -> tuple[Callable[..., CachedCounter], tuple[TokenCounter]]:
        # A copy starts empty: the lock cannot travel, and the counts are quickly found again.
        return partial(CachedCounter, max_entries=self.max_entries), (self.inner,)

    def __repr__(self) -> str:
        return f"CachedCounter({self.inner!r}, max_entries={self.max_entries})"


class CalibratedCounter:
    """Corrects another counter by the ratio between its counts and the tokens that the provider charged.

    After each request, pass to `observe` the estimated total (`fitted.total_tokens`) and the input tokens the
    provider reported; later counts are scaled by everything seen so far, weighted by size, and rounded up. The
    ratio depends only on the observations and their order. Use it together with a budget's
    `estimation_safety_margin_percent`: the ratio removes the systematic error, the margin covers the rest.

    >>> from cupel.tokens import CharacterEstimate
    >>> counter = CalibratedCounter(CharacterEstimate())
    >>> counter.count("word " * 80)
    81
    >>> counter.observe(estimated=1000, reported=1250)
    >>> counter.ratio, counter.count("word " * 80)
    (1.25, 102)
    """

    def __init__(self, inner: TokenCounter) -> None:
        self.inner = as_counter("inner", inner)
        self._ratio = 1.0
        self._uncorrected = 0.0
        self._reported = 0

    @property
    def ratio(self) -> float:
        """Reported tokens for each token the inner counter counts; 1.0 until the first observation."""
        return self._ratio

    def count(self, text: str, /) -> int:
        """Return the inner counter's count of `text`, times the ratio, rounded up."""
        return math.ceil(self.inner.count(text) * self._ratio)

    def observe(self, estimated: int, reported: int) -> None:
        """Learn from one request: `estimated` is this counter's total, `reported` the provider's."""
        estimated = as_integer("estimated", estimated, least=1, error=ConfigurationError)
        reported = as_integer("reported", reported, least=1, error=ConfigurationError)
        # The estimate already contains the ratio of its time; taking it out keeps later observations comparable.
        self._uncorrected += estimated / self._ratio
        self._reported += reported
        self._ratio = self._reported / self._uncorrected

    def __repr__(self) -> str:
        return f"CalibratedCounter({self.inner!r}, ratio={self._ratio!r})"
