"""The checked call of a shortener, and the search for the longest form that its limit allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from cupel._internal.checks import as_integer, as_text
from cupel.errors import ConfigurationError
from cupel.tokens import TokenCounter, counter_or_default

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_SAMPLE = 16_384
"""Characters that are counted to estimate the tokens of a longer text."""
_STEP = 1.04
"""Sizes that the search tries grow by this factor."""
_SMALLEST = 24
_ENOUGH = 0.96
"""A form that uses this share of the limit is not improved further."""
_SURE = 1.6
"""A form is not counted if its estimate is this many times over or under the limit."""


class Shortener(Protocol):
    """A function that returns a shorter form of a text, within a limit of tokens.

    Every shortener of this package is one; `functools.partial` sets its options.

    >>> from functools import partial
    >>> from cupel.shorten import matching
    >>> warnings: Shortener = partial(matching, query="warning deprecated", context=0)
    """

    def __call__(self, text: str, limit: int, /) -> str:
        """Return the shorter form."""
        ...


class AsyncShortener(Protocol):
    """A shortener to be awaited, such as one that asks a model for a summary.

    >>> async def summary(text: str, limit: int) -> str:
    ...     return "the summary of a model"
    >>> form: AsyncShortener = summary
    """

    def __call__(self, text: str, limit: int, /) -> Awaitable[str]:
        """Return an awaitable of the shorter form."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """A text, the tokens that its form may have, and how they are counted."""

    text: str
    limit: int | None
    counter: TokenCounter
    tokens: int
    """Tokens of the text; an estimate for a long text that is surely over the limit."""

    @classmethod
    def of(
        cls,
        text: str,
        limit: int | None,
        counter: TokenCounter | None,
        *,
        exact: bool = False,
        in_full: bool = False,
    ) -> Request:
        """Check the arguments and count the text; `exact` needs its true count, `in_full` lets the limit be None."""
        text = as_text("text", text)
        counter = counter_or_default(counter)
        if limit is not None or not in_full:
            limit = as_integer("limit", limit, least=0, error=ConfigurationError, expected="a number of tokens")
        if limit is None or exact or len(text) <= max(4 * _SAMPLE, 32 * limit):
            return cls(text, limit, counter, counter.count(text) if text else 0)
        # Counting may take longer than everything else: of a text this long, the beginning shows that it is over.
        if counter.count(text[: max(_SAMPLE, 16 * limit)]) <= limit + limit // 8 + 16:
            return cls(text, limit, counter, counter.count(text))
        half = _SAMPLE // 2
        sampled = counter.count(text[:half]) + counter.count(text[-half:])
        return cls(text, limit, counter, max(sampled * len(text) // _SAMPLE, limit + 1))

    @property
    def is_met(self) -> bool:
        """Whether the text is within the limit as it is."""
        return not self.text or (self.limit is not None and self.tokens <= self.limit)

    def allows(self, form: str) -> bool:
        """Whether a form is within the limit and no longer than the text, in tokens and characters."""
        if len(form) > len(self.text):
            return False
        return self.counter.count(form) <= (self.tokens if self.limit is None else self.limit)

    def first_allowed(self, *forms: str) -> str:
        """Return the first form that is allowed, or nothing."""
        return next(filter(self.allows, forms), "")

    def longest(self, build: Callable[[int], str | None]) -> str | None:
        """Return the longest form that the limit allows, or None if it allows none.

        `build` takes a number of characters and returns a form of at most that length, or None if there is none. Which
        sizes are tried depends only on which were allowed before, so a larger limit never gives a shorter form.
        """
        sizes = [_SMALLEST]
        while sizes[-1] < len(self.text):
            sizes.append(int(sizes[-1] * _STEP) + 1)
        search = _LengthSearch(self, build, self.tokens if self.limit is None else self.limit)
        return search.run(sizes[:-1], trusted=True) or search.run(sizes[:-1], trusted=False)

    def with_text(self, text: str) -> Request:
        """Return the same call for another text."""
        return replace(self, text=text, tokens=Request.of(text, self.limit, self.counter).tokens)


@dataclass(slots=True)
class _LengthSearch:
    request: Request
    build: Callable[[int], str | None]
    limit: int

    def run(self, sizes: list[int], *, trusted: bool) -> str | None:
        """Halve the sizes until the largest allowed one is found; `trusted` estimates leave most forms uncounted."""
        best: str | None = None
        counted, low, high = True, -1, len(sizes)
        while low + 1 < high:
            middle = (low + high) // 2
            form, used = self._tried(sizes[middle], trusted=trusted)
            if form is None:
                # Nothing fits into this size, or it is far over the limit.
                low, high = (middle, high) if used == 0 else (low, middle)
                continue
            if used is not None and used > self.limit:
                high = middle
                continue
            best, low, counted = form, middle, used is not None
            if used is not None and used >= _ENOUGH * self.limit:
                break
        if best is None or counted or self.request.counter.count(best) <= self.limit:
            return best
        return None

    def _tried(self, size: int, *, trusted: bool) -> tuple[str | None, int | None]:
        """Return a form with its tokens, None for these if it is surely allowed; or no form, and 0 if none exists."""
        ratio = self.request.tokens / len(self.request.text)
        if trusted and size * ratio > _SURE**2 * self.limit + 64:
            return None, None
        form = self.build(size)
        if not form:
            return None, 0
        if len(form) > len(self.request.text):
            return None, None
        guess = len(form) * ratio
        if trusted and guess * _SURE < self.limit:
            return form, None
        if trusted and guess > _SURE * self.limit + 32:
            return None, None
        return form, self.request.counter.count(form)
