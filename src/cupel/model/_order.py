"""The one descending order that sorting, slicing, placing and reporting share."""

from __future__ import annotations

from math import isnan


def descending(keys: list[float]) -> list[int]:
    """Give the positions of `keys` from the largest to the smallest; ties keep their order and NaN comes last.

    >>> descending([0.5, 0.9, 0.5])
    [1, 0, 2]
    """
    if isnan(sum(keys)):  # one pass in C that finds every NaN; opposite infinities land here too and sort the same
        return sorted(range(len(keys)), key=lambda position: (keys[position] != keys[position], -keys[position]))
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
