"""The orders that scoring, sorting, slicing, placing and reporting share; ties keep their order in all of them."""

from __future__ import annotations

from math import isnan
from typing import Any


def descending(keys: list[float]) -> list[int]:
    """Give the positions of `keys` from the largest to the smallest; NaN comes last.

    >>> descending([0.5, 0.9, 0.5])
    [1, 0, 2]
    """
    if isnan(sum(keys)):  # one pass in C that finds every NaN; opposite infinities land here too and sort the same
        return sorted(range(len(keys)), key=lambda position: (keys[position] != keys[position], -keys[position]))
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=True)


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
