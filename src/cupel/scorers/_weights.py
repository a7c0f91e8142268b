"""The one check that scorer weights go through."""

from __future__ import annotations

from math import floor, isfinite
from numbers import Real

from cupel.errors import ScorerConfigError


def as_number(value: object, field: str) -> float:
    """Convert a real number of any type to float; a bool counts as one here, unlike in an item."""
    if not isinstance(value, Real):
        msg = f"{field} must be a number, got {type(value).__name__}: {value!r}"
        raise TypeError(msg)
    try:
        return float(value)
    except OverflowError:
        bits = int(floor(value)).bit_length()  # noqa: RUF046 - type checkers do not know that it is one
        msg = f"{field} must be finite, got an integer of {bits} bits"
        raise ScorerConfigError(msg) from None


def non_negative(value: object, field: str) -> float:
    """Check a weight that may be zero: finite and not negative."""
    weight = as_number(value, field)
    if not (isfinite(weight) and weight >= 0.0):
        msg = f"{field} must be finite and >= 0, got {value!r}"
        raise ScorerConfigError(msg)
    return weight


def positive(value: object, field: str) -> float:
    """Check a weight that must count: finite and above zero."""
    weight = as_number(value, field)
    if not (isfinite(weight) and weight > 0.0):
        msg = f"{field} must be finite and > 0, got {value!r}"
        raise ScorerConfigError(msg)
    return weight


def unit_interval(value: object, field: str) -> float:
    """Check a score that stands in for a missing one: from 0 to 1, which NaN is not."""
    score = as_number(value, field)
    if not 0.0 <= score <= 1.0:
        msg = f"{field} must be from 0 to 1, got {value!r}"
        raise ScorerConfigError(msg)
    return score
