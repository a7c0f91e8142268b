"""What counts tokens."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from cupel._checks import wrong_type


@runtime_checkable
class TokenCounter(Protocol):
    """Anything that can say how many tokens a text has.

    >>> class Words:
    ...     def count(self, text: str) -> int:
    ...         return len(text.split())
    >>> isinstance(Words(), TokenCounter)
    True
    """

    def count(self, text: str, /) -> int:
        """The number of tokens in `text`, never negative."""
        ...


def as_counter(name: str, value: TokenCounter) -> TokenCounter:
    """Return a token counter; strings and lists have a `count` as well, which counts something else."""
    others = (str, bytes, bytearray, list, tuple, range)
    if not callable(getattr(value, "count", None)) or issubclass(type(value), others):
        raise wrong_type(name, "a TokenCounter, an object with a method count(text)", value)
    return value
