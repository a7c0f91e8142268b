"""How many peers share a tag."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel._folded import fold_ascii
from cupel.scorers._base import PassScorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem


@dataclass(frozen=True, slots=True)
class FrequencyScorer(PassScorer):
    """Scores by company: the share of the other items that have at least one tag in common with this one.

    Tags are compared without ASCII case. An item without tags, or without peers, scores 0.

    >>> from cupel import ContextItem
    >>> items = [ContextItem("a", 1, tags=["X"]), ContextItem("b", 1, tags=["x", "y"]), ContextItem("c", 1)]
    >>> FrequencyScorer().score_all(items)
    [0.5, 0.5, 0.0]
    """

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        # No two items are compared: a tag is a bit set of positions, an item the union of its tags.
        if len(items) <= 1:
            return [0.0] * len(items)
        sharing = _Sharing(items)
        # An item shares its tags with itself at every position it stands at, and none of these is a peer (ruling 4.5).
        occurrences = Counter(map(id, items))
        peers = len(items) - 1
        return [(sharing.count(item.tags) - occurrences[id(item)]) / peers if item.tags else 0.0 for item in items]


class _Sharing:
    """Counts the positions that share at least one of given tags."""

    __slots__ = ("_counts", "_fold", "_positions")

    def __init__(self, items: Sequence[ContextItem]) -> None:
        self._fold: dict[str, str] = {}
        self._counts: dict[tuple[str, ...], int] = {}
        width = (len(items) + 7) // 8
        sets: dict[str, bytearray] = {}
        for position, item in enumerate(items):
            byte, bit = position >> 3, 1 << (position & 7)
            for tag in item.tags:
                key = self._folded(tag)
                positions = sets.get(key)
                if positions is None:
                    positions = sets[key] = bytearray(width)
                positions[byte] |= bit
        self._positions = {key: int.from_bytes(positions, "little") for key, positions in sets.items()}

    def count(self, tags: tuple[str, ...]) -> int:
        known = self._counts.get(tags)
        if known is None:
            union = 0
            for tag in tags:
                union |= self._positions[self._fold[tag]]
            known = self._counts[tags] = union.bit_count()
        return known

    def _folded(self, tag: str) -> str:
        key = self._fold.get(tag)
        if key is None:
            key = self._fold[tag] = fold_ascii(tag)
        return key
