"""The laws of strategies, and the search for a case that breaks one."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from math import isnan
from operator import is_
from struct import pack
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, Unsatisfiable, UnsatisfiedAssumption

from cupel._internal.columns import Candidates
from cupel.errors import SelectionError, StrategyContractError
from cupel.model import GROUP_KEY, ID_KEY, ContextBudget, ScoredItem
from cupel.placers import Placer
from cupel.slicers import Slicer, enforce_relations
from cupel.testing import strategies
from cupel.testing._assertions import ContractViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from cupel.model import ContextItem
    from cupel.scorers import Scorer
    from cupel.slicers import Chooser

__tracebackhide__ = True  # pytest leaves these frames out of a failure
_LONGEST_REPR: Final = 200
_FAR: Final = 1000
_NO_BUDGET: Final = ContextBudget(1, 1)
"""The budget of scorers and placers, which see none."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LawCase:
    """One input of a strategy, and another one to try in between."""

    name: str
    """The name of the list: `items` for scorers, `scored` for slicers and placers."""
    given: list[Any]
    others: list[Any]
    budget: ContextBudget = _NO_BUDGET
    other_budget: ContextBudget = _NO_BUDGET

    @property
    def matters(self) -> bool:
        """Whether there is anything to decide."""
        return bool(self.given) and self.budget.target_tokens > 0

    def __str__(self) -> str:
        listing = _listed(self.name, self.given)
        return listing if self.budget is _NO_BUDGET else f"{listing}\nbudget = {self.budget!r}"


def scorer_cases(items: SearchStrategy[ContextItem] | None) -> SearchStrategy[LawCase]:
    """Draw the input of a scorer; the pipeline scores neither pinned items nor negative counts."""
    scoreable = items if items is not None else strategies.items(pinned=st.just(value=False))
    lists, others = (strategies.item_lists(scoreable, max_size=most) for most in (8, 3))
    return st.builds(LawCase, st.just("items"), lists, others)


def check_scorer_case(scorer: Scorer, case: LawCase, *, allow_nan: bool, unit_interval: bool) -> None:
    """Raise if a scorer breaks a law."""
    scores = _scores_one_by_one(scorer, case)
    _scores_without_memory(scorer, case, scores)
    for position, score in enumerate(scores):
        if isnan(score) and not allow_nan:
            raise _violation(scorer, "a score is a number", case, f"items[{position}] scores NaN")
        if unit_interval and not 0.0 <= score <= 1.0:
            raise _violation(scorer, "a score lies between 0 and 1", case, f"items[{position}] scores {score!r}")


def _scores_one_by_one(scorer: Scorer, case: LawCase) -> list[float]:
    with _unchanged(scorer, case) as given:
        scores = _score_all(scorer, case, given)
        for position, item in enumerate(case.given):
            one = _attempt(scorer, case, lambda item=item: float(scorer.score(item, given)))  # type: ignore[misc]
            if _bits([one]) != _bits([scores[position]]):
                found = f"for items[{position}] score gives {one!r} and score_all {scores[position]!r}"
                raise _violation(scorer, "score_all gives exactly what score gives", case, found)
    return scores


def _scores_without_memory(scorer: Scorer, case: LawCase, scores: list[float]) -> None:
    """Score the same items again, others in between, all in one list: no cache may depend on a list's identity."""
    other = replace(case, given=case.others)
    reused = list(case.others)
    fresh = _score_all(scorer, other, reused)

    def agree(asked: LawCase, expected: list[float], when: str, items: list[ContextItem]) -> None:
        repeated = _score_all(scorer, asked, items)
        if _bits(repeated) != _bits(expected):
            found = f"scores: {expected!r}\nscores {when}: {repeated!r}"
            raise _violation(scorer, "the same items always get the same scores", asked, found)

    reused[:] = case.given
    agree(case, scores, "again", reused)
    reused[:] = case.others
    agree(other, fresh, "in a list that held other items", reused)
    reused[:] = case.given
    agree(case, scores, "after other items", reused)
    agree(case, scores, "for equal copies", _copied(case.given))


def _score_all(scorer: Scorer, case: LawCase, items: list[ContextItem]) -> list[float]:
    return _attempt(scorer, case, lambda: scorer.checked_scores(items) if items else [])


def _bits(scores: list[float]) -> list[bytes]:
    return [pack("<d", score) for score in scores]


@st.composite
def slicer_cases(draw: DrawFn, items: SearchStrategy[ContextItem] | None, *, non_finite_scores: bool) -> LawCase:
    """Draw the input of a slicer and two budgets."""
    scores = strategies.scores(non_finite=non_finite_scores)
    scored = draw(strategies.scored_lists(items, scores=scores, max_size=8))
    total = sum(entry.item.tokens for entry in scored)
    # A target with some room above it, which a slicer should not use.
    budgets = st.tuples(st.integers(0, total + 1), st.integers(0, 20)).map(
        lambda drawn: ContextBudget(drawn[0] + drawn[1], drawn[0])
    )
    return LawCase("scored", scored, [], draw(budgets), draw(budgets))


@st.composite
def related_cases(draw: DrawFn) -> LawCase:
    """Draw the input of a slicer with forms and groups, and two budgets."""
    related = draw(strategies.related_lists())
    scored = sorted(
        (ScoredItem(item, item.future_relevance_hint or 0.0) for item in related), key=lambda one: -one.score
    )
    budgets = st.integers(0, sum(item.tokens for item in related)).map(lambda target: ContextBudget(target, target))
    return LawCase("scored", scored, [], draw(budgets), draw(budgets))


def check_slicer_case(slicer: Slicer, case: LawCase, *, may_exceed_target: bool) -> None:
    """Raise if a slicer breaks a law."""

    def answer(scored: list[ScoredItem], budget: ContextBudget | None = None) -> list[ContextItem]:
        returned = _attempt(slicer, case, lambda: slicer.slice(scored, budget or case.budget))
        return _as_items(slicer, case, "slice", returned)

    chosen = _selects_given_items(slicer, case, answer)
    if not may_exceed_target:
        _stays_within_the_target(slicer, case, chosen)
    law = "the same case always gives the same selection"
    reused = _repeats_itself(
        slicer, case, law, chosen, answer=answer, disturb=lambda: answer(list(case.given), case.other_budget)
    )
    reused.clear()
    if leftover := answer(reused):
        found = f"for the same list, emptied, {_referred(case.given, returned=leftover)}"
        raise _violation(slicer, law, case, found)
    if type(slicer).prepare is not Slicer.prepare:
        _prepares_as_it_slices(slicer, case, chosen)


def _selects_given_items(
    slicer: Slicer, case: LawCase, answer: Callable[[list[ScoredItem]], list[ContextItem]]
) -> list[ContextItem]:
    with _unchanged(slicer, case) as given:
        chosen = answer(given)
    available = Counter(id(entry.item) for entry in case.given)
    for item in chosen:
        if id(item) not in available:
            equal = any(entry.item == item for entry in case.given)
            twin = " (an equal copy: items are told apart by identity)" if equal else ""
            raise _violation(slicer, "it returns only items it was given", case, f"returned: {item!r}{twin}")
        if not available[id(item)]:
            raise _violation(slicer, "it returns each item at most once", case, _referred(case.given, returned=chosen))
        available[id(item)] -= 1
    if case.budget.target_tokens <= 0 and chosen:
        raise _violation(slicer, "nothing is selected for a target of 0", case, _referred(case.given, returned=chosen))
    return chosen


def _stays_within_the_target(slicer: Slicer, case: LawCase, chosen: list[ContextItem]) -> None:
    tokens, target = sum(item.tokens for item in chosen), case.budget.target_tokens
    if tokens > target:
        found = f"{_referred(case.given, returned=chosen)}\nthat is {tokens} tokens for a target of {target}"
        raise _violation(slicer, "the selection stays within the target", case, found)


def _prepares_as_it_slices(slicer: Slicer, case: LawCase, chosen: list[ContextItem]) -> None:
    candidates = Candidates.of(case.given)
    choose = _attempt(slicer, case, lambda: slicer.prepare(candidates))
    _attempt(slicer, case, lambda: choose(case.other_budget))
    prepared = [candidates.items[position] for position in _attempt(slicer, case, lambda: choose(case.budget)).chosen]
    if not _same(chosen, prepared):
        found = _referred(case.given, slice_returned=chosen, chooser_chose=prepared)
        raise _violation(slicer, "a prepared chooser chooses what slice returns", case, found)
    span = choose.span(case.budget)
    if not span.start <= case.budget.target_tokens or (
        span.stop is not None and not case.budget.target_tokens < span.stop
    ):
        raise _violation(slicer, "a span holds the target it was asked for", case, f"span: {span!r}")
    # The far ends of the span are where a mistake shows.
    _same_at(slicer, case, choose, prepared, max(0, span.start))
    _same_at(slicer, case, choose, prepared, case.budget.target_tokens + _FAR if span.stop is None else span.stop - 1)


def _same_at(slicer: Slicer, case: LawCase, choose: Chooser, prepared: list[ContextItem], target: int) -> None:
    budget = ContextBudget(max(case.budget.max_tokens, target), target)
    there = [case.given[position].item for position in _attempt(slicer, case, lambda: choose(budget)).chosen]
    if not _same(prepared, there):
        found = _referred(case.given, chosen=prepared, **{f"chosen for a target of {target}": there})
        raise _violation(slicer, "all targets of a span give the same selection", case, found)


def check_related_case(slicer: Slicer, case: LawCase) -> None:
    """Raise if a pipeline's selection breaks a relation; the metadata is read independently of the slicer."""
    candidates = Candidates.of(case.given)
    choose = _attempt(slicer, case, lambda: enforce_relations(slicer.prepare(candidates), candidates.relations))
    chosen = [case.given[position].item for position in _attempt(slicer, case, lambda: choose(case.budget)).chosen]
    for breach in _breaches([entry.item for entry in case.given], chosen):
        raise _violation(slicer, f"a selection has no {breach}", case, _referred(case.given, chosen=chosen))


def _breaches(items: list[ContextItem], chosen: list[ContextItem]) -> Iterator[str]:
    ids = Counter(item.metadata[ID_KEY] for item in chosen)
    groups = {item.metadata[GROUP_KEY] for item in chosen if GROUP_KEY in item.metadata}
    if any(count > 1 for count in ids.values()):
        yield "two forms of one entity"
    if any(item.metadata.get(GROUP_KEY) in groups and item.metadata[ID_KEY] not in ids for item in items):
        yield "part of a group without the rest"


def placer_cases(items: SearchStrategy[ContextItem] | None, *, non_finite_scores: bool) -> SearchStrategy[LawCase]:
    """Draw the input of a placer as the pipeline merges it: pinned items with a score of 1, then the selected ones."""
    pinned = strategies.items(pinned=st.just(value=True)).map(lambda item: ScoredItem(item, 1.0))
    scores = strategies.scores(non_finite=non_finite_scores)
    merged = st.tuples(st.lists(pinned, max_size=2), strategies.scored_lists(items, scores=scores, max_size=6)).map(
        lambda parts: parts[0] + parts[1]
    )
    return st.builds(LawCase, st.just("scored"), merged, strategies.scored_lists(items, scores=scores, max_size=3))


def check_placer_case(placer: Placer, case: LawCase) -> None:
    """Raise if a placer breaks a law."""

    def answer(scored: list[ScoredItem]) -> list[ContextItem]:
        return _as_items(placer, case, "place", _attempt(placer, case, lambda: placer.place(scored)))

    with _unchanged(placer, case) as given:
        placed = answer(given)
    if Counter(map(id, placed)) != Counter(id(entry.item) for entry in case.given):
        found = _referred(case.given, returned=placed)
        raise _violation(placer, "it returns exactly the items it was given, in another order", case, found)
    law = "the same case always gives the same order"
    _repeats_itself(placer, case, law, placed, answer=answer, disturb=lambda: answer(list(case.others)))
    if type(placer).arrange is not Placer.arrange:
        candidates = Candidates.of(case.given)
        order = _attempt(placer, case, lambda: placer.arrange(candidates))
        arranged = [candidates.items[position] for position in order]
        if not _same(placed, arranged):
            found = _referred(case.given, place_returned=placed, arrange_gives=arranged)
            raise _violation(placer, "arrange gives the order that place returns", case, found)


def _repeats_itself(
    strategy: object,
    case: LawCase,
    law: str,
    first: list[ContextItem],
    *,
    answer: Callable[[list[ScoredItem]], list[ContextItem]],
    disturb: Callable[[], object],
) -> list[ScoredItem]:
    """Ask again, after another case, and for equal copies elsewhere in memory; return the list of the copies."""
    again = answer(list(case.given))
    disturb()
    later = answer(list(case.given))
    if not _same(first, again) or not _same(first, later):
        found = _referred(case.given, returned=first, returned_again=again, returned_after_another_case=later)
        raise _violation(strategy, law, case, found)
    items = [entry.item for entry in case.given]
    twins = _copied(items)
    reused = list(case.others)
    if reused:
        answer(reused)  # a list that held other items before
    reused[:] = [ScoredItem(twin, entry.score) for twin, entry in zip(twins, case.given, strict=True)]
    copies = answer(reused)
    if _positions(copies, twins) != _positions(first, items):
        found = f"{_referred(case.given, returned=first)}\nfor equal copies, {_referred(reused, returned=copies)}"
        raise _violation(strategy, law, case, found)
    return reused


def search(
    strategy: object, cases: SearchStrategy[LawCase], laws: Callable[[LawCase], None], max_examples: int | None
) -> None:
    """Try the laws on many cases; raise for the smallest case that Hypothesis finds to break one."""
    refused = answered = 0

    @given(cases)
    def hold(case: LawCase) -> None:
        nonlocal refused, answered
        try:
            laws(case)
        except UnsatisfiedAssumption:
            refused += 1
            raise
        answered += case.matters

    quietly = settings(
        # The message shows the case; Hypothesis would print it a second time, after a costly search for an explanation.
        verbosity=Verbosity.quiet,
        print_blob=False,
        phases=set(settings().phases) - {Phase.explain},
        report_multiple_bugs=False,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.nested_given, HealthCheck.filter_too_much],
        max_examples=max_examples if max_examples is not None else settings().max_examples,
    )
    try:
        quietly(hold)()
    except Unsatisfiable:
        pass  # all were refused, see below
    except Flaky as flaky:
        # Hypothesis must see a failure twice, which a strategy that varies does not show.
        raise _broken(strategy, "the same input always gives the same result", _last_seen(flaky)) from None
    if refused and not answered:
        raise _broken(strategy, "it answers some cases", f"all {refused} cases that matter were refused")


def _violation(strategy: object, law: str, case: LawCase, found: str = "") -> ContractViolation:
    """Return the error for a law that a strategy breaks: the case, and the finding."""
    return _broken(strategy, law, f"{case}\n{found}" if found else str(case))


def _attempt(strategy: object, case: LawCase, call: Callable[[], R]) -> R:
    """Call the strategy; a `SelectionError` ends the case, any other error breaks a law."""
    try:
        return call()
    except StrategyContractError as error:
        raise _violation(strategy, "it keeps what the pipeline demands", case, f"found: {error}") from error
    except SelectionError:
        reject()
    except Exception as error:
        raise _violation(strategy, "it does not raise", case, f"raised: {type(error).__name__}: {error}") from error


@contextmanager
def _unchanged(strategy: object, case: LawCase) -> Generator[list[Any]]:
    """Yield a copy of the list for a strategy; raise if it changed the copy or the items."""
    kept = case.given
    given, before = list(kept), repr(kept)
    yield given
    if not _same(given, kept):
        raise _violation(
            strategy, "the list it was given is left unchanged", case, _listed(f"afterwards: {case.name}", given)
        )
    if repr(kept) != before:
        raise _violation(strategy, "the items it was given are left unchanged", case, f"before: {before}")


def _same(left: Sequence[object], right: Sequence[object]) -> bool:
    """Return whether two sequences hold the same objects in the same order."""
    return len(left) == len(right) and all(map(is_, left, right))


def _copied(items: Sequence[ContextItem]) -> list[ContextItem]:
    """Copy items in reverse, so that those listed first lie last in memory; one listed twice stays one object."""
    copies: dict[int, ContextItem] = {}
    for item in reversed(items):
        if id(item) not in copies:
            copies[id(item)] = copy(item)
    return [copies[id(item)] for item in items]


def _positions(returned: Iterable[ContextItem], items: Sequence[ContextItem]) -> list[int]:
    """Return the first position of each returned item."""
    places: dict[int, int] = {}
    for position, item in enumerate(items):
        places.setdefault(id(item), position)
    return [places.get(id(item), -1) for item in returned]


def _listed(name: str, values: Iterable[Any]) -> str:
    """Return a list as code, one element per line."""
    lines = [f"    {value!r}," for value in values]
    return "\n".join([f"{name} = [", *lines, "]"]) if lines else f"{name} = []"


def _referred(scored: Sequence[ScoredItem], **returned: Iterable[ContextItem]) -> str:
    """Return lists of items, one per line, as references to the input, so that equal twins can be told apart."""
    places = {id(entry.item): f"scored[{position}].item" for position, entry in enumerate(scored)}
    return "\n".join(
        f"{name.replace('_', ' ')} = [{', '.join(places.get(id(item), repr(item)) for item in items)}]"
        for name, items in returned.items()
    )


def _as_items(strategy: object, case: LawCase, method: str, returned: object) -> list[ContextItem]:
    """Return a strategy's answer as a list."""
    try:
        return list(returned)  # type: ignore[call-overload,no-any-return]
    except TypeError:
        raise _violation(strategy, f"{method} returns a list of items", case, f"returned: {returned!r}") from None


def _broken(strategy: object, law: str, details: str) -> ContractViolation:
    shown = repr(strategy)
    if len(shown) > _LONGEST_REPR:  # a strategy with a cache can be long
        shown = f"{shown[: _LONGEST_REPR - 1]}…"
    return ContractViolation(f"{shown} breaks a law: {law}\n{details}", law=law, strategy=shown)


def _last_seen(flaky: Flaky) -> str:
    causes = getattr(flaky, "exceptions", ())
    seen = [str(cause) for cause in causes if isinstance(cause, ContractViolation)]
    return f"once, but not again, this was found:\n{seen[0]}" if seen else str(flaky)
