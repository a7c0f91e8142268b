"""Remembering counts by content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from threading import Lock

from cupel._checks import as_integer
from cupel._counter import TokenCounter, as_counter
from cupel.errors import ConfigurationError

_DIGEST_FROM = 64
"""Longer texts are remembered by digest, so the cache's memory is bounded by its entries, not by their texts."""


class CachedCounter:
    """Counts each distinct text once, keeping the `max_entries` most recently used counts.

    Agents count the same history again on every step; with this, only the new messages are tokenised. Safe to share
    between threads.

    >>> from cupel.tokens import CharacterEstimate
    >>> counter = CachedCounter(CharacterEstimate(), max_entries=1000)
    >>> counter.count("same text"), counter.count("same text"), counter.hits
    (3, 3, 1)
    """

    def __init__(self, inner: TokenCounter, *, max_entries: int = 65_536) -> None:
        self.inner = as_counter("inner", inner)
        self.max_entries = as_integer("max_entries", max_entries, least=1, error=ConfigurationError)
        self.hits = 0
        self.misses = 0
        self._counts: OrderedDict[str | bytes, int] = OrderedDict()
        self._lock = Lock()

    def count(self, text: str, /) -> int:
        """Return the inner counter's count of `text`, remembered."""
        key: str | bytes = text
        if len(text) > _DIGEST_FROM:
            key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            known = self._counts.get(key)
            if known is not None:
                self._counts.move_to_end(key)
                self.hits += 1
                return known
        counted = self.inner.count(text)  # outside the lock: tokenising is the slow part
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
