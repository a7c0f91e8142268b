"""A prepared selection: one preparation, any number of budgets, slicers and threads."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from cupel import (
    ContextItem,
    GreedySlice,
    KnapsackSlice,
    PinnedExceedsBudgetError,
    Pipeline,
    PipelineConfigError,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    Scorer,
    Slicer,
    UShapedPlacer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

from tests.pools import REFLEXIVE, START, budget, contents, hinted


class TestPrepared:
    def items(self) -> list[ContextItem]:
        rng = random.Random(7)
        return [
            hinted(
                str(rng.randint(0, 30)),
                rng.randint(-2, 40),
                rng.choice([0.1, 0.5, 0.9]),
                pinned=rng.random() < 0.1,
                timestamp=START + timedelta(hours=rng.randint(0, 50)),
            )
            for _ in range(60)
        ]

    @pytest.mark.parametrize("slicer", [GreedySlice(), KnapsackSlice(5)])
    def test_equals_a_run_at_every_budget(self, slicer: Slicer) -> None:
        pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer)
        items = self.items()
        prepared = pipeline.prepare(items)
        assert prepared.items == items
        for target in range(150, 1000, 97):
            run = pipeline.run(items, budget(target))
            assert prepared.run(budget(target)) == run
            assert prepared.select(budget(target)).items == run
            assert {id(item) for item in prepared.included(budget(target))} == {id(item) for item in run}
            assert prepared.dry_run(budget(target)).included == pipeline.dry_run(items, budget(target)).included

    def test_scores_once(self) -> None:
        calls: list[int] = []

        class Counting(PriorityScorer):
            def score_all(self, items: Sequence[ContextItem]) -> list[float]:
                calls.append(len(items))
                return super().score_all(items)

        prepared = Pipeline(scorer=Counting()).prepare([ContextItem("a", 1, priority=1)])
        for target in (1, 2, 3):
            prepared.run(budget(target))
            prepared.dry_run(budget(target))
        assert calls == [1]

    def test_checks_pins_for_each_budget(self) -> None:
        prepared = REFLEXIVE.prepare([ContextItem("p", 10, pinned=True)])
        for ask in (prepared.run, prepared.dry_run, prepared.select, prepared.included):
            with pytest.raises(PinnedExceedsBudgetError):
                ask(budget(9))
            ask(budget(10))


class TestSharingAPreparation:
    ITEMS = (hinted("a" * 5000, 5, 0.9), hinted("b", 5, 0.5), hinted("p", 1, 0, pinned=True))

    def test_reprs_are_short(self) -> None:
        prepared = REFLEXIVE.prepare(self.ITEMS)
        assert repr(prepared) == "<PreparedSelection: 2 candidates (10 tokens), 1 pinned (1 tokens)>"
        assert repr(prepared.select(7)) == "<ContextResult: 2 items, 6 of 7 target tokens>"

    def test_another_pipeline_shares_the_scores(self) -> None:
        class Counting(Scorer):
            passes = 0

            def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
                self.passes += 1
                return float(item.tokens)

        scorer = Counting()
        prepared = Pipeline(scorer=scorer).prepare(self.ITEMS)
        other = prepared.with_pipeline(Pipeline(scorer=scorer, slicer=KnapsackSlice(1), placer=UShapedPlacer()))
        assert contents(other.run(11)) == ["a" * 5000, "p", "b"]
        assert scorer.passes == 2
        assert contents(prepared.run(11)) == ["p", "a" * 5000, "b"]

    @pytest.mark.parametrize(
        "other", [Pipeline(scorer=RecencyScorer()), Pipeline(scorer=ReflexiveScorer(), deduplicate=False)]
    )
    def test_a_pipeline_that_ranks_otherwise_is_refused(self, other: Pipeline) -> None:
        with pytest.raises(PipelineConfigError, match="the same scorer, deduplication and pins"):
            REFLEXIVE.prepare(self.ITEMS).with_pipeline(other)
