"""Other policies like a given one: what `tune` chooses from."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from cupel.scorers import CompositeScorer, RelevanceScorer, ScaledScorer, Scorer
from cupel.slicers import BestFirstSlice, GreedySlice, KnapsackSlice, Slicer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from cupel.policy import Policy

_NEIGHBOURS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_WIDEST: Final = 16.0
"""A weight changes by at most this factor."""
_DROPPED: Final = 0.2
"""How often a part of a composite is left out."""
_PATIENCE: Final = 20
"""So many draws without anything new mean that there is nothing new."""


def variants(policy: Policy, trials: int, random: Random) -> list[Policy]:
    """Return the policy itself, its scorer with other slicers, then draws, `trials` in all unless there are fewer."""
    slicers = _slicers(policy.slicer)
    found = [policy, *(replace(policy, slicer=slicer) for slicer in slicers if slicer != policy.slicer)][:trials]
    made: dict[Scorer, Scorer] = {}
    idle = 0
    while len(found) < trials and idle < _PATIENCE:
        scorer = _varied(policy.scorer, random, made)
        drawn = replace(policy, scorer=scorer, slicer=random.choice(slicers))
        if drawn in found:
            idle += 1
        else:
            idle = 0
            found.append(drawn)
    return found


def _slicers(slicer: Slicer) -> list[Slicer]:
    """Return what may stand in for a slicer; quotas and counts are the user's wishes and stay, around other slicers."""
    if isinstance(slicer, (GreedySlice, BestFirstSlice, KnapsackSlice)):
        others: list[Slicer] = [GreedySlice(), BestFirstSlice()]
        return [slicer, *(other for other in others if other != slicer)]
    subject: Any = slicer
    if isinstance(getattr(subject, "inner", None), Slicer) and "inner" in {field.name for field in fields(subject)}:
        return [slicer, *(replace(subject, inner=inner) for inner in _slicers(subject.inner)[1:])]
    return [slicer]


def _varied(scorer: Scorer, random: Random, made: dict[Scorer, Scorer]) -> Scorer:
    if isinstance(scorer, CompositeScorer):
        kept = [entry for entry in scorer.entries if random.random() >= _DROPPED] or [random.choice(scorer.entries)]
        drawn = [(_varied(child, random, made), _changed(weight, random)) for child, weight in kept]
        return drawn[0][0] if len(drawn) == 1 else CompositeScorer(drawn)
    if isinstance(scorer, ScaledScorer):
        return ScaledScorer(_varied(scorer.inner, random, made))
    if isinstance(scorer, RelevanceScorer):
        changed = replace(scorer, neighbours=random.choice(_NEIGHBOURS))
        # One object for each setting, so that its index of the pool's words is built once.
        return made.setdefault(changed, changed)
    return scorer


def _changed(weight: float, random: Random) -> float:
    """Return a weight up to `_WIDEST` times as large or small, in three digits that a file shows well."""
    return float(f"{weight * _WIDEST ** random.uniform(-1, 1):.3g}")


def leaves(scorer: Scorer) -> Iterator[Scorer]:
    """Yield the scorers that a scorer is made of."""
    if isinstance(scorer, CompositeScorer):
        for child in scorer.children:
            yield from leaves(child)
    elif isinstance(scorer, ScaledScorer):
        yield from leaves(scorer.inner)
    else:
        yield scorer


def remembering(scorer: Scorer, query: str | None, memo: dict[int, list[float]]) -> Scorer:
    """Return a scorer of the same scores for one query and one pool, that asks each part of it only once."""
    if isinstance(scorer, CompositeScorer):
        return CompositeScorer([(remembering(child, query, memo), weight) for child, weight in scorer.entries])
    if isinstance(scorer, ScaledScorer):
        return ScaledScorer(remembering(scorer.inner, query, memo))
    return _Remembered(scorer, query, memo)


class _Remembered(Scorer):
    """A scorer whose scores of one pool are kept."""

    def __init__(self, leaf: Scorer, query: str | None, memo: dict[int, list[float]]) -> None:
        self._leaf = leaf
        self._query = query
        self._memo = memo

    @property
    def abstains(self) -> bool:
        """Whether the scorer has nothing to say without a query, and there is none."""
        return self._query is None and self._leaf.abstains

    def score(self, item: Any, all_items: Any) -> float:
        """Score one item."""
        bound = self._leaf if self._query is None else self._leaf.bind(self._query)
        return bound.score(item, all_items)

    def score_all(self, items: Any) -> list[float]:
        """Score every item, or repeat what was said of them."""
        scores = self._memo.get(id(self._leaf))
        if scores is None:
            bound = self._leaf if self._query is None else self._leaf.bind(self._query)
            scores = self._memo[id(self._leaf)] = bound.score_all(items)
        return scores
