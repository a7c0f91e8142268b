"""Orders of large pools, in NumPy; `_order` says from when on its import pays."""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_microsecond = attrgetter("microsecond")


def descending(keys: list[float]) -> list[int]:
    """Order keys that have no NaN among them."""
    return _falling(np.fromiter(keys, np.float64, len(keys)))


def descending_ratios(dividends: list[float], divisors: list[int]) -> list[int] | None:
    """Divide as Python does, which also makes a double of the integer first."""
    ratios = np.fromiter(dividends, np.float64, len(dividends)) / np.fromiter(divisors, np.float64, len(divisors))
    return None if np.isnan(ratios).any() else _falling(ratios)


def _falling(keys: Array) -> list[int]:
    """Sort twice without stability, and by position within each level: half the time of a stable `argsort`."""
    if (keys[1:] <= keys[:-1]).all():
        return list(range(len(keys)))
    order = np.argsort(-keys)
    level = np.cumsum(_changes(keys[order]))
    positions: list[int] = (np.sort(level * len(keys) + order) % len(keys)).tolist()
    return positions


def shares_below(values: list[Any]) -> list[float] | None:
    """Count how many are smaller than each, once for all that are equal."""
    present = [value for value in values if value is not None]
    if len(present) <= 1:
        return None
    numbers = _instants(present) if isinstance(present[0], datetime) else _integers(present)
    if numbers is None:
        return None
    order = np.argsort(numbers)
    first = np.flatnonzero(_changes(numbers[order]))
    below = np.empty(len(present))
    below[order] = np.repeat(first, np.diff(first, append=len(present)))
    shares: list[float] = (below / (len(present) - 1)).tolist()
    if len(present) == len(values):
        return shares
    share = iter(shares)
    return [0.0 if value is None else next(share) for value in values]


def _changes(ordered: Array) -> Array:
    """Tell which of the ordered keys differ from the one before."""
    changes = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=changes[1:])
    return changes


def _integers(values: list[int]) -> Array | None:
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return None


def _instants(times: list[datetime]) -> Array | None:
    """Give microseconds since 1970, for instants before 2106, when seconds outgrow 32 bits.

    Asking a datetime for its second takes 200 ns, reading it from MessagePack 20: it is the last four bytes of six, or
    of ten if there is a fraction. Instants out of range take more bytes, or set two bits between fraction and second.
    """
    fractions = np.fromiter(map(_microsecond, times), np.int64, len(times))
    packed = np.frombuffer(msgspec.msgpack.encode(times), np.uint8)
    # All come after the header of their list, which grows with its length.
    header = 1 if len(times) < 2**4 else 3 if len(times) < 2**16 else 5
    ends = np.cumsum(np.where(fractions == 0, 6, 10)) + header
    if len(packed) != ends[-1] or np.any(packed[ends - 5][fractions != 0] & 0b11):
        return None
    seconds: Array = np.ndarray(len(packed) - 3, ">u4", packed, strides=(1,))[ends - 4]
    instants: Array = seconds.astype(np.int64) * 1_000_000 + fractions
    return instants
