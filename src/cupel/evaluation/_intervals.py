"""Figures with intervals, by resampling."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
_CHUNK: Final = 1_000_000
"""Draws that are held in memory at a time."""
_FEW: Final = 2
"""Below so many observations there is nothing to resample."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, and the interval in which it would lie, in 95 of 100 cases, if others had been measured.

    >>> str(Estimate(0.5, 0.4, 0.62, 100))
    '0.500 (0.400 to 0.620)'
    """

    value: float
    low: float
    high: float
    count: int
    """How many cases it is made from; an interval from fewer than two is the whole line."""

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def to_dict(self) -> dict[str, float | int | None]:
        """Return plain values for JSON; an interval that says nothing is None at both ends."""
        known = self.count >= _FEW
        return {
            "value": self.value,
            "low": self.low if known else None,
            "high": self.high if known else None,
            "count": self.count,
        }


def estimates(ratios: Sequence[tuple[Sequence[float], Sequence[float]]], *, seed: int) -> list[Estimate]:
    """Estimate ratios of sums, all from the same resamples of the cases, so that differences are paired.

    The interval is the bootstrap's percentiles, moved outwards as Student's distribution is wider than the normal: with
    few cases plain percentiles are too narrow.
    """
    import numpy as np

    if not ratios:
        return []
    tops: Any = np.array([top for top, _ in ratios], dtype=float)
    bottoms: Any = np.array([bottom for _, bottom in ratios], dtype=float)
    number = tops.shape[1]
    # The raw bits of a generator are the part whose values NumPy promises to keep.
    bits: Any = np.random.PCG64(seed)
    found: Any = np.full((RESAMPLES, len(ratios)), np.nan)
    rows = max(1, _CHUNK // max(number, 1))
    for start in range(0, RESAMPLES if number >= _FEW else 0, rows):
        part = found[start : start + rows]
        drawn = (bits.random_raw(len(part) * number) % np.uint64(number)).reshape(len(part), number).astype(np.int64)
        drawn += np.arange(len(part))[:, None] * number
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        below = times @ bottoms.T
        np.divide(times @ tops.T, below, out=part, where=below > 0)
    return [
        _estimate(fsum(top), fsum(bottom), found[:, index], sum(1 for part in bottom if part > 0))
        for index, (top, bottom) in enumerate(ratios)
    ]


def _estimate(top: float, bottom: float, resampled: Any, count: int) -> Estimate:
    import numpy as np

    value = top / bottom if bottom else 0.0
    drawn = resampled[~np.isnan(resampled)]
    if count < _FEW or not len(drawn):
        return Estimate(value, float("-inf"), float("inf"), count)
    outside = _tail(count)
    low, high = np.quantile(drawn, [outside, 1 - outside])
    return Estimate(value, min(float(low), value), max(float(high), value), count)


def _tail(count: int) -> float:
    """Return the share of resamples to leave out at each end."""
    normal = NormalDist()
    return normal.cdf(-sqrt(count / (count - 1)) * student_quantile(count - 1))


def student_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's distribution, to two digits or better.

    >>> [round(student_quantile(freedom), 2) for freedom in (3, 10, 100)]
    [3.18, 2.23, 1.98]
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    if freedom <= len(_SMALL):
        return _SMALL[freedom - 1]
    # The expansion by Cornish and Fisher in powers of 1 / freedom.
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


_SMALL: Final = (12.706, 4.303, 3.182, 2.776)
"""Where the expansion is not good enough."""


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error, which is infinite for fewer than two values.

    >>> mean_and_error([1.0, 3.0])
    (2.0, 1.0)
    """
    count = len(values)
    mean = sum(values) / count if count else 0.0
    if count < _FEW:
        return mean, float("inf")
    return mean, sqrt(sum((value - mean) ** 2 for value in values) / (count - 1) / count)
