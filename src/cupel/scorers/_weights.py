"""The one check that scorer weights go through."""

from __future__ import annotations

from math import inf

from cupel._checks import as_finite, as_number, shown
from cupel.errors import ScorerConfigError


def as_weight(value: object, field: str) -> float:
    """Convert a real number of any type; a bool counts as one here, unlike in an item (ruling 4.9)."""
    return as_number(field, value, error=ScorerConfigError, flags=True)


def non_negative(value: object, field: str) -> float:
    """Check a weight that may be zero: finite and not negative."""
    return as_finite(field, value, error=ScorerConfigError, least=0.0, flags=True)


def positive(value: object, field: str) -> float:
    """Check a weight that must count: finite and above zero."""
    weight = as_weight(value, field)
    if not 0.0 < weight < inf:
        msg = f"{field} must be finite and > 0, got {shown(value)}"
        raise ScorerConfigError(msg)
    return weight


def unit_interval(value: object, field: str) -> float:
    """Check a score that stands in for a missing one: from 0 to 1, which NaN is not."""
    return as_finite(field, value, error=ScorerConfigError, least=0.0, most=1.0, flags=True)
