"""How good a selection is, against a bound that no selection can beat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cupel.analytics._arguments import check
from cupel.diagnostics import Deduplicated, InclusionReason, NegativeTokens
from cupel.pipeline._slice import effective_budget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel.diagnostics import SelectionReport
    from cupel.model import ContextBudget


@dataclass(frozen=True, slots=True)
class OptimalityGap:
    """A certificate: no choice of at most `capacity_tokens` tokens has a total score above `upper_bound`."""

    selected_score: float
    """Total score of what was selected, pinned items left out."""
    upper_bound: float
    """The best total that would be possible if the last item could be cut to fit."""
    capacity_tokens: int
    """The tokens open to unpinned items: the effective target, or what was used if that is more."""
    gap: float
    """How far the selection may be below the best one; never negative. Zero proves that it is the best."""
    ratio: float
    """Selected score over bound, between 0 and 1; 1 when the gap is zero."""


def optimality_gap(report: SelectionReport, budget: ContextBudget) -> OptimalityGap:
    """Compare a selection with the fractional (Dantzig) bound on its candidates.

    Candidates are the items the slicer could have chosen: pinned, negative and deduplicated items are not among them.
    Items with a score of zero, below zero or NaN never raise the bound; items without tokens raise it for free. Quotas
    and requirements are ignored by the bound, so the gap includes what they cost. `budget` must be the report's own.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem("a", 60, future_relevance_hint=0.9), ContextItem("b", 60, future_relevance_hint=0.8)]
    >>> budget = ContextBudget(90, 90)
    >>> found = optimality_gap(Pipeline(scorer=ReflexiveScorer()).dry_run(items, budget), budget)
    >>> round(found.upper_bound, 3), round(found.gap, 3)  # a whole, and half of b
    (1.3, 0.4)
    """
    check(report=report, budget=budget)
    pinned_tokens = sum(e.item.tokens for e in report.included if e.reason is InclusionReason.PINNED)
    chosen = [e for e in report.included if e.reason is not InclusionReason.PINNED]
    passed = [e for e in report.excluded if not isinstance(e.reason, (Deduplicated, NegativeTokens))]
    target = effective_budget(budget, pinned_tokens).target_tokens
    capacity = max(target, sum(e.item.tokens for e in chosen))
    values = [(_worth(e.score), e.item.tokens) for e in chosen]
    values += [(_worth(e.score), e.item.tokens) for e in passed]
    bound = _fractional_bound(values, capacity) if target > 0 else 0.0
    return _compare(_total(_number(e.score) for e in chosen), bound, capacity)


def _fractional_bound(values: list[tuple[float, int]], capacity: int) -> float:
    """Fill the capacity in order of density and cut the first item that does not fit."""
    gains = [worth for worth, tokens in values if tokens == 0]
    remaining = capacity
    for worth, tokens in sorted((pair for pair in values if pair[1]), key=lambda pair: pair[0] / pair[1], reverse=True):
        if tokens >= remaining:
            gains.append(worth * (remaining / tokens))
            break
        gains.append(worth)
        remaining -= tokens
    return _total(gains)


def _compare(selected: float, bound: float, capacity: int) -> OptimalityGap:
    bound = max(bound, selected)  # the last bit of a float must not turn the certificate against itself
    gap = 0.0 if bound == selected else bound - selected
    ratio = 1.0 if gap == 0.0 else max(0.0, selected / bound) if 0.0 < bound < math.inf else 0.0
    return OptimalityGap(selected, bound, capacity, gap, ratio)


def _worth(score: float) -> float:
    return max(0.0, score)  # in this order NaN gives 0.0 as well


def _number(score: float) -> float:
    return 0.0 if math.isnan(score) else score


def _total(values: Iterable[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # sums beyond the floats, or inf and -inf together
        return math.inf
