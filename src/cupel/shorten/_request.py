"""What every shortener is asked: a text, a limit and a counter; and the one search for the longest lawful answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel._checks import as_integer, as_text
from cupel.errors import ConfigurationError
from cupel.tokens import TokenCounter, counter_or_default

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIES = 14
_INTERPOLATED = 6  # tries that trust the ratio of size to tokens; after them the search halves


@dataclass(frozen=True, slots=True)
class ShortenCall:
    """A checked call of a shortener, with the text counted once."""

    text: str
    limit: int | None
    counter: TokenCounter
    tokens: int

    @classmethod
    def of(cls, text: str, limit: int | None, counter: TokenCounter | None, *, in_full: bool = False) -> ShortenCall:
        """Check the arguments and count the text; `in_full` lets the limit be None."""
        text = as_text("text", text)
        counter = counter_or_default(counter)
        if limit is not None or not in_full:
            limit = as_integer("limit", limit, least=0, error=ConfigurationError, expected="a number of tokens")
        return cls(text, limit, counter, counter.count(text) if text else 0)

    @property
    def is_met(self) -> bool:
        """Whether the text is within the limit as it is."""
        return not self.text or (self.limit is not None and self.tokens <= self.limit)

    @property
    def room(self) -> int:
        """About how many characters of this text the limit leaves."""
        if self.limit is None or not self.tokens:
            return len(self.text)
        return len(self.text) * self.limit // self.tokens

    def allows(self, candidate: str) -> bool:
        """Whether a candidate is within the limit and no longer than the text, in tokens and characters."""
        if len(candidate) > len(self.text):
            return False
        return self.counter.count(candidate) <= (self.tokens if self.limit is None else self.limit)

    def first_allowed(self, *candidates: str) -> str:
        """Return the first candidate that is allowed; where none is, a bare ellipsis, and at last nothing."""
        return next(filter(self.allows, (*candidates, "…")), "")

    def largest(self, build: Callable[[int], str], most: int, *, guess: int | None = None) -> str | None:
        """Return the allowed candidate of about the largest size from 1 to `most`, or None if no size is allowed.

        Sizes are assumed to grow with tokens, so a few exact counts of short candidates are enough; a candidate that
        uses 19 of 20 allowed tokens is not improved further.
        """
        limit = self.tokens if self.limit is None else self.limit
        best, low, high = None, 0, most + 1
        size = most * limit // max(self.tokens, 1) if guess is None else guess
        for attempt in range(_TRIES):
            if low + 1 >= high:
                break
            size = 1 if attempt == _TRIES - 1 and best is None else min(max(size, low + 1), high - 1)
            candidate = build(size)
            used = self.counter.count(candidate)
            if used <= limit and len(candidate) <= len(self.text):
                best, low = candidate, size
                if used * 20 >= limit * 19:
                    break
            else:
                high = size
            trusted = attempt < _INTERPOLATED and len(candidate) <= len(self.text)
            size = size * limit // max(used, 1) if trusted else (low + high) // 2
        return best
