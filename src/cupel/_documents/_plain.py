"""Any value as plain JSON values: the one place that knows what JSON cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isinf, nan
from numbers import Integral, Real
from typing import Any, Final, TypeGuard, cast

import msgspec

from cupel._checks import shown
from cupel._documents._limits import MAX_DEPTH, MAX_DIGITS, TOO_DEEP, TOO_LONG, RefusedError

NON_FINITE: Final = {"NaN": nan, "Infinity": float("inf"), "-Infinity": float("-inf")}
"""JSON has no numbers for these; they are written as strings."""

_ATOMS: Final = frozenset({str, bool, type(None)})
_HUGE: Final = 10**MAX_DIGITS
_TINY: Final = -_HUGE


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value that was read from JSON is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a value that was read from JSON is a list."""
    return isinstance(value, list)


def plain_number(value: float) -> float | str:
    """Return a number, or the string that stands for it where it is not finite."""
    if isfinite(value):
        return value
    return ("Infinity" if value > 0 else "-Infinity") if isinf(value) else "NaN"


def plain_integer(value: int) -> int:
    """Return an integer that may be written."""
    if _TINY < value < _HUGE:
        return value
    raise RefusedError(f"{TOO_LONG}, got {shown(value)}")


def plain(value: Any, depth: int = 0) -> Any:
    """Return the JSON values behind a value of somebody's metadata; sets are written in order, whatever their hashes.

    A value that JSON cannot write is a TypeError, one that is too deep or too long a ValueError.
    """
    if type(value) in _ATOMS:
        return value
    if type(value) is int:
        return plain_integer(value)
    if type(value) is float:
        return plain_number(value)
    if depth >= MAX_DEPTH and isinstance(value, (Mapping, list, tuple, set, frozenset)):
        raise RefusedError(TOO_DEEP)
    members: Mapping[Any, Any] = value
    if isinstance(value, Mapping):
        return {_key(key): plain(entry, depth + 1) for key, entry in members.items()}
    if not isinstance(value, (list, tuple, set, frozenset)):
        return _leaf(value, depth)
    entries = [plain(entry, depth + 1) for entry in cast("list[Any]", value)]
    return sorted(entries, key=_order) if isinstance(value, (set, frozenset)) else entries


def _order(entry: Any) -> tuple[str, Any]:
    return type(entry).__name__, entry if isinstance(entry, (str, int, float)) else repr(entry)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"keys must be strings, got {type(key).__name__}: {shown(key)}")
    return str.__str__(key)


def _leaf(value: Any, depth: int) -> Any:
    """Return the plain value behind a subclass, another library's number, or a type that msgspec knows."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Integral):
        return plain_integer(int(value))
    if isinstance(value, Real):
        return plain_number(float(value))
    try:
        known = msgspec.to_builtins(value)
    except (TypeError, RecursionError):
        known = value
    if known is value or type(known) is type(value):
        raise TypeError(f"must hold values that JSON can write, got {type(value).__name__}: {shown(value)}")
    return plain(known, depth)
