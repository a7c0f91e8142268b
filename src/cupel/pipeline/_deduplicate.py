"""Stage 3: keep the best of items with one content."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from cupel._columns import Candidates


class Copies(NamedTuple):
    """Positions that stay and positions that go, both in input order."""

    kept: list[int]
    dropped: list[int]


def find_copies(candidates: Candidates, known: Collection[str] = ()) -> Copies | None:
    """Find items whose content another item has too, or is `known`; None when all contents differ.

    The highest score stays, of equal scores the first; contents are compared code point by code point (ruling 3.9).
    """
    distinct = {item.content for item in candidates.items}
    if len(distinct) == len(candidates) and distinct.isdisjoint(known):
        return None
    contents, scores = [item.content for item in candidates.items], candidates.scores
    best: dict[str, int] = {}
    for position, content in enumerate(contents):
        # Any comparison with NaN is false, so the first copy stays then (ruling 1.5).
        if content not in known and (content not in best or scores[position] > scores[best[content]]):
            best[content] = position
    kept = [position for position, content in enumerate(contents) if best.get(content) == position]
    dropped = [position for position, content in enumerate(contents) if best.get(content) != position]
    return Copies(kept, dropped)
