"""A count without a vocabulary."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cupel._checks import as_number, shown
from cupel.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class CharacterEstimate:
    """Estimates tokens from the text's length: one token for each `bytes_per_token` bytes of UTF-8, rounded up.

    Bytes rather than characters, so that one rule holds across scripts: four Latin letters, one emoji, or one and a
    third Chinese characters make a token at the default of 4.0. English prose usually has a little more than four
    bytes to the token, source code and JSON a little less; combine it with a budget's safety margin, or with
    `CalibratedCounter`.

    >>> CharacterEstimate().count("The build failed on step 3.")
    7
    """

    bytes_per_token: float = 4.0

    def __post_init__(self) -> None:
        ratio = self.bytes_per_token
        if not 0.0 < as_number("bytes_per_token", ratio, error=ConfigurationError) < math.inf:
            msg = f"bytes_per_token must be positive and finite, got {shown(ratio)}"
            raise ConfigurationError(msg)

    def count(self, text: str, /) -> int:
        """Return the estimate for `text`; 0 only for the empty string."""
        # A lone surrogate, as broken JSON escapes produce, has no UTF-8; it still costs its three bytes.
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return math.ceil(size / self.bytes_per_token)
