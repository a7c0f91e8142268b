"""The caller's trust, from metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING

from cupel.model import TRUST_KEY
from cupel.scorers._base import PeerlessScorer
from cupel.scorers._weights import unit_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.model import ContextItem

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class MetadataTrustScorer(PeerlessScorer):
    """Passes on `metadata["cupel:trust"]`, a number or a decimal string, clamped to 0 to 1.

    Anything else (missing, not a plain ASCII decimal, not finite, a bool) scores `default_score`.

    >>> from cupel import ContextItem
    >>> MetadataTrustScorer().score(ContextItem("x", 1, metadata={"cupel:trust": "0.85"}), [])
    0.85
    """

    default_score: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "default_score", unit_interval(self.default_score, "default_score"))

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        return [self._trust(item.metadata.get(TRUST_KEY)) for item in items]

    def _trust(self, raw: object) -> float:
        trust = _parsed(raw)
        if trust is None or not isfinite(trust):
            return self.default_score
        return min(max(trust, 0.0), 1.0)


def _parsed(raw: object) -> float | None:
    """Read a number strictly: `float` alone would take underscores, blanks and other scripts' digits (ruling 4.13)."""
    if isinstance(raw, str):
        return float(raw) if _DECIMAL.fullmatch(raw) else None
    if isinstance(raw, bool) or not isinstance(raw, Real):
        return None
    try:
        return float(raw)
    except OverflowError:
        return None
