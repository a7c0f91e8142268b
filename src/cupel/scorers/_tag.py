"""Weighted tags."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isinf
from typing import TYPE_CHECKING

from cupel._checks import as_flag, as_mapping, as_text, shown
from cupel._folded import fold_ascii
from cupel._frozen import FrozenDict
from cupel.errors import ScorerConfigError
from cupel.scorers._base import PeerlessScorer
from cupel.scorers._weights import non_negative

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cupel.model import ContextItem

_SMALLER = 2.0**-64


@dataclass(frozen=True, slots=True)
class TagScorer(PeerlessScorer):
    """Scores by tags: the weights of the item's tags over the sum of all weights, at most 1.

    A tag an item lists twice counts twice. Tags match exactly unless `case_sensitive=False`, which folds ASCII case.

    >>> from cupel import ContextItem
    >>> TagScorer({"urgent": 3, "docs": 1}).score(ContextItem("x", 1, tags=["urgent", "other"]), [])
    0.75
    """

    weights: Mapping[str, float]
    case_sensitive: bool = field(default=True, kw_only=True)
    _by_key: dict[str, float] = field(init=False, repr=False, compare=False)
    _total: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        as_flag("case_sensitive", self.case_sensitive)
        weights: dict[str, float] = {}
        by_key: dict[str, float] = {}
        total = 0.0
        for tag, raw in as_mapping("weights", self.weights).items():
            as_text("a key of weights", tag)
            weight = non_negative(raw, f"weights[{shown(tag)}]")
            key = tag if self.case_sensitive else fold_ascii(tag)
            if key in by_key:
                msg = f"weights: {shown(tag)} is the same tag as another key when case is ignored; keep one"
                raise ScorerConfigError(msg)
            weights[tag] = by_key[key] = weight
            total += weight
        object.__setattr__(self, "weights", FrozenDict(weights))
        if isinf(total):
            # A power of two changes no ratio, and leaves room for as many weights as there can be.
            by_key = {key: weight * _SMALLER for key, weight in by_key.items()}
            total = sum(by_key.values())
        object.__setattr__(self, "_by_key", by_key)
        object.__setattr__(self, "_total", total)

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return [self._share(item.tags) for item in items]

    def _share(self, tags: tuple[str, ...]) -> float:
        if self._total == 0.0 or not tags:
            return 0.0
        matched = 0.0
        for tag in tags:
            matched += self._by_key.get(tag if self.case_sensitive else fold_ascii(tag), 0.0)
        return min(matched / self._total, 1.0)
