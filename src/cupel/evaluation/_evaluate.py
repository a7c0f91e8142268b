"""How much of what is needed a policy keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cupel._checks import as_function, as_integer, as_tuple
from cupel._policies import as_pipeline
from cupel.errors import ScorerConfigError, SelectionError
from cupel.evaluation._case import Case
from cupel.evaluation._errors import EvaluationError
from cupel.evaluation._intervals import Estimate, estimates
from cupel.pipeline import Pipeline
from cupel.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cupel.model import ContextItem
    from cupel.pipeline import PreparedSelection


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy made of one case."""

    case: Case
    kept: tuple[int, ...]
    """The positions that are needed and were selected."""
    tokens: int
    """Tokens of the selection; 0 where there was none."""
    failure: str | None = None
    """Why there was no selection; then nothing that is needed was kept."""

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
    """What a policy keeps of what is needed, over all cases."""

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
    policy: Policy | Pipeline,
    cases: Iterable[Case],
    *,
    name: str | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], object] | None = None,
) -> Evaluation:
    """Select for every case and say how much of what is needed was kept.

    A duplicate that was kept in an item's place counts as the item. Intervals come from resampling the cases with
    `seed`; the same arguments give the same figures. `on_progress` is told how many cases of how many are done.

    >>> from cupel import ContextItem, Policy, ReflexiveScorer
    >>> items = [ContextItem("gate B12", 6, future_relevance_hint=1.0), ContextItem("lunch", 6)]
    >>> evaluation = evaluate(Policy(ReflexiveScorer()), [Case(items, 6, [0]), Case(items, 6, [0, 1])])
    >>> evaluation.kept.value, evaluation.whole.value, evaluation.by_kind["Message"].value
    (0.75, 0.5, 0.6666666666666666)
    """
    pipeline = as_pipeline(policy)
    known = as_cases(cases)
    seed = as_integer("seed", seed, least=0, error=EvaluationError)
    if on_progress is not None:
        as_function("on_progress", on_progress)
    outcomes: list[Outcome] = []
    for at, prepared in enumerate(_prepared(pipeline, known)):
        outcomes.append(judge(known[at], prepared))
        if on_progress is not None:
            on_progress(at + 1, len(known))
    called = name or (policy.name if isinstance(policy, Policy) else None) or "policy"
    return _summed(called, outcomes, seed)


def as_cases(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Return the cases, of which there must be one."""
    known = as_tuple("cases", cases, Case)
    if not known:
        raise EvaluationError("cases is empty: there is nothing to measure")
    return known


def label(case: Case, at: int) -> str:
    """Return what messages call a case."""
    return case.name if case.name is not None else str(at)


def _prepared(pipeline: Pipeline, cases: Sequence[Case]) -> Iterator[PreparedSelection]:
    """Prepare case by case; neighbours that share items, or a query too, share the work."""
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
    """Select for one case and compare with what is needed."""
    try:
        selected = prepared.included(case.budget)
    except SelectionError as error:
        return Outcome(case, (), 0, str(error))
    tokens = sum(item.tokens for item in selected)
    return Outcome(case, kept_of(case, selected, content=prepared.pipeline.deduplicate), tokens)


def kept_of(case: Case, selected: Iterable[ContextItem], *, content: bool) -> tuple[int, ...]:
    """Return the needed positions that are selected: the object itself or, with `content`, one that says the same."""
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
