"""Scorers made of other scorers, and the breakdown of a score."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from math import fsum, inf, isinf, isnan
from typing import TYPE_CHECKING, Any, Final, Self

from cupel._internal.checks import as_instance, as_list, as_pair, as_tuple
from cupel._internal.columns import has_nan
from cupel.errors import ScorerConfigError
from cupel.model import ContextItem
from cupel.scorers._base import PassScorer, Scorer, positive

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_DEEPEST: Final = 200
"""The deepest nesting allowed, well below the interpreter's recursion limit."""


def refuse_cycles(root: Scorer) -> None:
    """Raise if a scorer contains itself or is nested too deeply; branches may share a scorer."""
    finished: set[int] = set()

    def visit(node: Scorer, path: tuple[int, ...]) -> None:
        for child in getattr(node, "children", ()):
            if id(child) in path:
                msg = f"{type(root).__name__}: cycle detected, {type(child).__name__} is contained in itself"
                raise ScorerConfigError(msg)
            if len(path) > _DEEPEST:
                msg = f"{type(root).__name__}: more than {_DEEPEST} scorers are nested in one another"
                raise ScorerConfigError(msg)
            if id(child) not in finished:
                visit(child, (*path, id(child)))
        finished.add(id(node))

    visit(root, (id(root),))


@dataclass(frozen=True, slots=True)
class CompositeScorer(PassScorer):
    """Scores by the weighted average of its children; weights are relative: 3 and 1 mean 75 % and 25 %.

    A child that abstains, such as optional relevance without a query, has no weight, unless all abstain.

    >>> from cupel import ContextItem, KindScorer, ReflexiveScorer
    >>> scorer = CompositeScorer([(ReflexiveScorer(), 3), (KindScorer(), 1)])
    >>> scorer.score(ContextItem("x", 1, kind="SystemPrompt", future_relevance_hint=0.2), [])
    0.4
    """

    entries: Sequence[tuple[Scorer, float]]
    normalized_weights: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pairs = as_list("entries", self.entries, "an iterable of (scorer, weight) pairs")
        entries = tuple(_checked_entry(position, entry) for position, entry in enumerate(pairs))
        if not entries:
            raise ScorerConfigError("entries must hold at least one (scorer, weight) pair, got none")
        active = tuple(entry for entry in entries if not entry[0].abstains) or entries
        total = 0.0
        for _, weight in active:
            total += weight
        if isinf(total):
            msg = f"entries: the weights {[weight for _, weight in entries]} add up to infinity; scale them down"
            raise ScorerConfigError(msg)
        object.__setattr__(self, "entries", entries)
        shares = (0.0 if one.abstains and active is not entries else weight / total for one, weight in entries)
        object.__setattr__(self, "normalized_weights", tuple(shares))
        refuse_cycles(self)

    @property
    def children(self) -> tuple[Scorer, ...]:
        """The scorers that are averaged, in order."""
        return tuple(scorer for scorer, _ in self.entries)

    def bind(self, query: str) -> CompositeScorer:
        """Return the scorer with its children bound to a query."""
        return CompositeScorer([(scorer.bind(query), weight) for scorer, weight in self.entries])

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        # One pass of each child, summed in the order of the entries (ruling 1.1).
        totals: list[float] = []
        for (scorer, _), weight in zip(self.entries, self.normalized_weights, strict=True):
            scores = scorer.checked_scores(items)
            if totals:
                totals = [total + score * weight for total, score in zip(totals, scores, strict=True)]
            else:
                totals = [0.0 + score * weight for score in scores]  # from zero: -0.0 becomes 0.0
        return totals


def _checked_entry(position: int, entry: Any) -> tuple[Scorer, float]:
    scorer, weight = as_pair(f"entries[{position}]", entry, "a (scorer, weight) pair")
    as_instance(f"entries[{position}]: the first of the pair", scorer, Scorer)
    return scorer, positive(weight, f"entries[{position}] weight")


NO_INFORMATION = 0.5
"""The score if the inner scorer gives all items the same score."""


@dataclass(frozen=True, slots=True)
class ScaledScorer(PassScorer):
    """Stretches another scorer's scores so that the lowest of a pass becomes 0 and the highest 1.

    If the inner scorer gives all items the same score, or the item is not among its peers, the score is 0.5.

    >>> from cupel import ContextItem, ReflexiveScorer
    >>> hints = (0.3, 0.4, 0.5)
    >>> ScaledScorer(ReflexiveScorer()).score_all([ContextItem("x", 1, future_relevance_hint=hint) for hint in hints])
    [0.0, 0.5000000000000001, 1.0]
    """

    inner: Scorer

    def __post_init__(self) -> None:
        as_instance("inner", self.inner, Scorer)
        refuse_cycles(self)

    @property
    def children(self) -> tuple[Scorer, ...]:
        """The inner scorer."""
        return (self.inner,)

    def bind(self, query: str) -> ScaledScorer:
        """Return the scorer with its inner scorer bound to a query."""
        return ScaledScorer(self.inner.bind(query))

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item among all scoreable items; 0.5 if it is not among them."""
        if not any(peer is item for peer in as_tuple("all_items", all_items, ContextItem)):
            return NO_INFORMATION  # ruling 4.11
        return super(ScaledScorer, self).score(item, all_items)

    score_all = PassScorer.score_all

    def _scores(self, items: Sequence[ContextItem]) -> list[float]:
        if not items:
            return []
        raw = self.inner.checked_scores(items)
        ordered = [score for score in raw if not isnan(score)] if has_nan(raw) else raw
        low, high = min(ordered, default=inf), max(ordered, default=-inf)
        if low == high:
            return [NO_INFORMATION] * len(raw)
        span = high - low
        return [(score - low) / span for score in raw]


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One scorer's score for an item, and its share of the total.

    >>> print(ScorePart("RecencyScorer", 0.9, weight=3.0, share=0.675))
    recency 0.9 × 3
    """

    scorer: str
    """The scorer's class."""
    score: float
    """Its own score for the item."""
    weight: float | None = None
    """Its weight in the enclosing composite, as given."""
    share: float | None = None
    """Its contribution to the composite's score."""
    parts: tuple[ScorePart, ...] = ()
    """The scorers inside it."""

    def __str__(self) -> str:
        times = "" if self.weight is None else f" × {self.weight:g}"
        return f"{_name(self.scorer)} {self.score:.4g}{_inside(self)}{times}"


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """The parts of an item's score, and its score per token.

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
        """Return the breakdowns of items at these positions; each scorer inside runs once."""
        scored = _Scored(scorer, items)
        return [cls(items[position], scored.part(position)) for position in positions]

    @property
    def score(self) -> float:
        """The item's score."""
        return self.part.score

    @property
    def density(self) -> float | None:
        """Score per token, the order of `GreedySlice`; None for an item without tokens."""
        return self.part.score / self.item.tokens if self.item.tokens else None

    def to_dict(self) -> dict[str, Any]:
        """Return the parts and the density as plain values."""
        return {"density": self.density, **_plain(asdict(self.part))}

    def __str__(self) -> str:
        parts = _sum(self.part)
        said = f"{self.score:.4g} = {parts}" if parts else str(self.part)
        return said if self.density is None else f"{said}; {self.density:.4g} a token"


class _Scored:
    """A scorer with its scores, and those of the scorers inside it."""

    __slots__ = ("_children", "_name", "_scores", "_weights")

    def __init__(self, scorer: Scorer, items: Sequence[ContextItem]) -> None:
        self._name = type(scorer).__name__
        self._scores = scorer.checked_scores([*items])
        children: Sequence[Scorer] = getattr(scorer, "children", ())
        self._weights: list[tuple[float | None, float]] = [(None, 0.0)] * len(children)
        if isinstance(scorer, CompositeScorer):
            pairs = zip(scorer.entries, scorer.normalized_weights, strict=True)
            active = [(child, (given, share)) for (child, given), share in pairs if share]  # without those that abstain
            children, self._weights = [child for child, _ in active], [weights for _, weights in active]
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
    """Format a composite as its weighted sum; other scorers give an empty string."""
    if not part.parts or part.parts[0].weight is None:
        return ""
    total = fsum(inner.weight or 0.0 for inner in part.parts)
    return f"({' + '.join(map(str, part.parts))}) / {total:g}"


def _inside(part: ScorePart) -> str:
    inside = _sum(part) or ", ".join(map(str, part.parts))
    return f" [{inside}]" if inside else ""


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    """Drop empty fields."""
    kept = {key: value for key, value in part.items() if value is not None and key != "parts"}
    return {**kept, "parts": [_plain(inner) for inner in part["parts"]]} if part["parts"] else kept
