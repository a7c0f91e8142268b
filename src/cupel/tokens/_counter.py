"""How a counter fills an item's `tokens`."""

from __future__ import annotations

from cupel._checks import as_instance
from cupel._counter import TokenCounter, as_counter
from cupel.model import ContextItem


def with_token_count(item: ContextItem, counter: TokenCounter) -> ContextItem:
    """Return a copy of `item` whose `tokens` is the counter's count of its content; every other field is kept.

    >>> from cupel import ContextItem
    >>> from cupel.tokens import CharacterEstimate
    >>> with_token_count(ContextItem("twelve chars", 0, tags=["kept"]), CharacterEstimate()).tokens
    3
    """
    as_instance("item", item, ContextItem)
    return item.replace(tokens=as_counter("counter", counter).count(item.content))
