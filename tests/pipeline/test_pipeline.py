"""The run path: stages, pins, overflow, what strategies may break, and what never changes."""

from __future__ import annotations

import logging
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cupel import (
    BudgetOverflowError,
    ChronologicalPlacer,
    CompositeScorer,
    ContextBudget,
    ContextItem,
    DiagnosticTraceCollector,
    GreedySlice,
    KindScorer,
    OverflowStrategy,
    PinnedExceedsBudgetError,
    Pipeline,
    PipelineConfigError,
    Placer,
    RecencyScorer,
    ReflexiveScorer,
    ScoredItem,
    Scorer,
    Slicer,
    StrategyContractError,
    UShapedPlacer,
)
from cupel.pipeline import effective_budget

if TYPE_CHECKING:
    from collections.abc import Sequence

from tests.pools import REFLEXIVE, START, budget, contents, hinted


class TestInput:
    def test_empty(self) -> None:
        assert REFLEXIVE.run([], budget(10)) == []

    def test_any_iterable_works_once(self) -> None:
        assert contents(REFLEXIVE.run((hinted(c, 1, 0.5) for c in "ab"), budget(10))) == ["a", "b"]

    def test_the_callers_list_is_left_alone(self) -> None:
        items = [hinted("a", 1, 0.1), hinted("b", -1, 0.2), hinted("c", 1, 0.3)]
        before = list(items)
        REFLEXIVE.run(items, budget(10))
        assert items == before

    @pytest.mark.parametrize("bad", [None, "text", 5])
    def test_what_is_no_item_is_named(self, bad: object) -> None:
        with pytest.raises(TypeError, match=r"items\[1\] must be a ContextItem, got"):
            REFLEXIVE.run([hinted("a", 1, 0.5), bad], budget(10))  # type: ignore[list-item]

    @pytest.mark.parametrize("bad", [None, "text", 5])
    def test_what_is_no_item_is_named_when_nothing_else_is_there(self, bad: object) -> None:
        with pytest.raises(TypeError, match=r"items\[0\] must be a ContextItem, got"):
            REFLEXIVE.run([bad], budget(10))  # type: ignore[list-item]

    def test_a_subclass_is_an_item(self) -> None:
        class Special(ContextItem, frozen=True):
            pass

        assert REFLEXIVE.run([Special("a", 1)], budget(10))[0].content == "a"
        assert contents(REFLEXIVE.run([hinted("b", 1, 0.9), Special("a", 1)], budget(10))) == ["b", "a"]

    @pytest.mark.parametrize("bad", [1.5, True, None, {"max_tokens": 5}])
    def test_what_is_no_budget_is_named(self, bad: Any) -> None:
        for ask in (REFLEXIVE.run, REFLEXIVE.select, REFLEXIVE.dry_run):
            with pytest.raises(TypeError, match="budget must be a ContextBudget or an integer, got"):
                ask([], bad)
        prepared = REFLEXIVE.prepare([])
        for question in (prepared.run, prepared.select, prepared.dry_run, prepared.included):
            with pytest.raises(TypeError, match="budget must be a ContextBudget or an integer, got"):
                question(bad)

    @pytest.mark.parametrize("number", [7, np.int64(7)])
    def test_a_number_is_a_window_to_be_filled(self, number: int) -> None:
        items = [hinted("a", 5, 0.9), hinted("b", 5, 0.8), hinted("c", 2, 0.1)]
        assert contents(REFLEXIVE.run(items, number)) == ["a", "c"]
        assert REFLEXIVE.select(items, number).budget == ContextBudget(7, 7)
        assert len(REFLEXIVE.dry_run(items, number).included) == 2
        prepared = REFLEXIVE.prepare(items)
        assert contents(prepared.run(number)) == contents(prepared.included(number)) == ["a", "c"]
        assert prepared.select(number).budget == ContextBudget(7, 7)

    @pytest.mark.parametrize("bad", [5, None, object()])
    def test_what_is_no_iterable_is_named(self, bad: Any) -> None:
        with pytest.raises(TypeError, match="items must be an iterable of ContextItem, got"):
            REFLEXIVE.run(bad, 5)

    @pytest.mark.parametrize("bad", [5, "trace", DiagnosticTraceCollector, print])
    def test_what_is_no_collector_is_named(self, bad: Any) -> None:
        with pytest.raises(TypeError, match="trace must be a trace collector, got"):
            REFLEXIVE.run([], 5, trace=bad)

    def test_values_in_messages_are_short(self) -> None:
        with pytest.raises(TypeError) as caught:
            REFLEXIVE.run(["x" * 1_000_000], 5)  # type: ignore[list-item]
        assert len(str(caught.value)) < 400

    @pytest.mark.parametrize("deduplicate", [True, False])
    def test_what_happens_to_the_list_during_a_run_changes_nothing(self, deduplicate: bool) -> None:
        class Meddler(Scorer):
            def score_all(self, items: Sequence[ContextItem]) -> list[float]:
                given[0] = ContextItem("replaced", 102)
                given.append(ContextItem("grown", 1))
                scores = [1 / (1 + item.tokens) for item in items]
                items.sort(key=lambda item: item.tokens)  # type: ignore[attr-defined]
                return scores

            def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
                raise NotImplementedError

        first, second = ContextItem("b", 9), ContextItem("a", 1)
        given = [first, second]
        report = Pipeline(scorer=Meddler(), deduplicate=deduplicate).dry_run(given, 10)
        assert [(entry.item, entry.score) for entry in report.included] == [(second, 0.5), (first, 0.1)]
        assert [item.content for item in given] == ["replaced", "a", "grown"]


class TestStrategiesThatRaise:
    """What a strategy raises arrives as it is, with a note that names the strategy and what it was about."""

    ITEMS = (hinted("first", 1, 0.5), hinted("second", 2, 0.5))

    class Divides(Scorer):
        def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
            return 1 / (item.tokens - 2)

    class Refuses(Slicer):
        def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
            raise LookupError

    class Loses(Placer):
        def place(self, scored: Sequence[ScoredItem]) -> list[ContextItem]:
            raise LookupError

    @pytest.mark.parametrize(
        ("fields", "error", "note"),
        [
            (
                {"scorer": Divides()},
                ZeroDivisionError,
                "Divides.score, for item 2 of 2: ContextItem(content='second', tokens=2, future_relevance_hint=0.5)",
            ),
            (
                {"scorer": CompositeScorer([(Divides(), 1)])},
                ZeroDivisionError,
                "Divides.score, for item 2 of 2: ContextItem(content='second', tokens=2, future_relevance_hint=0.5)",
            ),
            ({"slicer": Refuses()}, LookupError, "Refuses.slice, for 2 items and a target of 9 tokens"),
            ({"placer": Loses()}, LookupError, "Loses.place, for 2 items"),
        ],
    )
    def test_the_note(self, fields: dict[str, Any], error: type[Exception], note: str) -> None:
        with pytest.raises(error) as caught:
            Pipeline(**{"scorer": ReflexiveScorer(), **fields}).run(self.ITEMS, 9)
        assert caught.value.__notes__ == [note]

    def test_a_score_that_is_no_number_names_its_item(self) -> None:
        class Words(Scorer):
            def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> Any:
                return 0.5 if item.content == "first" else "high"

        with pytest.raises(StrategyContractError, match=r"got str: 'high' for ContextItem\(content='second'"):
            Pipeline(scorer=Words()).run(self.ITEMS, 9)


class OnlyScore:
    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        return 0.5


class OnlySlice:
    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        return []


class TestConfiguration:
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"scorer": None}, "scorer must be a Scorer, got NoneType"),
            ({"scorer": RecencyScorer}, "scorer must be a Scorer, got ABCMeta"),
            ({"scorer": OnlyScore()}, r"scorer must be a Scorer, .*; derive OnlyScore from cupel\.Scorer$"),
            ({"scorer": OnlyScore}, r"scorer must be a Scorer, .*; derive OnlyScore from cupel\.Scorer$"),
            ({"slicer": OnlySlice()}, r"slicer must be a Slicer, .*; derive OnlySlice from cupel\.Slicer$"),
            ({"slicer": "greedy"}, "slicer must be a Slicer, got str"),
            ({"placer": None}, "placer must be a Placer, got NoneType"),
            ({"deduplicate": 1}, "deduplicate must be a bool, got int"),
            ({"overflow": "throw"}, "overflow must be an OverflowStrategy, got str"),
            ({"on_overflow": 5, "overflow": OverflowStrategy.PROCEED}, "on_overflow must be callable, got int"),
        ],
    )
    def test_wrong_types(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(TypeError, match=says):
            Pipeline(**{"scorer": RecencyScorer(), **fields})

    @pytest.mark.parametrize(
        ("policy", "says"),
        [
            ("mine.toml", "read a file with cupel.policy.load"),
            ({"scorer": "recency"}, "read a document with cupel.policy.from_dict"),
            (7, "policy must be a Pipeline, got int: 7$"),
        ],
    )
    def test_a_policy_of_another_type_is_told_how_to_become_one(self, policy: object, says: str) -> None:
        with pytest.raises(TypeError, match=says):
            Pipeline.of(policy)

    def test_on_overflow_goes_with_proceed_only(self) -> None:
        with pytest.raises(PipelineConfigError, match=r"on_overflow goes with OverflowStrategy.PROCEED only"):
            Pipeline(scorer=RecencyScorer(), on_overflow=print)

    def test_defaults_and_value_semantics(self) -> None:
        pipeline = Pipeline(scorer=RecencyScorer())
        assert pipeline == Pipeline(
            scorer=RecencyScorer(),
            slicer=GreedySlice(),
            placer=ChronologicalPlacer(),
            deduplicate=True,
            overflow=OverflowStrategy.THROW,
        )
        assert pickle.loads(pickle.dumps(pipeline)) == pipeline
        with pytest.raises(AttributeError):
            pipeline.deduplicate = False  # type: ignore[misc]


class TestClassify:
    def test_negative_counts_are_dropped_even_when_pinned(self) -> None:
        items = [hinted("n", -5, 1.0), hinted("pn", -5, 1.0, pinned=True), hinted("a", 5, 0.1)]
        assert contents(REFLEXIVE.run(items, budget(10))) == ["a"]

    def test_pins_are_checked_against_the_window_less_the_reserve(self) -> None:
        pinned = [hinted("p", 70, 0, pinned=True)]
        with pytest.raises(PinnedExceedsBudgetError) as caught:
            REFLEXIVE.run(pinned, ContextBudget(100, 10, output_reserve=31))
        assert (caught.value.pinned_tokens, caught.value.available_tokens) == (70, 69)
        proceed = Pipeline(scorer=ReflexiveScorer(), overflow=OverflowStrategy.PROCEED)
        assert contents(proceed.run(pinned, ContextBudget(100, 10, output_reserve=30))) == ["p"]

    def test_reserved_slots_do_not_count_against_pins(self) -> None:
        items = [hinted("p", 500, 0, pinned=True)]
        assert REFLEXIVE.run(items, budget(1000, reserved_slots={"Tool": 600})) == items

    def test_pins_that_do_not_fit_are_found_before_anything_is_scored(self) -> None:
        class Untouchable(Scorer):
            def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
                raise AssertionError

        items = [ContextItem("p", 70, pinned=True), ContextItem("a", 1)]
        with pytest.raises(PinnedExceedsBudgetError):
            Pipeline(scorer=Untouchable()).run(items, budget(60))

    def test_pins_alone_never_reach_the_scorer(self) -> None:
        class Untouchable(Scorer):
            def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
                raise AssertionError

        items = [ContextItem("p", 10, pinned=True)]
        assert Pipeline(scorer=Untouchable()).run(items, budget(60)) == items


class TestScore:
    def test_the_scorer_sees_scoreable_items_only_and_one_list(self) -> None:
        seen: list[tuple[str, int, list[str]]] = []

        class Spy(Scorer):
            def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
                seen.append((item.content, id(all_items), [peer.content for peer in all_items]))
                return 0.5

        items = [ContextItem("a", 1), ContextItem("p", 1, pinned=True), ContextItem("n", -1), ContextItem("b", 1)]
        Pipeline(scorer=Spy()).run(items, budget(10))
        assert [content for content, _, _ in seen] == ["a", "b"]
        assert {tuple(peers) for _, _, peers in seen} == {("a", "b")}
        assert len({identity for _, identity, _ in seen}) == 1

    def test_a_score_that_is_no_number_names_the_scorer(self) -> None:
        class Wordy(Scorer):
            def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
                return "high"  # type: ignore[return-value]

        with pytest.raises(StrategyContractError, match="Wordy broke its contract: a score must be a number, got str"):
            Pipeline(scorer=Wordy()).run([ContextItem("a", 1)], budget(10))


class TestDeduplicate:
    def test_the_best_copy_stays_and_ties_keep_the_first(self) -> None:
        low, high, same = hinted("x", 1, 0.1), hinted("x", 2, 0.9), hinted("x", 3, 0.9)
        assert REFLEXIVE.run([low, high, same], budget(10))[0] is high

    def test_contents_differ_by_a_single_code_point(self) -> None:
        items = [hinted(content, 1, 0.5) for content in ("é", "e\u0301", "é ", "É")]
        assert len(REFLEXIVE.run(items, budget(10))) == 4

    def test_hundreds_of_copies(self) -> None:
        items = [hinted(str(number % 350), 1, number / 700) for number in range(700)]
        assert [id(item) for item in REFLEXIVE.run(items, budget(700))] == [id(item) for item in reversed(items[350:])]
        report = REFLEXIVE.dry_run(items, budget(700))
        assert [id(entry.item) for entry in report.excluded] == [id(item) for item in reversed(items[:350])]

    def test_pins_take_no_part(self) -> None:
        items = [hinted("x", 1, 0, pinned=True), hinted("x", 1, 0, pinned=True), hinted("x", 1, 0.5)]
        assert len(REFLEXIVE.run(items, budget(10))) == 3

    def test_nan_keeps_the_first(self) -> None:
        class First(Scorer):
            def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
                return nan if item is all_items[0] else inf

        items = [ContextItem("x", 1), ContextItem("x", 2)]
        assert Pipeline(scorer=First()).run(items, budget(10))[0] is items[0]

    def test_switched_off(self) -> None:
        pipeline = Pipeline(scorer=ReflexiveScorer(), deduplicate=False)
        assert len(pipeline.run([hinted("x", 1, 0.5), hinted("x", 1, 0.5)], budget(10))) == 2


class TestSlice:
    @pytest.mark.parametrize(
        ("fields", "pinned", "effective"),
        [
            ({}, 0, (1000, 800)),
            ({"output_reserve": 300}, 0, (700, 700)),
            ({"output_reserve": 100}, 50, (850, 750)),
            ({"reserved_slots": {"a": 100, "b": 50}}, 10, (840, 640)),
            ({"reserved_slots": {"a": 5000}}, 0, (0, 0)),
            ({"estimation_safety_margin_percent": 7.0}, 0, (929, 744)),
            ({"estimation_safety_margin_percent": 100.0}, 0, (0, 0)),
            ({"estimation_safety_margin_percent": 10.0, "output_reserve": 500}, 100, (360, 360)),
            ({}, 900, (100, 0)),
        ],
    )
    def test_effective_budget(self, fields: dict[str, Any], pinned: int, effective: tuple[int, int]) -> None:
        found = effective_budget(ContextBudget(1000, 800, **fields), pinned)
        assert (found.max_tokens, found.target_tokens) == effective
        assert (found.output_reserve, dict(found.reserved_slots), found.estimation_safety_margin_percent) == (
            0,
            {},
            0.0,
        )

    def test_the_margin_floors_in_doubles(self) -> None:
        assert effective_budget(ContextBudget(100, 100, estimation_safety_margin_percent=34), 0).target_tokens == 65

    def test_without_a_margin_the_largest_budget_is_exact(self) -> None:
        huge = 2**53
        for pinned in (0, 2):
            found = effective_budget(ContextBudget(huge, huge), pinned)
            assert (found.max_tokens, found.target_tokens) == (huge - pinned, huge - pinned)

    def test_without_room_even_free_items_go(self) -> None:
        items = [hinted("p", 100, 0, pinned=True), hinted("z", 0, 0.9)]
        assert contents(REFLEXIVE.run(items, budget(100))) == ["p"]

    def test_the_selection_is_taken_from_the_sorted_list(self) -> None:
        """Greedy returns the dense item first; without timestamps the order is still that of the scores."""
        assert contents(REFLEXIVE.run([hinted("B", 50, 0.5), hinted("A", 300, 0.9)], budget(1000))) == ["A", "B"]

    def test_u_shape_of_equal_scores_follows_the_sorted_list(self) -> None:
        items = [hinted("X", 300, 0.5), hinted("Y", 100, 0.5), hinted("Z", 200, 0.5)]
        pipeline = Pipeline(scorer=ReflexiveScorer(), placer=UShapedPlacer())
        assert contents(pipeline.run(items, budget(1000))) == ["X", "Z", "Y"]

    def test_one_object_listed_twice_is_two_candidates(self) -> None:
        item = hinted("x", 60, 0.5)
        pipeline = Pipeline(scorer=ReflexiveScorer(), deduplicate=False)
        assert len(pipeline.run([item, item], budget(100))) == 1
        assert len(pipeline.run([item, item], budget(120))) == 2

    def test_a_slicer_that_breaks_its_contract_is_named(self) -> None:
        class Doubling(Slicer):
            def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
                return [scored[0].item, scored[0].item]

        with pytest.raises(
            StrategyContractError, match="Doubling broke its contract: slice returned an item more often"
        ):
            Pipeline(scorer=ReflexiveScorer(), slicer=Doubling()).run([hinted("x", 1, 1)], budget(10))

    def test_a_slicer_that_selects_too_much_overflows(self) -> None:
        class Everything(Slicer):
            def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
                return [entry.item for entry in scored]

        with pytest.raises(BudgetOverflowError):
            Pipeline(scorer=ReflexiveScorer(), slicer=Everything()).run([hinted("x", 11, 1)], budget(10))


class TestPlace:
    def test_pins_come_first_among_the_undated(self) -> None:
        items = [
            hinted("a", 1, 0.9),
            hinted("p", 1, 0, pinned=True),
            hinted("t", 1, 0.1, timestamp=START),
            hinted("q", 1, 0, pinned=True),
        ]
        assert contents(REFLEXIVE.run(items, budget(10))) == ["t", "p", "q", "a"]

    def test_pins_score_one(self) -> None:
        pipeline = Pipeline(scorer=KindScorer({"Message": 1.0, "Big": 2.0}), placer=UShapedPlacer())
        items = [ContextItem("m", 1), ContextItem("b", 1, kind="Big"), ContextItem("p", 1, pinned=True)]
        assert contents(pipeline.run(items, budget(10))) == ["b", "m", "p"]

    def test_a_placer_that_loses_an_item_is_named(self) -> None:
        class Lossy(Placer):
            def place(self, scored: Sequence[ScoredItem]) -> list[ContextItem]:
                return [entry.item for entry in scored[1:]]

        with pytest.raises(StrategyContractError, match="Lossy broke its contract: place returned 0 of the 1 items"):
            Pipeline(scorer=ReflexiveScorer(), placer=Lossy()).run([hinted("x", 1, 1)], budget(10))


class TestSelect:
    def test_items_and_report_belong_together(self) -> None:
        result = REFLEXIVE.select([hinted("a", 3, 0.5), hinted("b", 4, 0.4), hinted("c", 9, 0.1)], budget(10))
        assert contents(result.items) == ["a", "b"]
        assert [entry.item for entry in result.report.included] == result.items
        assert (result.total_tokens, len(result), list(result), result.budget) == (7, 2, result.items, budget(10))


class TestSharing:
    def test_threads_share_a_pipeline(self) -> None:
        rng = random.Random(1)
        pools = [[hinted(f"{n}-{i}", rng.randint(1, 50), rng.random()) for i in range(80)] for n in range(8)]
        alone = [REFLEXIVE.run(pool, budget(500)) for pool in pools]
        with ThreadPoolExecutor(8) as threads:
            together = list(threads.map(lambda pool: REFLEXIVE.run(pool, budget(500)), pools * 20))
        assert together == alone * 20


class TestLogging:
    def test_one_debug_line_a_run(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG, logger="cupel"):
            REFLEXIVE.run([hinted("a", 3, 0.5)], budget(10))
            REFLEXIVE.dry_run([hinted("a", 3, 0.5)], budget(10))
        assert [record.getMessage() for record in caplog.records] == ["selected 1 items, 3 of 10 target tokens"] * 2

    def test_nothing_otherwise(self, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
        with caplog.at_level(logging.INFO, logger="cupel"):
            REFLEXIVE.run([hinted("a", 3, 0.5)], budget(10))
        assert caplog.records == []
        assert capfd.readouterr() == ("", "")
        assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("cupel").handlers)
