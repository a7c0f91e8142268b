"""Reports: contents as ruled, helpers, explanations."""

from __future__ import annotations

import cProfile
import pickle
import re
from math import nan
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from cupel import (
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    InclusionReason,
    KnapsackSlice,
    OverflowStrategy,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    Scorer,
    SelectionError,
    SelectionReport,
)
from cupel._internal.frozen import FrozenDict
from cupel.diagnostics import (
    KNOWN_REASONS,
    BudgetExceeded,
    CountCapExceeded,
    CountRequireCandidatesExhausted,
    Deduplicated,
    ExcludedItem,
    Filtered,
    IncludedItem,
    NegativeTokens,
    PinnedOverride,
    QuotaCapExceeded,
    QuotaRequireDisplaced,
    ScoredTooLow,
    UnknownInclusionReason,
    UnknownReason,
    vocabulary,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PIPELINE = Pipeline(scorer=ReflexiveScorer())


def hinted(content: str, tokens: int, hint: float, **fields: Any) -> ContextItem:
    return ContextItem(content, tokens, future_relevance_hint=hint, **fields)


def rows(report: SelectionReport) -> list[tuple[str, float, Any]]:
    return [(entry.item.content, entry.score, entry.reason) for entry in report]


def test_reasons_of_inclusion_pinned_beats_free_beats_scored() -> None:
    items = [
        hinted("p", 0, 0.3, pinned=True),
        hinted("z", 0, 0.7),
        hinted("s", 5, 0.4),
    ]
    assert rows(PIPELINE.dry_run(items, ContextBudget(10, 10))) == [
        ("p", 1.0, InclusionReason.PINNED),
        ("z", 0.7, InclusionReason.ZERO_TOKEN),
        ("s", 0.4, InclusionReason.SCORED),
    ]


def test_excluded_goes_by_score_then_by_time() -> None:
    class ByPriority(Scorer):
        def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
            return float(item.priority or 0)

    items = [
        ContextItem("out", 60, priority=0),
        ContextItem("below", 70, priority=-1),
        ContextItem("dup", 90, priority=0),
        ContextItem("dup", 90, priority=0),
        ContextItem("neg", -5, priority=9),
    ]
    report = Pipeline(scorer=ByPriority()).dry_run(items, ContextBudget(50, 50))
    assert rows(report) == [
        ("neg", 0.0, NegativeTokens(-5)),
        ("dup", 0.0, Deduplicated("dup")),
        ("out", 0.0, BudgetExceeded(60, 50)),
        ("dup", 0.0, BudgetExceeded(90, 50)),
        ("below", -1.0, BudgetExceeded(70, 50)),
    ]
    assert (report.total_candidates, report.total_tokens_considered) == (5, 305)


def test_nan_scores_come_last() -> None:
    class Lost(Scorer):
        def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
            return nan if item.content == "nan" else -1.0

    report = Pipeline(scorer=Lost()).dry_run([ContextItem("nan", 9), ContextItem("low", 9)], ContextBudget(5, 5))
    assert [entry.item.content for entry in report.excluded] == ["low", "nan"]


def test_available_tokens_is_one_number_for_the_run() -> None:
    items = [hinted("a", 60, 0.9), hinted("b", 50, 0.2), hinted("c", 45, 0.1)]
    report = PIPELINE.dry_run(items, ContextBudget(100, 100))
    assert {entry.reason for entry in report.excluded} == {BudgetExceeded(50, 40), BudgetExceeded(45, 40)}


def test_available_tokens_may_be_negative() -> None:
    slicer = CountQuotaSlice([CountQuotaEntry("t", 2, 2)])
    items = [hinted("a", 80, 0.9, kind="t"), hinted("b", 80, 0.8, kind="t"), hinted("c", 5, 0.1)]
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=OverflowStrategy.PROCEED)
    assert pipeline.dry_run(items, ContextBudget(500, 100)).excluded[0].reason == BudgetExceeded(5, -60)


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [(350, PinnedOverride("pin")), (200, BudgetExceeded(200, 150)), (501, BudgetExceeded(501, 150))],
)
def test_pins_are_blamed_at_slice_only_for_what_they_alone_prevent(tokens: int, reason: object) -> None:
    """Effective target 200 with the pin of 300, 500 without it; 50 go to another item."""
    items = [
        ContextItem("free pin", 0, pinned=True),
        ContextItem("pin", 300, pinned=True),
        hinted("in", 50, 1.0),
        hinted("x", tokens, 0.1),
    ]
    report = PIPELINE.dry_run(items, ContextBudget(1000, 500, output_reserve=300))
    assert report.why(items[3]).reason == reason


@pytest.mark.parametrize(("tokens", "reason"), [(100, PinnedOverride("pin")), (101, BudgetExceeded(101, 99))])
def test_a_pin_of_a_single_token_can_be_to_blame(tokens: int, reason: object) -> None:
    pin, item = ContextItem("pin", 1, pinned=True), hinted("x", tokens, 0.1, kind="k")
    sliced = PIPELINE.dry_run([pin, item], ContextBudget(200, 100))
    assert sliced.why(item).reason == reason
    required = CountQuotaSlice([CountQuotaEntry("k", 1, 1)])
    truncating = Pipeline(scorer=ReflexiveScorer(), slicer=required, overflow=OverflowStrategy.TRUNCATE)
    assert truncating.dry_run([pin, item], ContextBudget(200, 100)).why(item).reason == reason


def test_pins_without_tokens_are_never_to_blame() -> None:
    pin, item = ContextItem("pin", 0, pinned=True), hinted("x", 101, 0.1)
    assert PIPELINE.dry_run([pin, item], ContextBudget(200, 100)).why(item).reason == BudgetExceeded(101, 100)


def test_an_item_that_fits_alone_beside_the_pins_is_not_their_fault() -> None:
    items = [ContextItem("p", 50, pinned=True), hinted("a", 60, 0.9), hinted("b", 60, 0.8)]
    report = PIPELINE.dry_run(items, ContextBudget(150, 150))
    assert report.excluded[0].reason == BudgetExceeded(60, 40)


def test_truncation_blames_pins_or_the_budget() -> None:
    slicer = CountQuotaSlice([CountQuotaEntry("k", 3, 3)])
    items = [
        ContextItem("pin", 10, pinned=True),
        hinted("big", 150, 0.9, kind="k"),
        hinted("m", 95, 0.8, kind="k"),
        hinted("s", 20, 0.7, kind="k"),
    ]
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=OverflowStrategy.TRUNCATE)
    report = pipeline.dry_run(items, ContextBudget(1000, 100))
    assert [(entry.item.content, entry.reason) for entry in report.excluded] == [
        ("big", BudgetExceeded(150, 70)),
        ("m", PinnedOverride("pin")),
    ]
    assert "dropped at Place" in report.explain(items[1])


def test_count_caps_and_shortfalls_reach_the_report() -> None:
    slicer = CountQuotaSlice([CountQuotaEntry("Tool", 0, 1), CountQuotaEntry("Memo", 2, 2)])
    items = [hinted(c, 100, s, kind="TOOL") for c, s in (("a", 0.9), ("b", 0.8), ("c", 0.7))]
    report = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run(items, ContextBudget(250, 250))
    assert [entry.reason for entry in report.excluded] == [CountCapExceeded("TOOL", 1, 1)] * 2
    assert [(s.kind, s.required_count, s.satisfied_count) for s in report.count_requirement_shortfalls] == [
        ("Memo", 2, 0)
    ]
    assert report.explain().splitlines()[-1] == "Short of Memo: 2 required, 0 found."


def test_quota_exclusions_are_budget_exclusions_even_with_room() -> None:
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=QuotaSlice([QuotaEntry("Message", cap=10)]))
    report = pipeline.dry_run([hinted("a", 50, 0.9)], ContextBudget(100, 100))
    assert report.excluded[0].reason == BudgetExceeded(50, 100)
    assert "needs 50, 100 left unspent." in report.explain()


class TestHelpers:
    ITEMS = (hinted("keep me", 60, 0.9), hinted("drop me", 60, 0.1), hinted("drop too", 60, 0.05))
    REPORT = PIPELINE.dry_run(ITEMS, ContextBudget(100, 100))

    def test_why_prefers_identity_to_equality(self) -> None:
        twins = [hinted("x", 60, 0.9), hinted("x", 60, 0.9)]
        report = Pipeline(scorer=ReflexiveScorer(), deduplicate=False).dry_run(twins, ContextBudget(100, 100))
        assert isinstance(report.why(twins[0]), IncludedItem)
        assert isinstance(report.why(twins[1]), ExcludedItem)
        assert isinstance(report.why(hinted("x", 60, 0.9)), IncludedItem)

    def test_why_of_a_stranger(self) -> None:
        with pytest.raises(SelectionError, match="no decision on ContextItem"):
            self.REPORT.why(ContextItem("stranger", 1))

    def test_find(self) -> None:
        assert [entry.item.content for entry in self.REPORT.find("drop")] == ["drop me", "drop too"]
        assert self.REPORT.find("none") == []

    def test_len_iteration_and_repr(self) -> None:
        assert len(self.REPORT) == 3
        assert [entry.item for entry in self.REPORT] == list(self.ITEMS)
        assert repr(self.REPORT) == "<SelectionReport: 1 in (60 tokens), 2 out: 2 BudgetExceeded>"
        assert repr(PIPELINE.dry_run([], ContextBudget(1, 1))) == "<SelectionReport: 0 in (0 tokens), 0 out>"

    def test_a_copy_leaves_its_origin_behind(self) -> None:
        twin = pickle.loads(pickle.dumps(self.REPORT))
        assert twin == self.REPORT
        with pytest.raises(SelectionError, match="counterfactual needs a report of dry_run"):
            twin.counterfactual(self.ITEMS[1])

    def test_durations_count_for_equality(self) -> None:
        other = PIPELINE.dry_run(self.ITEMS, ContextBudget(100, 100))
        assert other != self.REPORT
        assert (other.included, other.excluded) == (self.REPORT.included, self.REPORT.excluded)


class TestExplain:
    def test_an_included_item(self) -> None:
        report, (keep, *_) = TestHelpers.REPORT, TestHelpers.ITEMS
        assert report.explain(keep) == "'keep me' is in: its score of 0.9 (rank 1 of 3) earned it its 60 tokens."

    def test_an_excluded_item_with_the_budget_that_lets_it_in(self) -> None:
        report, (_, drop, _) = TestHelpers.REPORT, TestHelpers.ITEMS
        assert report.explain(drop) == (
            "'drop me' is dropped at Slice (score 0.1): needs 60, 40 left. It gets in with 20 more tokens of budget."
        )

    def test_an_item_no_budget_lets_in(self) -> None:
        items = [hinted("worthless", 10, 0.0)]
        report = Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice(1)).dry_run(items, ContextBudget(100, 100))
        assert report.explain(items[0]).endswith("No larger budget would let it in.")

    def test_a_report_that_was_read_explains_without_origin(self) -> None:
        report = SelectionReport.from_json(TestHelpers.REPORT.to_json())
        text = report.explain(TestHelpers.ITEMS[1])
        assert text == "'drop me' is out (score 0.1): needs 60, 40 left."

    def test_everything(self) -> None:
        lines = TestHelpers.REPORT.explain().splitlines()
        assert lines[0] == "1 of 3 items are in, with 60 of the 180 tokens considered."
        assert len(lines) == 4

    def test_pins_free_items_and_long_contents(self) -> None:
        items = [ContextItem("p " * 50, 5, pinned=True), ContextItem("z", 0)]
        lines = PIPELINE.dry_run(items, ContextBudget(10, 10)).explain().splitlines()
        assert lines[1].endswith(
            "…' is in: it is pinned, so its 5 tokens come off the budget before anything else is weighed."
        )
        assert lines[2] == "'z' is in: it costs no tokens."

    @pytest.mark.parametrize(
        ("reason", "says"),
        [
            (PinnedOverride("p"), "is out (score 0): fits without the pinned “p”."),
            (CountCapExceeded("T", 2, 2), "is dropped at Slice (score 0): 2 of kind T are enough."),
            (Deduplicated("x"), "is dropped at Deduplicate (score 0): same text as another item."),
            (NegativeTokens(-1), "is dropped at Classify (score 0): token count is -1."),
            (ScoredTooLow(0.1, 0.2), "score 0.1 is under the threshold of 0.2."),
            (QuotaCapExceeded("T", 3, 4), "with it, kind T would take 4, more than its cap of 3."),
            (QuotaRequireDisplaced("T"), "kind T requires the room."),
            (Filtered("age"), "the filter “age” removed it."),
            (CountRequireCandidatesExhausted("T"), "kind T has fewer candidates than required."),
            (UnknownReason("Eaten", FrozenDict({"by": "dog"})), "Eaten (by='dog')."),
            (UnknownReason("Eaten", FrozenDict()), "Eaten."),
        ],
    )
    def test_every_reason_has_words(self, reason: Any, says: str) -> None:
        report = SelectionReport((), (), (ExcludedItem(ContextItem("x", 1), 0.0, reason),), 1, 1)
        assert says in report.explain()

    def test_a_cap_is_not_named_as_a_remedy_that_no_run_confirms(self) -> None:
        tools = [ContextItem(str(n), 100, kind="ToolOutput", future_relevance_hint=0.9 - n / 10) for n in range(3)]
        slicer = CountQuotaSlice([CountQuotaEntry("ToolOutput", 0, 1)])
        report = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run(tools, ContextBudget(250, 250))
        assert report.explain(tools[2]) == (
            "'2' is dropped at Slice (score 0.7): 1 of kind ToolOutput are enough. No larger budget would let it in."
        )

    def test_duplicates_are_not_told_that_both_would_fit(self) -> None:
        twins = [hinted("x", 60, 0.9), hinted("x", 60, 0.5)]
        report = PIPELINE.dry_run(twins, ContextBudget(100, 100))
        assert report.explain(twins[1]) == "'x' is dropped at Deduplicate (score 0.5): same text as another item."

    def test_an_item_is_ranked_among_those_it_competed_with(self) -> None:
        items = [ContextItem("pin", 5, pinned=True), hinted("a", 5, 0.9), hinted("b", 5, 0.5), hinted("b", 5, 0.4)]
        report = PIPELINE.dry_run(items, ContextBudget(100, 100))
        assert report.explain(items[1]) == "'a' is in: its score of 0.9 (rank 1 of 2) earned it its 5 tokens."
        alone = hinted("c", 1, 0.3)
        told = PIPELINE.dry_run([alone], 5).explain(alone)
        assert told == "'c' is in: its score of 0.3 (rank 1 of 1) earned it its 1 token."

    def test_a_text_finds_its_item(self) -> None:
        report = TestHelpers.REPORT
        assert report.explain("drop too") == report.explain(TestHelpers.ITEMS[2])
        assert report.explain("keep") == report.explain(TestHelpers.ITEMS[0])
        with pytest.raises(SelectionError, match="starts with 'nothing'"):
            report.explain("nothing")

    def test_the_work_grows_with_the_pool_and_no_faster(self) -> None:
        def calls(count: int) -> int:
            items = [hinted(str(n), 10, n / count) for n in range(count)]
            report = PIPELINE.dry_run(items, ContextBudget(100, 100))
            profile = cProfile.Profile()
            profile.runcall(report.explain)
            return sum(entry.callcount for entry in profile.getstats())

        assert calls(800) < 10 * calls(100)

    def test_every_known_reason_is_in_the_vocabulary(self) -> None:
        words = vocabulary()
        assert list(words) == list(KNOWN_REASONS)
        assert all(entry["title"] and entry["templates"] for entry in words.values())
        for name, entry in words.items():
            fields = {field.encode_name for field in msgspec.structs.fields(KNOWN_REASONS[name])}
            used = {found for saying in entry["templates"] for found in re.findall(r"\{-?(\w+)\}", saying["text"])}
            assert used <= fields
            assert entry["templates"][-1]["when"] is None

    def test_an_inclusion_reason_from_the_future(self) -> None:
        entry = IncludedItem(ContextItem("x", 1), 0.5, UnknownInclusionReason("Lucky"))
        assert SelectionReport((), (entry,), (), 1, 1).explain().endswith("'x' is in: Lucky.")
