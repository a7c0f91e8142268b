"""Integers of any size with doubles: what floats compute where they can, and exact fractions where they overflow."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, inf, isfinite

_SCALE = 10_000
_LARGEST_VALUE = 2**63 - 1


def quotient(value: float, tokens: int) -> float:
    """Divide by a number of tokens; beyond the largest double what is left is zero, or infinite the other way round.

    >>> quotient(0.5, 2), quotient(0.5, 10**400), quotient(10**400, 2)
    (0.25, 0.0, inf)
    """
    try:
        return value / tokens
    except OverflowError:
        if isinstance(value, float):
            return value * (0.0 if tokens > 0 else -0.0) if isfinite(value) else value
        return inf if (value < 0) is (tokens < 0) else -inf


def floor_share(tokens: int, share: float) -> int:
    """Return a share of a number of tokens, rounded down.

    >>> floor_share(7, 0.5), floor_share(10**400, 0.5) == 10**400 // 2
    (3, True)
    """
    try:
        return floor(tokens * share)
    except OverflowError:
        return floor(tokens * Fraction(share))


def ceil_quotient(tokens: int, share: float) -> int:
    """Return the number of tokens of which another number is a share, rounded up.

    >>> ceil_quotient(7, 0.5), ceil_quotient(10**400, 0.5) == 2 * 10**400
    (14, True)
    """
    try:
        return ceil(tokens / share)
    except OverflowError:
        return ceil(tokens / Fraction(share))


def scaled_score(score: float) -> int:
    """Turn a score into the solver's whole number; beyond the finite it saturates (rulings 5.6, 5.9)."""
    scaled = score * _SCALE
    if not isfinite(scaled):
        return _LARGEST_VALUE if scaled > 0 else 0
    return min(max(0, floor(scaled)), _LARGEST_VALUE)
