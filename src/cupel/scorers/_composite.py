"""A weighted average of other scorers."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isinf
from typing import TYPE_CHECKING, Any

from cupel._checks import as_list, as_pair, wrong_type
from cupel.errors import ScorerConfigError
from cupel.scorers._base import PassScorer, Scorer
from cupel.scorers._graph import refuse_cycles
from cupel.scorers._weights import positive

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.model import ContextItem


@dataclass(frozen=True, slots=True)
class CompositeScorer(PassScorer):
    """Scores by the weighted average of its children; weights are relative, 3 and 1 mean 75 % and 25 %.

    A child that abstains, such as optional relevance without a query, has no weight, unless all do.

    >>> from cupel import ContextItem, KindScorer, ReflexiveScorer
    >>> scorer = CompositeScorer([(ReflexiveScorer(), 3), (KindScorer(), 1)])
    >>> scorer.score(ContextItem("x", 1, kind="SystemPrompt", future_relevance_hint=0.2), [])
    0.4
    """

    entries: tuple[tuple[Scorer, float], ...]
    normalized_weights: tuple[float, ...] = field(init=False, repr=False, compare=False)

    if TYPE_CHECKING:

        def __init__(self, entries: Iterable[tuple[Scorer, float]]) -> None: ...

    def __post_init__(self) -> None:
        pairs = as_list("entries", self.entries, "an iterable of (scorer, weight) pairs")
        entries = tuple(_checked_entry(position, entry) for position, entry in enumerate(pairs))
        if not entries:
            msg = "entries must hold at least one (scorer, weight) pair, got none"
            raise ScorerConfigError(msg)
        heard = tuple(entry for entry in entries if not entry[0].abstains) or entries
        total = 0.0
        for _, weight in heard:
            total += weight
        if isinf(total):
            msg = f"entries: the weights {[weight for _, weight in entries]} add up to infinity; scale them down"
            raise ScorerConfigError(msg)
        object.__setattr__(self, "entries", entries)
        shares = (0.0 if one.abstains and heard is not entries else weight / total for one, weight in entries)
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
    if not isinstance(scorer, Scorer):
        raise wrong_type(f"entries[{position}]: the first of the pair", "a Scorer", scorer)
    return scorer, positive(weight, f"entries[{position}] weight")
