"""What a counter is, and how it fills an item's `tokens`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from cupel._checks import as_counter, as_instance
from cupel.model import ContextItem


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


def with_token_count(item: ContextItem, counter: TokenCounter) -> ContextItem:
    """A copy of `item` whose `tokens` is the counter's count of its content; every other field is kept.

    >>> from cupel import ContextItem
    >>> from cupel.tokens import CharacterEstimate
    >>> with_token_count(ContextItem("twelve chars", 0, tags=["kept"]), CharacterEstimate()).tokens
    3
    """
    as_instance("item", item, ContextItem)
    return item.replace(tokens=as_counter("counter", counter).count(item.content))
