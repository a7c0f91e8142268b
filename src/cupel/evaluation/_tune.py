"""Better settings for a policy, judged where they were not chosen."""

from __future__ import annotations

from dataclasses import replace
from math import fsum
from random import Random
from typing import TYPE_CHECKING, Final

from cupel._checks import as_function, as_instance, as_integer
from cupel.errors import ScorerConfigError
from cupel.evaluation._errors import EvaluationError
from cupel.evaluation._evaluate import as_cases, judge, label
from cupel.evaluation._intervals import estimates, mean_and_error
from cupel.evaluation._tuning import ERRORS, Point, Tuning
from cupel.evaluation._variants import leaves, remembering, variants
from cupel.policy import Policy
from cupel.scorers import Scorer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cupel.evaluation._case import Case
    from cupel.evaluation._intervals import Estimate
    from cupel.pipeline import PreparedSelection

LEAST_CASES: Final = 20
_ENOUGH_CASES: Final = 100
_LEAST_GROUPS: Final = 2


def tune(
    policy: Policy,
    cases: Iterable[Case],
    *,
    trials: int = 60,
    folds: int = 5,
    seed: int = 0,
    on_progress: Callable[[int, int], object] | None = None,
) -> Tuning:
    """Search for weights, neighbours of relevance and a slicer that keep more of what is needed.

    The search draws `trials` candidates by `seed`, the policy itself among them. For each of the `folds`, which keep
    groups of cases together, the best candidate on the other folds is chosen and read on this one. Only if the gain on
    these unseen cases exceeds two standard errors is the best candidate over all cases returned.

    >>> from cupel import CompositeScorer, ContextItem, PriorityScorer, ReflexiveScorer
    >>> from cupel.evaluation import Case
    >>> def case(number):
    ...     hints = (at % 4 / 3 for at in range(40))  # worth something here, while priorities are not
    ...     items = [ContextItem(f"{at}", 10, priority=at, future_relevance_hint=hint) for at, hint in enumerate(hints)]
    ...     return Case(items, 100, range(3, 40, 4))
    >>> start = Policy(CompositeScorer([(PriorityScorer(), 5), (ReflexiveScorer(), 1)]))
    >>> tuning = tune(start, map(case, range(20)))
    >>> tuning.gained, tuning.before.value, tuning.unseen.value
    (True, 0.4, 1.0)
    """
    as_instance("policy", policy, Policy)
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
    candidates: Sequence[Policy], cases: Sequence[Case], on_progress: Callable[[int, int], object] | None
) -> list[list[float]]:
    """Return the share that each candidate keeps of each case."""
    kept: list[list[float]] = [[] for _ in candidates]
    for at, case in enumerate(cases):
        memo: dict[int, list[float]] = {}
        prepared: dict[int, PreparedSelection] = {}
        for number, candidate in enumerate(candidates):
            selection = prepared.get(id(candidate.scorer))
            try:
                if selection is None:
                    scorer: Scorer = remembering(candidate.scorer, case.query, memo)
                    selection = replace(candidate, scorer=scorer).pipeline().prepare(case.items)
                    prepared[id(candidate.scorer)] = selection
                else:
                    pipeline = replace(candidate, scorer=selection.pipeline.scorer).pipeline()
                    selection = selection.with_pipeline(pipeline)
            except ScorerConfigError as error:
                raise EvaluationError(f"case {label(case, at)}: {error}") from error
            kept[number].append(judge(case, selection).share)
        if on_progress is not None:
            on_progress(at + 1, len(cases))
    return kept


def _judged(
    candidates: Sequence[Policy],
    kept: Sequence[Sequence[float]],
    parts: Sequence[Sequence[int]],
    cases: Sequence[Case],
    *,
    groups: int,
    seed: int,
) -> Tuning:
    """Choose on all folds but one, and read what the choice keeps on that one."""
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
    gain, error = mean_and_error(gains)
    gained = best[-1] != 0 and gain > ERRORS * error
    ones = [1.0] * len(cases)
    before, after, difference = estimates([(kept[0], ones), (unseen, ones), (gains, ones)], seed=seed)
    return Tuning(
        policy=_named(candidates[best[-1]], candidates[0], len(cases), before, after) if gained else candidates[0],
        gained=gained,
        before=before,
        unseen=after,
        gain=difference,
        error=error,
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


def _named(policy: Policy, start: Policy, cases: int, before: Estimate, after: Estimate) -> Policy:
    called = start.name or "policy"
    return replace(
        policy,
        name=f"{called}-tuned",
        description=f"{called}, tuned on {cases} cases: keeps {after.value:.3f} of what is needed on cases that had no "
        f"part in the choice, {before.value:.3f} before.",
    )


def _notes(candidates: Sequence[Policy], cases: Sequence[Case]) -> Iterable[str]:
    if len(cases) < _ENOUGH_CASES:
        yield f"with {len(cases)} cases only large gains can be told from chance; {_ENOUGH_CASES} or more are better"
    if len(candidates) == 1:
        yield "nothing can be varied: the policy has one scorer without settings to search, and its slicer stays"
    asks = any(type(leaf).bind is not Scorer.bind for leaf in leaves(candidates[0].scorer))
    if not asks and any(case.query for case in cases):
        yield "the cases have queries, but no scorer of the policy reads them; start from one with a RelevanceScorer"
