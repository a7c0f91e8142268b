"""A subclass of a built-in that overrides the one method the specification names is taken at its word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from cupel import (
    ChronologicalPlacer,
    CompositeScorer,
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KindScorer,
    KnapsackSlice,
    Pipeline,
    Placer,
    QuotaSlice,
    RecencyScorer,
    ReflexiveScorer,
    ScaledScorer,
    Scorer,
    Slicer,
    StreamSlice,
    TagScorer,
    UShapedPlacer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel import ScoredItem

BUDGET = ContextBudget(100, 100)
ITEMS = [ContextItem(name, 10, future_relevance_hint=hint) for name, hint in (("a", 0.1), ("b", 0.9), ("c", 0.5))]


def contents(items: list[ContextItem]) -> list[str]:
    return [item.content for item in items]


def placed(scorer: Scorer) -> list[str]:
    """The items from the highest score down."""
    return contents(Pipeline(scorer=scorer).run(ITEMS, BUDGET))


class Backwards:
    """Mixed in before a scorer: negates what it gives."""

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        return -super().score(item, all_items)  # type: ignore[misc,no-any-return]


SCORERS = [
    ReflexiveScorer(),
    KindScorer(),
    RecencyScorer(),
    TagScorer({}),
    ScaledScorer(ReflexiveScorer()),
    CompositeScorer([(ReflexiveScorer(), 1)]),
]


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: type(scorer).__name__)
def test_a_scorer(scorer: Scorer) -> None:
    def by_content(self: Scorer, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        del self, all_items
        return -ord(item.content)

    by_name = type("ByName", (type(scorer),), {"score": by_content})
    own = object.__new__(by_name)
    assert own.score_all(ITEMS) == [-97.0, -98.0, -99.0]
    assert placed(own) == ["a", "b", "c"]
    assert placed(CompositeScorer([(own, 1)])) == ["a", "b", "c"]


@pytest.mark.parametrize("scorer", [ReflexiveScorer, ScaledScorer], ids=lambda scorer: scorer.__name__)
def test_a_scorer_may_build_on_what_it_overrides(scorer: type[Scorer]) -> None:
    class Mixed(Backwards, scorer):  # type: ignore[misc,valid-type]
        pass

    class Direct(scorer):  # type: ignore[misc,valid-type]
        def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
            return -super().score(item, all_items)

    arguments = [ReflexiveScorer()] if scorer is ScaledScorer else []
    assert placed(scorer(*arguments)) == ["b", "c", "a"]
    assert placed(Mixed(*arguments)) == placed(Direct(*arguments)) == ["a", "c", "b"]


def test_a_subclass_of_an_overriding_scorer_may_write_the_whole_pass_again() -> None:
    class ByName(ReflexiveScorer):
        def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
            return -ord(item.content)

    @dataclass(frozen=True, slots=True)
    class Quick(ByName):
        def score_all(self, items: Sequence[ContextItem]) -> list[float]:
            return [0.5] * len(items)

    class Plain(ByName):
        pass

    assert Quick().score_all(ITEMS) == [0.5] * 3
    assert placed(Plain()) == ["a", "b", "c"]


def first_only(self: Slicer, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
    del self
    return [scored[0].item] if budget.target_tokens else []


@pytest.mark.parametrize(
    "slicer", [GreedySlice, KnapsackSlice, QuotaSlice, CountQuotaSlice, StreamSlice], ids=lambda slicer: slicer.__name__
)
def test_a_slicer(slicer: type[Slicer]) -> None:
    own = object.__new__(type("FirstOnly", (slicer,), {"slice": first_only}))
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=own)
    assert contents(pipeline.run(ITEMS, BUDGET)) == ["b"]
    assert contents(pipeline.prepare(ITEMS).run(BUDGET)) == ["b"]


def test_a_slicer_within_another() -> None:
    class FirstOnly(GreedySlice):
        slice = first_only

    for outer in (QuotaSlice([], FirstOnly()), CountQuotaSlice([CountQuotaEntry("Message", 0, 9)], FirstOnly())):
        assert contents(Pipeline(scorer=ReflexiveScorer(), slicer=outer).run(ITEMS, BUDGET)) == ["b"]


def test_a_slicer_may_build_on_what_it_overrides() -> None:
    class AllButOne(GreedySlice):
        def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
            return super().slice(scored, budget)[1:]

    assert contents(Pipeline(scorer=ReflexiveScorer(), slicer=AllButOne()).run(ITEMS, BUDGET)) == ["c", "a"]


@pytest.mark.parametrize("placer", [UShapedPlacer, ChronologicalPlacer], ids=lambda placer: placer.__name__)
def test_a_placer(placer: type[Placer]) -> None:
    class Backward(placer):  # type: ignore[misc,valid-type]
        def place(self, scored: Sequence[ScoredItem]) -> list[ContextItem]:
            return super().place(scored)[::-1]

    def run(own: Placer) -> list[str]:
        return contents(Pipeline(scorer=ReflexiveScorer(), placer=own).run(ITEMS, BUDGET))

    assert run(Backward()) == run(placer())[::-1]
