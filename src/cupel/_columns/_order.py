"""The orders that scoring, sorting, slicing, placing and reporting share; ties keep their order in all of them.

Large pools are ordered by `_bulk`, with the same result; nobody else needs to know.
"""

from __future__ import annotations

import sys
from math import isnan
from operator import truediv  # pyright: ignore[reportUnknownVariableType]
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_WORTH_A_CONVERSION = 10_000
_WORTH_AN_IMPORT = 50_000  # NumPy's takes a quarter of a second, once
_ratio = cast("Callable[[float, int], float]", truediv)


def _is_large(count: int) -> bool:
    """Tell whether `_bulk` is quicker than a sort."""
    return count >= _WORTH_A_CONVERSION and (count >= _WORTH_AN_IMPORT or "numpy" in sys.modules)


def descending(keys: list[float]) -> list[int]:
    """Give the positions of `keys` from the largest to the smallest; NaN comes last.

    >>> descending([0.5, 0.9, 0.5])
    [1, 0, 2]
    """
    if isnan(sum(keys)):  # one pass in C that finds every NaN; opposite infinities land here too and sort the same
        return sorted(range(len(keys)), key=lambda position: (keys[position] != keys[position], -keys[position]))
    if _is_large(len(keys)):
        from cupel._columns import _bulk

        return _bulk.descending(keys)
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=True)


def descending_ratios(dividends: list[float], divisors: list[int]) -> list[int]:
    """Give `descending` of the quotients.

    >>> descending_ratios([0.5, 0.9, 0.5], [1, 9, 1])
    [0, 2, 1]
    """
    if _is_large(len(divisors)):
        from cupel._columns import _bulk

        if (order := _bulk.descending_ratios(dividends, divisors)) is not None:
            return order
    return descending(list(map(_ratio, dividends, divisors)))


def ascending(keys: list[Any]) -> list[int]:
    """Give the positions of `keys` from the smallest to the largest, leaving out those that are None.

    >>> ascending([3, None, 1])
    [2, 0]
    """
    if len(keys) > 1:
        try:
            return sorted(range(len(keys)), key=keys.__getitem__)
        except TypeError:  # None does not compare
            pass
    present = [position for position, key in enumerate(keys) if key is not None]
    present.sort(key=keys.__getitem__)
    return present


def shares_below(values: list[Any]) -> list[float] | None:
    """Give for each instant or integer which share of the others is smaller, and 0 for None.

    The answer is None where sorting is quicker, or the only exact way.
    """
    if not _is_large(len(values)):
        return None
    from cupel._columns import _bulk

    return _bulk.shares_below(values)
