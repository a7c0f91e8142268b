"""The laws of slicers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from cupel._columns import Candidates
from cupel.model import EXCLUSIVE_KEY, GROUP_KEY, ID_KEY, REQUIRES_KEY, ContextBudget, ScoredItem
from cupel.slicers import Slicer
from cupel.testing import strategies
from cupel.testing._search import (
    as_items,
    attempt,
    copied,
    listed,
    positions,
    referred,
    same,
    search,
    unchanged,
    violation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import DrawFn, SearchStrategy

    from cupel.model import ContextItem
    from cupel.slicers import Chooser

__tracebackhide__ = True  # pytest leaves these frames out of a failure
_FAR: Final = 1000


@dataclass(frozen=True, slots=True)
class _Case:
    scored: list[ScoredItem]
    budget: ContextBudget
    other: ContextBudget

    @property
    def matters(self) -> bool:
        return bool(self.scored) and self.budget.target_tokens > 0

    def __str__(self) -> str:
        return f"{listed('scored', self.scored)}\nbudget = {self.budget!r}"


@st.composite
def _cases(draw: DrawFn, lists: SearchStrategy[list[ScoredItem]]) -> _Case:
    scored = draw(lists)
    total = sum(entry.item.tokens for entry in scored)
    # A target with some room above it, which a slicer should not use.
    budgets = st.tuples(st.integers(0, total + 1), st.integers(0, 20)).map(
        lambda drawn: ContextBudget(drawn[0] + drawn[1], drawn[0])
    )
    return _Case(scored, draw(budgets), draw(budgets))


@st.composite
def _related_cases(draw: DrawFn) -> _Case:
    related = draw(strategies.related_lists())
    scored = sorted(
        (ScoredItem(item, item.future_relevance_hint or 0.0) for item in related), key=lambda one: -one.score
    )
    budgets = st.integers(0, sum(item.tokens for item in related)).map(lambda target: ContextBudget(target, target))
    return _Case(scored, draw(budgets), draw(budgets))


def search_slicer(
    slicer: Slicer,
    items: SearchStrategy[ContextItem] | None,
    *,
    may_exceed_target: bool,
    non_finite_scores: bool,
    max_examples: int | None,
) -> None:
    """Search for a case in which a slicer breaks a law."""

    def laws(case: _Case) -> None:
        chosen = _keeps_its_word(slicer, case)
        if not may_exceed_target:
            _stays_within_the_target(slicer, case, chosen)
        _has_no_memory(slicer, case, chosen)
        _looks_at_values(slicer, case, chosen)
        if type(slicer).fit is not Slicer.fit:
            _fits_as_it_slices(slicer, case, chosen)

    lists = strategies.scored_lists(items, scores=strategies.scores(non_finite=non_finite_scores), max_size=8)
    search(_cases(lists), laws, slicer, max_examples)
    if items is None:  # whoever says which items there are may not want these
        search(_related_cases(), lambda case: _keeps_to_relations(slicer, case), slicer, max_examples)


def _keeps_its_word(slicer: Slicer, case: _Case) -> list[ContextItem]:
    with unchanged(slicer, case, "scored", case.scored) as given:
        chosen = _slice(slicer, case, given, case.budget)
    available = Counter(id(entry.item) for entry in case.scored)
    for item in chosen:
        if id(item) not in available:
            twin = " (an equal copy: items are told apart by identity)" if _has_equal(item, case) else ""
            raise violation(slicer, "it returns only items it was given", case, f"returned: {item!r}{twin}")
        if not available[id(item)]:
            raise violation(slicer, "it returns each item at most once", case, referred(case.scored, returned=chosen))
        available[id(item)] -= 1
    if case.budget.target_tokens <= 0 and chosen:
        raise violation(slicer, "nothing is selected for a target of 0", case, referred(case.scored, returned=chosen))
    return chosen


def _stays_within_the_target(slicer: Slicer, case: _Case, chosen: list[ContextItem]) -> None:
    tokens = sum(item.tokens for item in chosen)
    if tokens > case.budget.target_tokens:
        found = f"that is {tokens} tokens for a target of {case.budget.target_tokens}"
        shown = referred(case.scored, returned=chosen)
        raise violation(slicer, "the selection stays within the target", case, f"{shown}\n{found}")


def _has_no_memory(slicer: Slicer, case: _Case, chosen: list[ContextItem]) -> None:
    again = _slice(slicer, case, list(case.scored), case.budget)
    _slice(slicer, replace(case, budget=case.other), list(case.scored), case.other)
    later = _slice(slicer, case, list(case.scored), case.budget)
    if not same(chosen, again) or not same(chosen, later):
        found = referred(case.scored, returned=chosen, returned_again=again, returned_after_another_budget=later)
        raise violation(slicer, "the same case always gives the same selection", case, found)


def _looks_at_values(slicer: Slicer, case: _Case, chosen: list[ContextItem]) -> None:
    """Slice equal items that lie elsewhere in memory, in a list that held others before."""
    items = [entry.item for entry in case.scored]
    twins = copied(items)
    reused = [ScoredItem(twin, entry.score) for twin, entry in zip(twins, case.scored, strict=True)]
    twin_choice = _slice(slicer, case, reused, case.budget)
    if positions(twin_choice, twins) != positions(chosen, items):
        found = f"{referred(case.scored, returned=chosen)}\nfor equal copies, {referred(reused, returned=twin_choice)}"
        raise violation(slicer, "the same case always gives the same selection", case, found)
    reused.clear()
    if leftover := _slice(slicer, replace(case, scored=[]), reused, case.budget):
        found = f"for the same list, emptied, {referred(case.scored, returned=leftover)}"
        raise violation(slicer, "the same case always gives the same selection", case, found)


def _fits_as_it_slices(slicer: Slicer, case: _Case, chosen: list[ContextItem]) -> None:
    candidates = Candidates.of(case.scored)
    choose = attempt(slicer, case, lambda: slicer.fit(candidates))
    attempt(slicer, case, lambda: choose(case.other))
    fitted = [candidates.items[position] for position in attempt(slicer, case, lambda: choose(case.budget)).chosen]
    if not same(chosen, fitted):
        found = referred(case.scored, slice_returned=chosen, fit_chose=fitted)
        raise violation(slicer, "fit chooses what slice returns", case, found)
    span = choose.span(case.budget)
    if not span.start <= case.budget.target_tokens or (
        span.stop is not None and not case.budget.target_tokens < span.stop
    ):
        raise violation(slicer, "a span holds the target it was asked for", case, f"span: {span!r}")
    # The far ends of the span are where a mistake shows.
    _same_at(slicer, case, choose, fitted, max(0, span.start))
    _same_at(slicer, case, choose, fitted, case.budget.target_tokens + _FAR if span.stop is None else span.stop - 1)


def _same_at(slicer: Slicer, case: _Case, choose: Chooser, fitted: list[ContextItem], target: int) -> None:
    budget = ContextBudget(max(case.budget.max_tokens, target), target)
    there = [case.scored[position].item for position in attempt(slicer, case, lambda: choose(budget)).chosen]
    if not same(fitted, there):
        found = referred(case.scored, chosen=fitted, **{f"chosen for a target of {target}": there})
        raise violation(slicer, "all targets of a span give the same selection", case, found)


def _keeps_to_relations(slicer: Slicer, case: _Case) -> None:
    """See that what a pipeline would select holds together, reading the metadata anew."""
    candidates = Candidates.of(case.scored)
    choose = attempt(slicer, case, lambda: slicer.fit(candidates).within(candidates.relations))
    chosen = [case.scored[position].item for position in attempt(slicer, case, lambda: choose(case.budget)).chosen]
    for breach in _breaches([entry.item for entry in case.scored], chosen):
        raise violation(slicer, f"a selection has no {breach}", case, referred(case.scored, chosen=chosen))


def _breaches(items: list[ContextItem], chosen: list[ContextItem]) -> Iterator[str]:
    ids = Counter(item.metadata[ID_KEY] for item in chosen)
    labels = Counter(item.metadata[EXCLUSIVE_KEY] for item in chosen if EXCLUSIVE_KEY in item.metadata)
    groups = {item.metadata[GROUP_KEY] for item in chosen if GROUP_KEY in item.metadata}
    if any(count > 1 for count in ids.values()):
        yield "two forms of one thing"
    if any(count > 1 for count in labels.values()):
        yield "two things of one exclusive set"
    if any(one not in ids for item in chosen for one in item.metadata.get(REQUIRES_KEY, ())):
        yield "thing without what it requires"
    if any(item.metadata.get(GROUP_KEY) in groups and item.metadata[ID_KEY] not in ids for item in items):
        yield "part of a group without the rest"


def _slice(slicer: Slicer, case: _Case, scored: list[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
    returned = attempt(slicer, case, lambda: slicer.slice(scored, budget))
    return as_items(slicer, case, "slice", returned)


def _has_equal(item: object, case: _Case) -> bool:
    return any(entry.item == item for entry in case.scored)
