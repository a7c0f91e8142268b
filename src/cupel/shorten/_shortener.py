"""What a shortener is."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol


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
