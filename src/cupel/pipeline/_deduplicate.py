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
    scores = candidates.scores
    best: dict[_Identity, int] = {}
    dropped: list[int] = []
    for position, item in enumerate(items):
        content = _identity(item) if related else item.content
        if content in known:
            dropped.append(position)
            continue
        rival = best.setdefault(content, position)
        if scores[position] > scores[rival]:  # never true of NaN, so the first copy stays then (ruling 1.5)
            best[content] = position
            dropped.append(rival)
        elif rival != position:
            dropped.append(position)
    gone = set(dropped)
    return Copies([position for position in range(len(items)) if position not in gone], sorted(dropped))


def _identity(item: ContextItem) -> _Identity:
    marks = marks_of(item)
    return item.content if marks.id is marks.group is None else (item.content, marks.id, marks.group)
