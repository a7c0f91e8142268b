"""Measure how much of the needed items a pipeline keeps, with intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import as_function, as_instance, as_integer, as_tuple
from cupel.errors import ScorerConfigError, SelectionError
from cupel.evaluation._cases import Case, EvaluationError
from cupel.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cupel.model import ContextItem
    from cupel.pipeline import PreparedSelection


RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
_CHUNK: Final = 1_000_000
"""Draws that are held in memory at a time."""
_FEW: Final = 2
"""The smallest number of observations that can be resampled."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % confidence interval.

    >>> str(Estimate(0.5, 0.4, 0.62, 100))
    '0.500 (0.400 to 0.620)'
    """

    value: float
    low: float
    high: float
    count: int
    """The number of cases measured; with fewer than two, the interval is infinite."""

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def to_dict(self) -> dict[str, float | int | None]:
        """Return plain values for JSON; the ends of an infinite interval are None."""
        known = self.count >= _FEW
        return {
            "value": self.value,
            "low": self.low if known else None,
            "high": self.high if known else None,
            "count": self.count,
        }


def estimates(ratios: Sequence[tuple[Sequence[float], Sequence[float]]], *, seed: int) -> list[Estimate]:
    """Estimate ratios of sums, all from the same resamples of the cases, so that differences are paired.

    Intervals are bootstrap percentiles, widened as Student's distribution is wider than the normal: with few cases
    plain percentiles are too narrow.
    """
    import numpy as np

    if not ratios:
        return []
    tops: Any = np.array([top for top, _ in ratios], dtype=float)
    bottoms: Any = np.array([bottom for _, bottom in ratios], dtype=float)
    number = tops.shape[1]
    # NumPy guarantees the same raw bits in every version, but not the same draws.
    bits: Any = np.random.PCG64(seed)
    found: Any = np.full((RESAMPLES, len(ratios)), np.nan)
    rows = max(1, _CHUNK // max(number, 1))
    for start in range(0, RESAMPLES if number >= _FEW else 0, rows):
        part = found[start : start + rows]
        drawn = (bits.random_raw(len(part) * number) % np.uint64(number)).reshape(len(part), number).astype(np.int64)
        drawn += np.arange(len(part))[:, None] * number
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        below = times @ bottoms.T
        np.divide(times @ tops.T, below, out=part, where=below > 0)
    return [
        _estimate(fsum(top), fsum(bottom), found[:, index], sum(1 for part in bottom if part > 0))
        for index, (top, bottom) in enumerate(ratios)
    ]


def _estimate(top: float, bottom: float, resampled: Any, count: int) -> Estimate:
    import numpy as np

    value = top / bottom if bottom else 0.0
    drawn = resampled[~np.isnan(resampled)]
    if count < _FEW or not len(drawn):
        return Estimate(value, float("-inf"), float("inf"), count)
    outside = _tail(count)
    low, high = np.quantile(drawn, [outside, 1 - outside])
    return Estimate(value, min(float(low), value), max(float(high), value), count)


def _tail(count: int) -> float:
    """Return the share of resamples to leave out at each end."""
    normal = NormalDist()
    return normal.cdf(-sqrt(count / (count - 1)) * student_quantile(count - 1))


def student_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's distribution, to two digits or better.

    >>> [round(student_quantile(freedom), 2) for freedom in (3, 10, 100)]
    [3.18, 2.23, 1.98]
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    if freedom <= len(_SMALL):
        return _SMALL[freedom - 1]
    # The Cornish-Fisher expansion in powers of 1 / freedom.
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


_SMALL: Final = (12.706, 4.303, 3.182, 2.776)
"""The quantiles for 1 to 4 degrees of freedom, where the expansion is not accurate enough."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a policy on one case."""

    case: Case
    kept: tuple[int, ...]
    """The positions that are needed and were selected."""
    tokens: int
    """Tokens of the selection; 0 where there was none."""
    failure: str | None = None
    """Why there was no selection; such a case counts as having kept nothing."""

    @property
    def share(self) -> float:
        """The share of the needed items that was kept."""
        return len(self.kept) / len(self.case.needed)

    @property
    def whole(self) -> bool:
        """Whether everything needed was kept."""
        return len(self.kept) == len(self.case.needed)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The share of the needed items that a policy keeps, over all cases."""

    name: str
    kept: Estimate
    """The mean, over cases, of the share of the needed items that was kept."""
    whole: Estimate
    """The share of cases that kept everything needed."""
    tokens: Estimate
    """Tokens of a selection, on average."""
    by_kind: Mapping[str, Estimate]
    """The share of the needed items of each kind that was kept, over all cases together."""
    by_tag: Mapping[str, Estimate]
    """The same for each tag that a needed item has."""
    outcomes: tuple[Outcome, ...] = field(repr=False)
    """Case by case, in the order given."""

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The cases without a selection; they count as having kept nothing."""
        return tuple(outcome for outcome in self.outcomes if outcome.failure is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "policy": self.name,
            "cases": len(self.outcomes),
            "failures": [
                {"case": label(outcome.case, at), "failure": outcome.failure}
                for at, outcome in enumerate(self.outcomes)
                if outcome.failure is not None
            ],
            "kept": self.kept.to_dict(),
            "whole": self.whole.to_dict(),
            "tokens": self.tokens.to_dict(),
            "by_kind": {kind: estimate.to_dict() for kind, estimate in self.by_kind.items()},
            "by_tag": {tag: estimate.to_dict() for tag, estimate in self.by_tag.items()},
        }


def evaluate(
    policy: Pipeline,
    cases: Iterable[Case],
    *,
    name: str | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], object] | None = None,
) -> Evaluation:
    """Select for every case and measure how many of the needed items were kept.

    A duplicate that was kept in an item's place counts as the item. Intervals come from resampling the cases with
    `seed`; the same arguments give the same figures. `on_progress` is called with the number of cases done and in all.

    >>> from cupel import ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem("gate B12", 6, future_relevance_hint=1.0), ContextItem("lunch", 6)]
    >>> evaluation = evaluate(Pipeline(scorer=ReflexiveScorer()), [Case(items, 6, [0]), Case(items, 6, [0, 1])])
    >>> evaluation.kept.value, evaluation.whole.value, evaluation.by_kind["Message"].value
    (0.75, 0.5, 0.6666666666666666)
    """
    pipeline = Pipeline.of(policy)
    known = as_cases(cases)
    seed = as_integer("seed", seed, least=0, error=EvaluationError)
    if on_progress is not None:
        as_function("on_progress", on_progress)
    outcomes: list[Outcome] = []
    for at, prepared in enumerate(_prepared(pipeline, known)):
        outcomes.append(judge(known[at], prepared))
        if on_progress is not None:
            on_progress(at + 1, len(known))
    called = name or pipeline.name or "policy"
    return _summed(called, outcomes, seed)


def as_cases(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Return the cases; raise if there are none."""
    known = as_tuple("cases", cases, Case)
    if not known:
        raise EvaluationError("cases is empty; pass at least one case")
    return known


def label(case: Case, at: int) -> str:
    """Return the name of a case in messages."""
    return case.name if case.name is not None else str(at)


def _prepared(pipeline: Pipeline, cases: Sequence[Case]) -> Iterator[PreparedSelection]:
    """Prepare each case; consecutive cases with the same items are scored together."""
    last: tuple[Case, PreparedSelection] | None = None
    for at, case in enumerate(cases):
        try:
            if last is None or last[0].items is not case.items or case.query is None:
                prepared = pipeline.prepare(case.items, query=case.query)
            elif last[0].query == case.query:
                prepared = last[1]
            else:
                prepared = last[1].with_query(case.query)
        except ScorerConfigError as error:
            raise EvaluationError(f"case {label(case, at)}: {error}") from error
        last = (case, prepared)
        yield prepared


def judge(case: Case, prepared: PreparedSelection) -> Outcome:
    """Select for one case and compare the selection with the needed items."""
    try:
        selected = prepared.included(case.budget)
    except SelectionError as error:
        return Outcome(case, (), 0, str(error))
    tokens = sum(item.tokens for item in selected)
    return Outcome(case, kept_of(case, selected, content=prepared.pipeline.deduplicate), tokens)


def kept_of(case: Case, selected: Iterable[ContextItem], *, content: bool) -> tuple[int, ...]:
    """Return the needed positions that are selected: the object itself or, with `content`, one with the same text."""
    objects: set[int] = set()
    contents: set[str] = set()
    for item in selected:
        objects.add(id(item))
        if content:
            contents.add(item.content)
    items = case.items
    return tuple(at for at in case.needed if id(items[at]) in objects or items[at].content in contents)


def _summed(name: str, outcomes: Sequence[Outcome], seed: int) -> Evaluation:
    ones = [1.0] * len(outcomes)
    kinds = _counted(outcomes, lambda item: (item.kind.value,))
    tags = _counted(outcomes, lambda item: item.tags)
    found = estimates(
        [
            ([outcome.share for outcome in outcomes], ones),
            ([float(outcome.whole) for outcome in outcomes], ones),
            ([float(outcome.tokens) for outcome in outcomes], ones),
            *kinds.values(),
            *tags.values(),
        ],
        seed=seed,
    )
    kept, whole, tokens, *others = found
    by_kind = dict(zip(kinds, others[: len(kinds)], strict=True))
    by_tag = dict(zip(tags, others[len(kinds) :], strict=True))
    return Evaluation(name, kept, whole, tokens, by_kind, by_tag, tuple(outcomes))


def _counted(
    outcomes: Sequence[Outcome], names: Callable[[ContextItem], Iterable[str]]
) -> dict[str, tuple[list[float], list[float]]]:
    """Count, for each name, how many needed items of each case have it, and how many of these were kept."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for at, outcome in enumerate(outcomes):
        for position in outcome.case.needed:
            for name in names(outcome.case.items[position]):
                kept, needed = found.setdefault(name, ([0.0] * len(outcomes), [0.0] * len(outcomes)))
                needed[at] += 1
                kept[at] += position in outcome.kept
    return dict(sorted(found.items()))


def points_of(difference: Estimate) -> str:
    """Return the difference of two shares in points, with its interval.

    >>> points_of(Estimate(0.05, 0.01, 0.09, 100))
    '+5.0 points (+1.0 to +9.0)'
    """
    return f"{100 * difference.value:+.1f} points ({100 * difference.low:+.1f} to {100 * difference.high:+.1f})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The average differences between two policies on the same cases: the second minus the first."""

    first: str
    second: str
    kept: Estimate
    """Share of the needed items kept: the second's minus the first's."""
    whole: Estimate
    tokens: Estimate
    better: int
    """Cases where the second keeps more of the needed items."""
    worse: int
    equal: int

    @property
    def verdict(self) -> str:
        """The comparison in a sentence; a difference whose interval contains 0 may be chance."""
        points = points_of(self.kept)
        if self.kept.low > 0:
            return f"{self.second} keeps more than {self.first}: {points}"
        if self.kept.high < 0:
            return f"{self.second} keeps less than {self.first}: {points}"
        return f"{self.second} and {self.first} cannot be told apart by these cases: {points}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "first": self.first,
            "second": self.second,
            "kept": self.kept.to_dict(),
            "whole": self.whole.to_dict(),
            "tokens": self.tokens.to_dict(),
            "better": self.better,
            "worse": self.worse,
            "equal": self.equal,
            "verdict": self.verdict,
        }


def compare(first: Evaluation, second: Evaluation, *, seed: int = 0) -> Comparison:
    """Compare two evaluations of the same cases, pair by pair.

    Cases differ far more than policies do, so the interval of the paired difference is much narrower than the two
    separate intervals suggest.

    >>> from cupel import ContextItem, Pipeline, RecencyScorer, ReflexiveScorer
    >>> from cupel.evaluation import Case, evaluate
    >>> items = [ContextItem("gate B12", 6, future_relevance_hint=1.0), ContextItem("lunch", 6)]
    >>> cases = [Case(items, 6, [0]), Case(items, 6, [0, 1])]
    >>> newest = evaluate(Pipeline(scorer=RecencyScorer()), cases)
    >>> hinted = evaluate(Pipeline(scorer=ReflexiveScorer()), cases)
    >>> compare(newest, hinted).equal
    2
    """
    as_instance("first", first, Evaluation)
    as_instance("second", second, Evaluation)
    if len(first.outcomes) != len(second.outcomes) or any(
        a.case is not b.case for a, b in zip(first.outcomes, second.outcomes, strict=True)
    ):
        raise EvaluationError(
            "first and second are evaluations of different cases; evaluate both policies on the same list"
        )
    seed = as_integer("seed", seed, least=0, error=EvaluationError)
    pairs = list(zip(first.outcomes, second.outcomes, strict=True))
    kept = [b.share - a.share for a, b in pairs]
    whole = [float(b.whole) - float(a.whole) for a, b in pairs]
    tokens = [float(b.tokens) - float(a.tokens) for a, b in pairs]
    ones = [1.0] * len(pairs)
    shares, wholes, sizes = estimates([(kept, ones), (whole, ones), (tokens, ones)], seed=seed)
    better, worse = sum(difference > 0 for difference in kept), sum(difference < 0 for difference in kept)
    equal = len(kept) - better - worse
    return Comparison(first.name, second.name, shares, wholes, sizes, better, worse, equal)
