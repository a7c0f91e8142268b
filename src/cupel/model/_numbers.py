"""Numbers as plain `int` and `float`, whichever library they come from."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from cupel.errors import InvalidItemError


def as_integer(field: str, value: object) -> int:
    """Convert an integer of any type; a bool is none, nor is a float without a fraction."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        msg = f"{field} must be an integer, got {type(value).__name__}: {value!r}"
        raise TypeError(msg)
    return int.__int__(value) if isinstance(value, int) else int(value)


def is_number(value: object) -> bool:
    """Tell whether a value is a real number; a bool is none."""
    return not isinstance(value, bool) and isinstance(value, Real)


def as_float(field: str, value: Any) -> float:
    """Convert a number to a double; whether it is finite is the caller's question."""
    if not is_number(value):
        msg = f"{field} must be a number, got {type(value).__name__}: {value!r}"
        raise TypeError(msg)
    try:
        return float(value)
    except OverflowError:
        msg = f"{field} must fit a double, got an integer of {int(value).bit_length()} bits"
        raise InvalidItemError(msg) from None
