"""Search for better settings, judged on cases that had no part in the choice."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from math import fsum
from random import Random
from typing import TYPE_CHECKING, Any, Final

import cupel.policy
from cupel._internal.checks import as_function, as_integer
from cupel.errors import ScorerConfigError
from cupel.evaluation._cases import EvaluationError
from cupel.evaluation._evaluate import as_cases, estimates, judge, label, points_of
from cupel.pipeline import Pipeline
from cupel.scorers import CompositeScorer, RelevanceScorer, ScaledScorer, Scorer
from cupel.slicers import BestFirstSlice, GreedySlice, KnapsackSlice, Slicer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cupel.evaluation._cases import Case
    from cupel.evaluation._evaluate import Estimate
    from cupel.pipeline import PreparedSelection


_NEIGHBOURS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_WIDEST: Final = 16.0
"""A weight changes by at most this factor."""
_DROPPED: Final = 0.2
"""How often a part of a composite is left out."""
_PATIENCE: Final = 20
"""Stop after this many draws in a row without a new variant."""


def variants(policy: Pipeline, trials: int, random: Random) -> list[Pipeline]:
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
    """Return the alternatives to a slicer; quotas and counts stay as the user set them, around other inner slicers."""
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


@dataclass(frozen=True, slots=True)
class Point:
    """The shares that the best of the first `tried` candidates keeps: on the cases it was chosen on, and on others."""

    tried: int
    seen: float
    unseen: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of a search, measured on folds that had no part in the choice."""

    policy: Pipeline
    """The best candidate if the gain is beyond chance, else the policy that was given."""
    gained: bool
    before: Estimate
    """The share that the given policy keeps."""
    unseen: Estimate
    """The share that the policies chosen on the other folds keep."""
    gain: Estimate
    """The difference of the two, case by case."""
    curve: tuple[Point, ...] = field(repr=False)
    """The figures as more candidates were tried; if `unseen` stays below `seen`, the search fits noise."""
    cases: int
    groups: int
    folds: int
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        points = f"{points_of(self.gain)} on unseen cases"
        if self.gained:
            return f"a gain of {points}: {self.before.value:.3f} before, {self.unseen.value:.3f} after"
        return f"no gain beyond chance: {points}; the policy stays as it is"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "gained": self.gained,
            "verdict": self.verdict,
            "before": self.before.to_dict(),
            "unseen": self.unseen.to_dict(),
            "gain": self.gain.to_dict(),
            "cases": self.cases,
            "groups": self.groups,
            "folds": self.folds,
            "notes": list(self.notes),
            "curve": [asdict(point) for point in self.curve],
            "policy": cupel.policy.to_dict(self.policy),
        }


LEAST_CASES: Final = 20
_ENOUGH_CASES: Final = 100
_LEAST_GROUPS: Final = 2


def tune(
    policy: Pipeline,
    cases: Iterable[Case],
    *,
    trials: int = 60,
    folds: int = 5,
    seed: int = 0,
    on_progress: Callable[[int, int], object] | None = None,
) -> Tuning:
    """Search for weights, neighbours of relevance and a slicer that keep more of the needed items.

    The search draws `trials` candidates by `seed`, the policy itself among them. For each of the `folds`, which keep
    groups of cases together, the best candidate on the other folds is chosen and read on this one. Only if the
    interval of the gain on these unseen cases lies above 0 is the best candidate over all cases returned.

    >>> from cupel import CompositeScorer, ContextItem, PriorityScorer, ReflexiveScorer
    >>> from cupel.evaluation import Case
    >>> def case(number):
    ...     hints = (at % 4 / 3 for at in range(40))  # worth something here, while priorities are not
    ...     items = [ContextItem(f"{at}", 10, priority=at, future_relevance_hint=hint) for at, hint in enumerate(hints)]
    ...     return Case(items, 100, range(3, 40, 4))
    >>> start = Pipeline(scorer=CompositeScorer([(PriorityScorer(), 5), (ReflexiveScorer(), 1)]))
    >>> tuning = tune(start, map(case, range(20)))
    >>> tuning.gained, tuning.before.value, tuning.unseen.value
    (True, 0.4, 1.0)
    """
    Pipeline.of(policy)
    trials = as_integer("trials", trials, least=2, error=EvaluationError)
    folds = as_integer("folds", folds, least=2, error=EvaluationError)
    if on_progress is not None:
        as_function("on_progress", on_progress)
    known = as_cases(cases)
    groups = _groups(known)
    if len(known) < LEAST_CASES or len(groups) < _LEAST_GROUPS:
        raise EvaluationError(
            f"too few cases to tune: {len(known)} in {len(groups)} group{'s' if len(groups) != 1 else ''}, "
            f"but at least {LEAST_CASES} in {_LEAST_GROUPS} are needed to tell a gain from chance"
        )
    random = Random(as_integer("seed", seed, least=0, error=EvaluationError))  # noqa: S311  (draws that anybody can repeat)
    candidates = variants(policy, trials, random)
    kept = _kept(candidates, known, on_progress)
    parts = _folds(groups, folds, random)
    return _judged(candidates, kept, parts, known, groups=len(groups), seed=seed)


def _groups(cases: Sequence[Case]) -> list[list[int]]:
    """Return the cases, by position, of each group."""
    found: dict[object, list[int]] = {}
    for at, case in enumerate(cases):
        found.setdefault(id(case.items) if case.group is None else case.group, []).append(at)
    return list(found.values())


def _folds(groups: list[list[int]], folds: int, random: Random) -> list[list[int]]:
    """Deal the groups out, large ones first, each to the fold that has the fewest cases."""
    shuffled = random.sample(groups, len(groups))
    parts: list[list[int]] = [[] for _ in range(min(folds, len(groups)))]
    for group in sorted(shuffled, key=len, reverse=True):
        min(parts, key=len).extend(group)
    return [sorted(part) for part in parts]


def _kept(
    candidates: Sequence[Pipeline], cases: Sequence[Case], on_progress: Callable[[int, int], object] | None
) -> list[list[float]]:
    """Return the share that each candidate keeps of each case."""
    kept: list[list[float]] = [[] for _ in candidates]
    for at, case in enumerate(cases):
        prepared: dict[int, PreparedSelection] = {}
        for number, candidate in enumerate(candidates):
            selection = prepared.get(id(candidate.scorer))
            try:
                if selection is None:
                    selection = prepared[id(candidate.scorer)] = candidate.prepare(case.items, query=case.query)
                else:
                    selection = selection.with_pipeline(replace(candidate, scorer=selection.pipeline.scorer))
            except ScorerConfigError as error:
                raise EvaluationError(f"case {label(case, at)}: {error}") from error
            kept[number].append(judge(case, selection).share)
        if on_progress is not None:
            on_progress(at + 1, len(cases))
    return kept


def _judged(
    candidates: Sequence[Pipeline],
    kept: Sequence[Sequence[float]],
    parts: Sequence[Sequence[int]],
    cases: Sequence[Case],
    *,
    groups: int,
    seed: int,
) -> Tuning:
    """Choose on all folds but one, and measure the choice on that one."""
    everywhere = range(len(cases))
    best = _leaders(kept, everywhere)
    chosen = [_leaders(kept, sorted(set(everywhere).difference(part))) for part in parts]
    curve: list[Point] = []
    unseen = [0.0] * len(cases)
    for tried in range(len(candidates)):
        for part, leaders in zip(parts, chosen, strict=True):
            for at in part:
                unseen[at] = kept[leaders[tried]][at]
        curve.append(Point(tried + 1, fsum(kept[best[tried]]) / len(cases), fsum(unseen) / len(cases)))
    gains = [after - before for after, before in zip(unseen, kept[0], strict=True)]
    ones = [1.0] * len(cases)
    before, after, gain = estimates([(kept[0], ones), (unseen, ones), (gains, ones)], seed=seed)
    gained = best[-1] != 0 and gain.low > 0
    return Tuning(
        policy=_named(candidates[best[-1]], candidates[0], len(cases), before, after) if gained else candidates[0],
        gained=gained,
        before=before,
        unseen=after,
        gain=gain,
        curve=tuple(curve),
        cases=len(cases),
        groups=groups,
        folds=len(parts),
        notes=tuple(_notes(candidates, cases)),
    )


def _leaders(kept: Sequence[Sequence[float]], cases: Sequence[int]) -> list[int]:
    """Return, for each number of candidates tried, which of them keeps most; the first of equals, so the start."""
    totals = [fsum(shares[at] for at in cases) for shares in kept]
    leaders = [0]
    for number in range(1, len(totals)):
        leaders.append(number if totals[number] > totals[leaders[-1]] else leaders[-1])
    return leaders


def _named(policy: Pipeline, start: Pipeline, cases: int, before: Estimate, after: Estimate) -> Pipeline:
    called = start.name or "policy"
    return replace(
        policy,
        name=f"{called}-tuned",
        description=f"{called}, tuned on {cases} cases: keeps {after.value:.3f} of what is needed on cases that had no "
        f"part in the choice, {before.value:.3f} before.",
    )


def _notes(candidates: Sequence[Pipeline], cases: Sequence[Case]) -> Iterable[str]:
    if len(cases) < _ENOUGH_CASES:
        yield f"with {len(cases)} cases only large gains can be told from chance; {_ENOUGH_CASES} or more are better"
    if len(candidates) == 1:
        yield "nothing can be varied: the policy has one scorer without settings to search, and its slicer stays"
    asks = candidates[0].bind("query") != candidates[0]
    if not asks and any(case.query for case in cases):
        yield "the cases have queries, but no scorer of the policy reads them; start from one with a RelevanceScorer"
