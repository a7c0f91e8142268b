"""Stage 3: keep the best of items with one content."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cupel._columns import Items


class Deduplicated(NamedTuple):
    """Positions that stay and positions that go, both in input order."""

    kept: list[int]
    dropped: list[int]


def deduplicate(scoreable: Items, scores: list[float]) -> Deduplicated | None:
    """Find items whose content another item has too; None when all contents differ.

    The highest score stays, of equal scores the first; contents are compared code point by code point (ruling 3.9).
    """
    if len({item.content for item in scoreable}) == len(scoreable):
        return None
    contents = [item.content for item in scoreable]
    best: dict[str, int] = {}
    for position, content in enumerate(contents):
        # Any comparison with NaN is false, so the first copy stays then (ruling 1.5).
        if content not in best or scores[position] > scores[best[content]]:
            best[content] = position
    kept = [position for position, content in enumerate(contents) if best[content] == position]
    dropped = [position for position, content in enumerate(contents) if best[content] != position]
    return Deduplicated(kept, dropped)
