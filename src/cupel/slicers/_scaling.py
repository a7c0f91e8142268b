"""Scores as whole numbers."""

from __future__ import annotations

from math import floor, isfinite

_SCALE = 10_000
_LARGEST = 2**63 - 1


def scaled_score(score: float) -> int:
    """Turn a score into the solver's whole number; beyond the finite it saturates (rulings 5.6, 5.9)."""
    scaled = score * _SCALE
    if not isfinite(scaled):
        return _LARGEST if scaled > 0 else 0
    return min(max(0, floor(scaled)), _LARGEST)
