"""Selections and pins that exceed the budget: what each strategy does, and what it says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from cupel import (
    BudgetOverflowError,
    BudgetWarning,
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    OverflowEvent,
    OverflowStrategy,
    Pipeline,
    Placer,
    ReflexiveScorer,
    ScoredItem,
)
from cupel.analytics import sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

from tests.pools import REFLEXIVE, budget, contents, hinted


class TestOverflow:
    REQUIRED = CountQuotaSlice([CountQuotaEntry("tool", 2, 2)])
    ITEMS = (hinted("t1", 80, 0.1, kind="tool"), hinted("t2", 80, 0.05, kind="tool"))

    def pipeline(self, overflow: OverflowStrategy, **fields: Any) -> Pipeline:
        return Pipeline(scorer=ReflexiveScorer(), slicer=self.REQUIRED, overflow=overflow, **fields)

    def test_throw_carries_the_numbers(self) -> None:
        with pytest.raises(BudgetOverflowError) as caught:
            self.pipeline(OverflowStrategy.THROW).run(self.ITEMS, budget(100))
        assert (caught.value.selected_tokens, caught.value.target_tokens) == (160, 100)

    def test_truncate_keeps_what_fits_from_the_top(self) -> None:
        assert contents(self.pipeline(OverflowStrategy.TRUNCATE).run(self.ITEMS, budget(100))) == ["t1"]

    def test_truncate_goes_on_after_an_item_that_does_not_fit(self) -> None:
        items = [hinted(c, t, s, kind="k") for c, t, s in (("A", 60, 0.9), ("B", 60, 0.8), ("C", 30, 0.7))]
        slicer = CountQuotaSlice([CountQuotaEntry("k", 3, 3)])
        pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=OverflowStrategy.TRUNCATE)
        assert contents(pipeline.run(items, budget(100))) == ["A", "C"]

    @pytest.mark.parametrize(("second", "kept"), [(40, ["A", "B"]), (41, ["A", "C"])])
    def test_truncate_keeps_what_fits_to_the_token(self, second: int, kept: list[str]) -> None:
        items = [hinted(c, t, s, kind="k") for c, t, s in (("A", 60, 0.9), ("B", second, 0.8), ("C", 1, 0.7))]
        slicer = CountQuotaSlice([CountQuotaEntry("k", 3, 3)])
        pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=OverflowStrategy.TRUNCATE)
        assert contents(pipeline.run(items, budget(100))) == kept

    def test_equality_is_no_overflow(self) -> None:
        assert len(self.pipeline(OverflowStrategy.THROW).run(self.ITEMS, budget(160))) == 2

    def test_pins_over_the_target(self) -> None:
        pins = [hinted("p", 80, 0, pinned=True), hinted("q", 30, 0, pinned=True), hinted("x", 5, 1.0)]
        over = ContextBudget(200, 100)
        with pytest.raises(BudgetOverflowError):
            REFLEXIVE.run(pins, over)
        truncate = Pipeline(scorer=ReflexiveScorer(), overflow=OverflowStrategy.TRUNCATE)
        assert contents(truncate.run(pins, over)) == ["p", "q"]

    def test_proceed_tells_once_before_placing_with_the_original_budget(self) -> None:
        told: list[OverflowEvent] = []
        log: list[str] = []

        class Watching(Placer):
            def place(self, scored: Sequence[ScoredItem]) -> list[ContextItem]:
                log.append("placed")
                return [entry.item for entry in scored]

        def on_overflow(event: OverflowEvent) -> None:
            log.append("told")
            told.append(event)

        pipeline = self.pipeline(OverflowStrategy.PROCEED, on_overflow=on_overflow, placer=Watching())
        pin = ContextItem("p", 10, pinned=True)
        given = ContextBudget(500, 100, reserved_slots={"z": 1})
        assert len(pipeline.run([*self.ITEMS, pin], given)) == 3
        assert log == ["told", "placed"]
        assert told == [OverflowEvent(70, (pin, *self.ITEMS), given)]
        assert told[0].budget is given

    @pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")
    def test_who_is_told(self) -> None:
        told: list[OverflowEvent] = []
        pipeline = self.pipeline(OverflowStrategy.PROCEED, on_overflow=told.append)
        pipeline.dry_run(self.ITEMS, budget(100))
        prepared = pipeline.prepare(self.ITEMS)
        prepared.dry_run(budget(100))
        prepared.included(budget(100))
        assert told == []
        pipeline.select(self.ITEMS, budget(100))
        prepared.run(budget(100))
        prepared.select(budget(100))
        assert len(told) == 3

    def test_one_token_too_many_is_an_overflow(self) -> None:
        told: list[OverflowEvent] = []
        given = ContextBudget(500, 159)
        self.pipeline(OverflowStrategy.PROCEED, on_overflow=told.append).run(self.ITEMS, given)
        assert [event.tokens_over_budget for event in told] == [1]
        with pytest.raises(BudgetOverflowError):
            self.pipeline(OverflowStrategy.THROW).run(self.ITEMS, budget(159))

    def test_proceed_without_a_callback_raises_nothing(self) -> None:
        assert len(self.pipeline(OverflowStrategy.PROCEED).run(self.ITEMS, ContextBudget(500, 100))) == 2

    def test_nothing_is_told_when_it_fits(self) -> None:
        told: list[OverflowEvent] = []
        pipeline = self.pipeline(OverflowStrategy.PROCEED, on_overflow=told.append)
        pipeline.run(self.ITEMS, budget(160))
        assert told == []


class TestWindow:
    """The target may exceed what the window leaves; nothing is refused then, but it is said (ruling 2.23)."""

    TOOLS = tuple(hinted(f"tool {number}", 300, 0.5, kind="tool") for number in range(3))
    REQUIRED = CountQuotaSlice([CountQuotaEntry("tool", 3)])
    HOLE = ContextBudget(1000, 900, output_reserve=500)

    def pipeline(self, overflow: OverflowStrategy) -> Pipeline:
        return Pipeline(scorer=ReflexiveScorer(), slicer=self.REQUIRED, overflow=overflow)

    @pytest.mark.parametrize("overflow", OverflowStrategy)
    @pytest.mark.parametrize("call", ["run", "select", "dry_run"])
    def test_every_run_says_so_once_and_points_to_its_caller(self, overflow: OverflowStrategy, call: str) -> None:
        pipeline = self.pipeline(overflow)
        prepared = pipeline.prepare(self.TOOLS)
        calls = (lambda: getattr(pipeline, call)(self.TOOLS, self.HOLE), lambda: getattr(prepared, call)(self.HOLE))
        for ask in calls:
            with pytest.warns(BudgetWarning, match=r"require 900 tokens.* leaves 500 .*1000, 500, output_rese") as told:
                ask()
            (one,) = told
            assert one.filename == __file__
            assert isinstance(one.message, BudgetWarning)
            assert (one.message.selected_tokens, one.message.available_tokens) == (900, 500)

    def test_asynchronous_runs_say_so_too(self) -> None:
        with pytest.warns(BudgetWarning):
            asyncio.run(self.pipeline(OverflowStrategy.THROW).arun([lambda: list(self.TOOLS)], self.HOLE))

    @pytest.mark.parametrize("overflow", [OverflowStrategy.THROW, OverflowStrategy.TRUNCATE])
    def test_the_budget_it_names_does_not_allow_it(self, overflow: OverflowStrategy) -> None:
        named = ContextBudget(1000, 500, output_reserve=500)
        if overflow is OverflowStrategy.THROW:
            with pytest.raises(BudgetOverflowError):
                self.pipeline(overflow).run(self.TOOLS, named)
        else:
            assert len(self.pipeline(overflow).run(self.TOOLS, named)) == 1

    def test_what_the_window_holds_to_the_token_is_no_warning(self) -> None:
        for strategy in OverflowStrategy:
            self.pipeline(strategy).run(self.TOOLS, ContextBudget(1000, 950, output_reserve=100))

    def test_who_asks_about_many_budgets_is_not_warned(self) -> None:
        prepared = self.pipeline(OverflowStrategy.PROCEED).prepare(self.TOOLS)
        assert len(prepared.run(self.HOLE, warn=False)) == len(prepared.dry_run(self.HOLE, warn=False).included) == 3
        assert len(sweep(prepared, None, [self.HOLE])[0].items) == 3
