"""The forms that long texts of a message are sent in."""

from __future__ import annotations

from collections.abc import Mapping

from cupel.shorten import head_tail, key_lines, values
from cupel.tokens import TokenCounter

_NAMES = 0.5
"""Half of a shortened text are lines, half are names of the others: what kept most on recorded sessions."""


def telling(text: str, limit: int, *, counter: TokenCounter, known: Mapping[str, int]) -> str:
    """Return the short form: JSON as all its distinct values; of anything else key lines, and names of the others."""
    if text[:1] in ("{", "["):
        return values(text, None, counter=counter)
    return key_lines(text, limit, counter=counter, known=known, names=_NAMES)


def cut(text: str, limit: int, *, counter: TokenCounter) -> str:
    """Return a form within a limit, whatever is lost; it depends on nothing but the text."""
    if text[:1] in ("{", "["):
        return values(text, limit, counter=counter)
    return key_lines(text, limit, counter=counter) or head_tail(text, limit, counter=counter)
