"""A counter that learns from the usage a provider reports."""

from __future__ import annotations

import math

from cupel._checks import as_integer
from cupel._counter import TokenCounter, as_counter
from cupel.errors import ConfigurationError


class CalibratedCounter:
    """Corrects another counter by the ratio between what it said and what the provider then charged.

    After each request, hand `observe` the total that was estimated (`fitted.total_tokens`) and the input tokens the
    provider reported; later counts are scaled by everything seen so far, weighted by size, and rounded up. The
    ratio depends only on the observations and their order. Use it together with a budget's
    `estimation_safety_margin_percent`: the ratio removes the systematic error, the margin covers the rest.

    >>> from cupel.tokens import CharacterEstimate
    >>> counter = CalibratedCounter(CharacterEstimate())
    >>> counter.count("a" * 400)
    100
    >>> counter.observe(estimated=1000, reported=1250)
    >>> counter.ratio, counter.count("a" * 400)
    (1.25, 125)
    """

    def __init__(self, inner: TokenCounter) -> None:
        self.inner = as_counter("inner", inner)
        self._ratio = 1.0
        self._uncorrected = 0.0
        self._reported = 0

    @property
    def ratio(self) -> float:
        """Reported tokens for each token the inner counter counts; 1.0 until the first observation."""
        return self._ratio

    def count(self, text: str, /) -> int:
        """Return the inner counter's count of `text`, times the ratio, rounded up."""
        return math.ceil(self.inner.count(text) * self._ratio)

    def observe(self, estimated: int, reported: int) -> None:
        """Learn from one request: `estimated` is what this counter added up to, `reported` what the provider said."""
        estimated = as_integer("estimated", estimated, least=1, error=ConfigurationError)
        reported = as_integer("reported", reported, least=1, error=ConfigurationError)
        # The estimate already contains the ratio of its time; taking it out keeps later observations comparable.
        self._uncorrected += estimated / self._ratio
        self._reported += reported
        self._ratio = self._reported / self._uncorrected

    def __repr__(self) -> str:
        return f"CalibratedCounter({self.inner!r}, ratio={self._ratio!r})"
