"""Telling items apart by identity."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cupel._checks import shown
from cupel.errors import StrategyContractError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.model import ContextItem


def positions_of(
    returned: Iterable[ContextItem], items: Iterable[ContextItem], strategy: str, method: str
) -> list[int]:
    """Find the positions of returned items by identity, each occurrence once (ruling 3.16), or name the breach."""
    places: dict[int, deque[int]] = {}
    for position, item in enumerate(items):
        places.setdefault(id(item), deque()).append(position)
    positions: list[int] = []
    try:
        results = list(returned)
    except TypeError:
        raise StrategyContractError(strategy, f"{method} must return a list of items, got {shown(returned)}") from None
    for item in results:
        left = places.get(id(item))
        if left is None:
            raise StrategyContractError(strategy, f"{method} returned an item it was not given: {shown(item)}")
        if not left:
            raise StrategyContractError(
                strategy, f"{method} returned an item more often than it was given: {shown(item)}"
            )
        positions.append(left.popleft())
    return positions
