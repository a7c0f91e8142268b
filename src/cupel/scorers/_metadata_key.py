"""A boost for items whose metadata says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel._checks import as_text
from cupel.scorers._base import PeerlessScorer
from cupel.scorers._weights import positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem

NEUTRAL = 1.0
"""The score of items that do not match."""


@dataclass(frozen=True, slots=True)
class MetadataKeyScorer(PeerlessScorer):
    """Scores `boost` when `metadata[key]` is `value`, and 1 otherwise.

    A metadata value that is not a string is compared by its `str`; None never matches. In a composite the boost is
    *averaged* with the other scores like any score; it does not multiply them.

    >>> from cupel import ContextItem
    >>> scorer = MetadataKeyScorer("cupel:priority", "high", 1.5)
    >>> scorer.score(ContextItem("x", 1, metadata={"cupel:priority": "high"}), [])
    1.5
    """

    key: str
    value: str
    boost: float

    def __post_init__(self) -> None:
        as_text("key", self.key)
        as_text("value", self.value)
        object.__setattr__(self, "boost", positive(self.boost, "boost"))

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        key, value, boost = self.key, self.value, self.boost
        return [
            boost if (found := item.metadata.get(key)) is not None and str(found) == value else NEUTRAL
            for item in items
        ]
