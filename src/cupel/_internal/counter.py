"""The protocol of token counters, and calls that survive a panicking one."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from cupel._internal.checks import shown, wrong_type
from cupel.errors import InvalidItemError


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


def count_tokens(counter: TokenCounter, text: str) -> int:
    """Count the tokens of a text; a panic of a native tokeniser becomes an `InvalidItemError`.

    Extensions written in Rust raise a panic as a `BaseException`, which would end a whole program because of one text.
    """
    try:
        return counter.count(text)
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as panic:
        raise InvalidItemError(
            f"a text of {len(text):,} characters cannot be counted by {shown(counter)}: {type(panic).__name__}: "
            f"{shown(str(panic))[1:-1]}; shorten the text ({shown(text[:20])}...) or give its token count"
        ) from panic
