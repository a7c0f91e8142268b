"""Stage 3: keep the best of items with one content."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cupel._relations import marks_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from cupel._columns import Candidates
    from cupel.model import ContextItem

    _Identity: TypeAlias = "str | tuple[str, str | None, str | None]"


class Copies(NamedTuple):
    """Positions that stay and positions that go, both in input order."""

    kept: list[int]
    dropped: list[int]


def find_copies(candidates: Candidates, known: Collection[str] = (), *, related: bool = False) -> Copies | None:
    """Find items whose content another item has too, or is `known`; None when all contents differ.

    The highest score stays, of equal scores the first; contents are compared code point by code point (ruling 3.9).
    Where items are `related`, one content in two things or groups is no copy: either would be incomplete without it.
    """
    items = candidates.items
    distinct = {item.content for item in items}
    if len(distinct) == len(items) and distinct.isdisjoint(known):
        return None
    contents: list[_Identity] = [_identity(item) if related else item.content for item in items]
    scores = candidates.scores
    best: dict[_Identity, int] = {}
    for position, content in enumerate(contents):
        # Any comparison with NaN is false, so the first copy stays then (ruling 1.5).
        if content not in known and (content not in best or scores[position] > scores[best[content]]):
            best[content] = position
    kept = [position for position, content in enumerate(contents) if best.get(content) == position]
    dropped = [position for position, content in enumerate(contents) if best.get(content) != position]
    return Copies(kept, dropped)


def _identity(item: ContextItem) -> _Identity:
    marks = marks_of(item)
    return item.content if marks.id is marks.group is None else (item.content, marks.id, marks.group)
