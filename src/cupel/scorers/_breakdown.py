"""A score, taken apart."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from cupel.scorers._base import Scorer
from cupel.scorers._composite import CompositeScorer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.model import ContextItem


@dataclass(frozen=True, slots=True)
class ScorePart:
    """What one scorer said about an item, and how far it counted.

    >>> print(ScorePart("RecencyScorer", 0.9, weight=3.0, share=0.675))
    recency 0.9 × 3
    """

    scorer: str
    """The scorer's class."""
    score: float
    """Its own score for the item."""
    weight: float | None = None
    """Its weight in the composite around it, as given."""
    share: float | None = None
    """What it added to that composite's score."""
    parts: tuple[ScorePart, ...] = ()
    """The scorers inside it."""

    def __str__(self) -> str:
        times = "" if self.weight is None else f" × {self.weight:g}"
        return f"{_name(self.scorer)} {self.score:.4g}{_inside(self)}{times}"


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """Where an item's score comes from, and what it is worth per token.

    >>> from cupel import CompositeScorer, ContextItem, KindScorer, Pipeline, ReflexiveScorer
    >>> item = ContextItem("x", 10, future_relevance_hint=0.9)
    >>> scorer = CompositeScorer([(ReflexiveScorer(), 3), (KindScorer(), 1)])
    >>> print(Pipeline(scorer=scorer).dry_run([item], 100).breakdown(item))
    0.725 = (reflexive 0.9 × 3 + kind 0.2 × 1) / 4; 0.0725 a token
    """

    item: ContextItem
    part: ScorePart
    """The pipeline's scorer."""

    @classmethod
    def of(cls, scorer: Scorer, items: Sequence[ContextItem], positions: Iterable[int]) -> list[Self]:
        """Take the scores of a whole pass apart, for the items at these positions; each scorer inside is asked once."""
        scored = _Scored(scorer, items)
        return [cls(items[position], scored.part(position)) for position in positions]

    @property
    def score(self) -> float:
        """The item's score."""
        return self.part.score

    @property
    def density(self) -> float | None:
        """Score per token, by which `GreedySlice` goes; None for an item without tokens."""
        return self.part.score / self.item.tokens if self.item.tokens else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: the scorer's part, with those inside it, and the density."""
        return {"density": self.density, **_plain(asdict(self.part))}

    def __str__(self) -> str:
        parts = _sum(self.part)
        said = f"{self.score:.4g} = {parts}" if parts else str(self.part)
        return said if self.density is None else f"{said}; {self.density:.4g} a token"


class _Scored:
    """A scorer with its scores, and the scorers inside it with theirs."""

    __slots__ = ("_children", "_name", "_scores", "_weights")

    def __init__(self, scorer: Scorer, items: Sequence[ContextItem]) -> None:
        self._name = type(scorer).__name__
        self._scores = scorer.checked_scores([*items])
        children: Sequence[Scorer] = getattr(scorer, "children", ())
        self._weights: list[tuple[float | None, float]] = [(None, 0.0)] * len(children)
        if isinstance(scorer, CompositeScorer):
            pairs = zip(scorer.entries, scorer.normalized_weights, strict=True)
            heard = [(child, (given, share)) for (child, given), share in pairs if share]  # none of who abstains
            children, self._weights = [child for child, _ in heard], [weights for _, weights in heard]
        self._children = [_Scored(child, items) for child in children]

    def part(self, position: int, weight: float | None = None, normalized: float = 0.0) -> ScorePart:
        score = self._scores[position]
        parts = tuple(
            child.part(position, *weights) for child, weights in zip(self._children, self._weights, strict=True)
        )
        return ScorePart(self._name, score, weight, None if weight is None else score * normalized, parts)


def _name(scorer: str) -> str:
    words: list[str] = re.findall(r"[A-Z][a-z0-9]*|[a-z0-9]+", scorer.removesuffix("Scorer"))
    return " ".join(words).lower() or scorer


def _sum(part: ScorePart) -> str:
    """Write a composite as its weighted sum; nothing for any other scorer."""
    if not part.parts or part.parts[0].weight is None:
        return ""
    total = sum(inner.weight or 0.0 for inner in part.parts)
    return f"({' + '.join(map(str, part.parts))}) / {total:g}"


def _inside(part: ScorePart) -> str:
    inside = _sum(part) or ", ".join(map(str, part.parts))
    return f" [{inside}]" if inside else ""


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a scorer without weight or parts does not have."""
    kept = {key: value for key, value in part.items() if value is not None and key != "parts"}
    return {**kept, "parts": [_plain(inner) for inner in part["parts"]]} if part["parts"] else kept
