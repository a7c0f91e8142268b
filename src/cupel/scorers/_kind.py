"""A fixed weight per kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cupel._folded import folded_map
from cupel._frozen import FrozenDict
from cupel.errors import ScorerConfigError
from cupel.model import ContextKind
from cupel.scorers._base import PeerlessScorer
from cupel.scorers._weights import non_negative

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cupel.model import ContextItem

DEFAULT_KIND_WEIGHTS: FrozenDict[ContextKind, float] = FrozenDict(
    {
        ContextKind.SYSTEM_PROMPT: 1.0,
        ContextKind.MEMORY: 0.8,
        ContextKind.TOOL_OUTPUT: 0.6,
        ContextKind.DOCUMENT: 0.4,
        ContextKind.MESSAGE: 0.2,
    }
)
"""What `KindScorer()` uses: the five well-known kinds and no others."""


@dataclass(frozen=True, slots=True)
class KindScorer(PeerlessScorer):
    """Scores by kind: the kind's weight, or 0 for a kind without one.

    Given weights replace the defaults, they are not merged with them; they may exceed 1.

    >>> from cupel import ContextItem
    >>> KindScorer({"Document": 2}).score_all([ContextItem("a", 1, kind="document"), ContextItem("b", 1)])
    [2.0, 0.0]
    """

    weights: Mapping[ContextKind, float] | Mapping[str, float] | None = None
    _by_key: dict[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        weights = DEFAULT_KIND_WEIGHTS
        if self.weights is not None:
            weights = folded_map(
                self.weights,  # type: ignore[arg-type]
                ContextKind,
                non_negative,
                field="weights",
                error=ScorerConfigError,
            )
            object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "_by_key", {kind.key: weight for kind, weight in weights.items()})

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        weight_of = self._by_key.get
        return [weight_of(item.kind.key, 0.0) for item in items]
