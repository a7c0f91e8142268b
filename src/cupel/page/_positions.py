"""Items by their place in the input, found by identity and never by equality."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from cupel.model import ContextItem


def distinct(items: Iterable[ContextItem]) -> list[ContextItem]:
    """Return the items as a list in which no object occurs twice, so that each has one position."""
    seen: set[int] = set()
    result: list[ContextItem] = []
    for item in items:
        one = copy.copy(item) if id(item) in seen else item
        seen.add(id(one))
        result.append(one)
    return result


class Positions:
    """The input position of each item."""

    __slots__ = ("_by_id",)

    def __init__(self, items: Sequence[ContextItem]) -> None:
        self._by_id = {id(item): position for position, item in enumerate(items)}

    def of(self, item: ContextItem) -> int:
        """Return the position of one of the items."""
        return self._by_id[id(item)]

    def all(self, items: Iterable[ContextItem]) -> list[int]:
        """Return the positions of several of the items, in their order."""
        return [self._by_id[id(item)] for item in items]
