"""The orders that scoring, sorting, slicing, placing and reporting share; ties keep their order in all of them.

A large pool does not fit the processor's nearest cache, where Python's sort slows down and NumPy's does not. Loading
NumPy takes a quarter of a second, once, so smaller pools do without.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from datetime import datetime

LARGE = 50_000


def descending(keys: list[float]) -> list[int]:
    """Return the positions of `keys` from the largest to the smallest; NaN comes last.

    >>> descending([0.5, 0.9, 0.5])
    [1, 0, 2]
    """
    if len(keys) >= LARGE:
        import numpy as np

        return cast("list[int]", np.argsort(-np.array(keys), kind="stable").tolist())
    if isnan(sum(keys)):  # one pass in C that finds every NaN; opposite infinities land here too and sort the same
        return sorted(range(len(keys)), key=lambda position: (keys[position] != keys[position], -keys[position]))
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=True)


def ascending(times: list[datetime | None]) -> list[int]:
    """Return the positions of `times` from the earliest to the latest, leaving out those that are None.

    >>> from datetime import datetime
    >>> ascending([datetime(2025, 1, 2), None, datetime(2025, 1, 1)])
    [2, 0]
    """
    if all(times):  # an instant is always true
        return sorted(range(len(times)), key=times.__getitem__)  # type: ignore[arg-type]
    present = [position for position, time in enumerate(times) if time is not None]
    return sorted(present, key=times.__getitem__)  # type: ignore[arg-type]
