"""The laws of placers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from cupel._columns import Candidates
from cupel.model import ScoredItem
from cupel.placers import Placer
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
    from hypothesis.strategies import SearchStrategy

    from cupel.model import ContextItem


__tracebackhide__ = True  # pytest leaves these frames out of a failure


@dataclass(frozen=True, slots=True)
class _Case:
    scored: list[ScoredItem]
    others: list[ScoredItem]

    @property
    def matters(self) -> bool:
        return bool(self.scored)

    def __str__(self) -> str:
        return listed("scored", self.scored)


def search_placer(
    placer: Placer,
    items: SearchStrategy[ContextItem] | None,
    *,
    non_finite_scores: bool,
    max_examples: int | None,
) -> None:
    """Search for a case in which a placer breaks a law."""
    pinned = strategies.items(pinned=st.just(value=True)).map(lambda item: ScoredItem(item, 1.0))
    scores = strategies.scores(non_finite=non_finite_scores)
    # As the pipeline merges them: pinned items with a score of 1, then the chosen ones.
    merged = st.tuples(st.lists(pinned, max_size=2), strategies.scored_lists(items, scores=scores, max_size=6)).map(
        lambda parts: parts[0] + parts[1]
    )
    cases = st.builds(_Case, merged, strategies.scored_lists(items, scores=scores, max_size=3))

    def laws(case: _Case) -> None:
        placed = _keeps_its_word(placer, case)
        _has_no_memory(placer, case, placed)
        _looks_at_values(placer, case, placed)
        if type(placer).arrange is not Placer.arrange:
            _arranges_as_it_places(placer, case, placed)

    search(cases, laws, placer, max_examples)


def _keeps_its_word(placer: Placer, case: _Case) -> list[ContextItem]:
    with unchanged(placer, case, "scored", case.scored) as given:
        placed = _place(placer, case, given)
    if Counter(map(id, placed)) != Counter(id(entry.item) for entry in case.scored):
        found = referred(case.scored, returned=placed)
        raise violation(placer, "it returns exactly the items it was given, in another order", case, found)
    return placed


def _has_no_memory(placer: Placer, case: _Case, placed: list[ContextItem]) -> None:
    again = _place(placer, case, list(case.scored))
    _place(placer, _Case(case.others, []), list(case.others))
    later = _place(placer, case, list(case.scored))
    if not same(placed, again) or not same(placed, later):
        found = referred(case.scored, returned=placed, returned_again=again, returned_after_other_items=later)
        raise violation(placer, "the same case always gives the same order", case, found)


def _looks_at_values(placer: Placer, case: _Case, placed: list[ContextItem]) -> None:
    """Place equal items that lie elsewhere in memory, in a list that held others before."""
    items = [entry.item for entry in case.scored]
    twins = copied(items)
    reused = list(case.others)
    _place(placer, _Case(case.others, []), reused)
    reused[:] = [ScoredItem(twin, entry.score) for twin, entry in zip(twins, case.scored, strict=True)]
    order = _place(placer, case, reused)
    if positions(order, twins) != positions(placed, items):
        found = f"{referred(case.scored, returned=placed)}\nfor equal copies, {referred(reused, returned=order)}"
        raise violation(placer, "the same case always gives the same order", case, found)


def _arranges_as_it_places(placer: Placer, case: _Case, placed: list[ContextItem]) -> None:
    candidates = Candidates.of(case.scored)
    arranged = [candidates.items[position] for position in attempt(placer, case, lambda: placer.arrange(candidates))]
    if not same(placed, arranged):
        found = referred(case.scored, place_returned=placed, arrange_gives=arranged)
        raise violation(placer, "arrange gives the order that place returns", case, found)


def _place(placer: Placer, case: _Case, scored: list[ScoredItem]) -> list[ContextItem]:
    returned = attempt(placer, case, lambda: placer.place(scored))
    return as_items(placer, case, "place", returned)
