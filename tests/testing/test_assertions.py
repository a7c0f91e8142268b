"""All thirteen assertions: what passes, what fails, and with exactly which words."""

import math
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cupel
from cupel import ContextBudget, ContextItem, ContextKind, InclusionReason
from cupel._internal.frozen import FrozenDict
from cupel.diagnostics import (
    KNOWN_REASONS,
    BudgetExceeded,
    Deduplicated,
    ExclusionReason,
    NegativeTokens,
    UnknownReason,
)
from cupel.testing import SelectionReportAssertionChain, SelectionReportAssertionException, should
from tests.testing.reports import excluded, included, report

EMPTY = report()
CHAT = report(
    included(("Message", 0.9), ("message", 0.8), ("ToolOutput", 0.7), ("Message", 0.6)),
    excluded(("Document", 0.5), ("Memory", 0.4, Deduplicated("x")), ("document", 0.25)),
)
BUDGET = ContextBudget(100, 80)


def anything(_entry):
    return True


def nothing(_entry):
    return False


PASSING = {
    "kind": (CHAT, "include_item_with_kind", ("ToolOutput",)),
    "kind, folded": (CHAT, "include_item_with_kind", ("TOOLOUTPUT",)),
    "kind, as a kind": (CHAT, "include_item_with_kind", (ContextKind.MESSAGE,)),
    "matching sees the score": (CHAT, "include_item_matching", (lambda entry: entry.score == 0.7,)),
    "matching sees the reason": (
        CHAT,
        "include_item_matching",
        (lambda entry: entry.reason is InclusionReason.SCORED and entry.item.tokens == 10,),
    ),
    "exactly, spellings together": (CHAT, "include_exactly_n_items_with_kind", ("Message", 3)),
    "exactly none": (CHAT, "include_exactly_n_items_with_kind", ("Document", 0)),
    "exactly none of nothing": (EMPTY, "include_exactly_n_items_with_kind", ("Document", 0)),
    "reason, by class": (CHAT, "exclude_item_with_reason", (Deduplicated,)),
    "reason, by instance, fields ignored": (CHAT, "exclude_item_with_reason", (BudgetExceeded(0, 0),)),
    "reason, by name": (CHAT, "exclude_item_with_reason", ("Deduplicated",)),
    "matching and reason": (
        CHAT,
        "exclude_item_matching_with_reason",
        (lambda item: item.kind == ContextKind("Memory"), Deduplicated),
    ),
    "budget details": (CHAT, "exclude_item_with_budget_details", (lambda item: item.content == "out 2", 10, 3)),
    "budget details, not the first match": (
        report((), excluded(("A", 0.5, BudgetExceeded(10, 7)), ("A", 0.4, BudgetExceeded(10, -60)))),
        "exclude_item_with_budget_details",
        (anything, 10, -60),
    ),
    "no exclusions": (CHAT, "have_no_exclusions_for_kind", ("Message",)),
    "no exclusions at all": (EMPTY, "have_no_exclusions_for_kind", ("Message",)),
    "at least": (CHAT, "have_at_least_n_exclusions", (3,)),
    "at least none": (EMPTY, "have_at_least_n_exclusions", (0,)),
    "sorted": (CHAT, "excluded_items_are_sorted_by_score_descending", ()),
    "sorted, nothing": (EMPTY, "excluded_items_are_sorted_by_score_descending", ()),
    "sorted, tied": (
        report((), excluded(("A", 0.5), ("A", 0.5), ("A", -0.0), ("A", 0.0))),
        "excluded_items_are_sorted_by_score_descending",
        (),
    ),
    "sorted, NaN last": (
        report((), excluded(("A", 0.5), ("A", -math.inf), ("A", math.nan), ("A", math.nan))),
        "excluded_items_are_sorted_by_score_descending",
        (),
    ),
    "utilisation, exactly": (CHAT, "have_budget_utilization_above", (0.4, BUDGET)),
    "utilisation of nothing": (EMPTY, "have_budget_utilization_above", (0.0, BUDGET)),
    "utilisation of an empty window": (EMPTY, "have_budget_utilization_above", (0.0, ContextBudget(0, 0))),
    "utilisation over an empty window": (CHAT, "have_budget_utilization_above", (5, ContextBudget(0, 0))),
    "coverage, folded": (CHAT, "have_kind_coverage_count", (2,)),
    "coverage of nothing": (EMPTY, "have_kind_coverage_count", (0,)),
    "first": (CHAT, "place_item_at_edge", (lambda entry: entry.score == 0.9,)),
    "last": (CHAT, "place_item_at_edge", (lambda entry: entry.score == 0.6,)),
    "last, though the first match is in the middle": (
        CHAT,
        "place_item_at_edge",
        (lambda entry: entry.score in {0.8, 0.6},),
    ),
    "only": (report(included(("A", 0.1))), "place_item_at_edge", (anything,)),
    "no top": (EMPTY, "place_top_n_scored_at_edges", (0,)),
    "U shape": (
        report(included(("A", 0.9), ("A", 0.5), ("A", 0.1), ("A", 0.4), ("A", 0.8))),
        "place_top_n_scored_at_edges",
        (2,),
    ),
    "all at edges": (CHAT, "place_top_n_scored_at_edges", (4,)),
    "tie at the cut, either will do": (
        report(included(("A", 0.9), ("A", 0.5), ("A", 0.5), ("A", 0.9))),
        "place_top_n_scored_at_edges",
        (3,),
    ),
    "tie at the cut, held by a later one": (
        report(included(("A", 0.9), ("A", 0.5), ("A", 0.5))),
        "place_top_n_scored_at_edges",
        (2,),
    ),
    "NaN ranks last": (
        report(included(("A", 0.9), ("A", math.nan), ("A", 0.1))),
        "place_top_n_scored_at_edges",
        (2,),
    ),
    "NaN ties with NaN": (
        report(included(("A", math.nan), ("A", 0.9), ("A", math.nan), ("A", 0.5))),
        "place_top_n_scored_at_edges",
        (4,),
    ),
}

FAILING = {
    "kind": (
        CHAT,
        "include_item_with_kind",
        ("Document",),
        (
            "IncludeItemWithKind(Document) failed: Included contained 0 items with Kind=Document. "
            "Included had 4 items with kinds: [Message, ToolOutput]."
        ),
    ),
    "kind, nothing": (
        EMPTY,
        "include_item_with_kind",
        ("Message",),
        (
            "IncludeItemWithKind(Message) failed: Included contained 0 items with Kind=Message. "
            "Included had 0 items with kinds: []."
        ),
    ),
    "matching": (
        CHAT,
        "include_item_matching",
        (nothing,),
        "IncludeItemMatching failed: no item in Included matched the predicate. Included had 4 items.",
    ),
    "exactly": (
        CHAT,
        "include_exactly_n_items_with_kind",
        ("MESSAGE", 2),
        (
            "IncludeExactlyNItemsWithKind(MESSAGE, 2) failed: expected 2 items with Kind=MESSAGE in Included, "
            "but found 3. Included had 4 items total."
        ),
    ),
    "reason": (
        CHAT,
        "exclude_item_with_reason",
        (NegativeTokens(-1),),
        (
            "ExcludeItemWithReason(NegativeTokens) failed: no excluded item had reason NegativeTokens. "
            "Excluded had 3 items with reasons: [BudgetExceeded, Deduplicated]."
        ),
    ),
    "reason, nothing": (
        EMPTY,
        "exclude_item_with_reason",
        (BudgetExceeded,),
        (
            "ExcludeItemWithReason(BudgetExceeded) failed: no excluded item had reason BudgetExceeded. "
            "Excluded had 0 items with reasons: []."
        ),
    ),
    "matching and reason": (
        CHAT,
        "exclude_item_matching_with_reason",
        (lambda item: item.kind == ContextKind("Document"), Deduplicated),
        (
            "ExcludeItemMatchingWithReason(reason=Deduplicated) failed: predicate matched 2 excluded item(s) "
            "but none had reason Deduplicated. Matched items had reasons: [BudgetExceeded]."
        ),
    ),
    "matching and reason, no match": (
        CHAT,
        "exclude_item_matching_with_reason",
        (nothing, "Filtered"),
        (
            "ExcludeItemMatchingWithReason(reason=Filtered) failed: predicate matched 0 excluded item(s) "
            "but none had reason Filtered. Matched items had reasons: []."
        ),
    ),
    "budget details": (
        CHAT,
        "exclude_item_with_budget_details",
        (anything, 10, 4),
        (
            "ExcludeItemWithBudgetDetails failed: expected BudgetExceeded with item_tokens=10, available_tokens=4, "
            "but found item_tokens=10, available_tokens=3."
        ),
    ),
    "budget details, other reason": (
        CHAT,
        "exclude_item_with_budget_details",
        (lambda item: item.kind == ContextKind("Memory"), 10, 3),
        (
            "ExcludeItemWithBudgetDetails failed: expected BudgetExceeded with item_tokens=10, available_tokens=3, "
            "but no matching item had reason BudgetExceeded."
        ),
    ),
    "no exclusions": (
        CHAT,
        "have_no_exclusions_for_kind",
        ("Document",),
        (
            "HaveNoExclusionsForKind(Document) failed: found 2 excluded item(s) with Kind=Document. "
            "First: score=0.5000, reason=BudgetExceeded."
        ),
    ),
    "at least": (
        CHAT,
        "have_at_least_n_exclusions",
        (4,),
        "HaveAtLeastNExclusions(4) failed: expected at least 4 excluded items, but Excluded had 3.",
    ),
    "sorted": (
        report((), excluded(("A", 0.5), ("A", 0.25), ("A", 1 / 3), ("A", 0.9))),
        "excluded_items_are_sorted_by_score_descending",
        (),
        (
            "ExcludedItemsAreSortedByScoreDescending failed: item at index 2 (score=0.333333) is higher than item at "
            "index 1 (score=0.250000). Expected non-increasing scores."
        ),
    ),
    "utilisation": (
        CHAT,
        "have_budget_utilization_above",
        (0.45, ContextBudget(90, 0)),
        (
            "HaveBudgetUtilizationAbove(0.45) failed: computed utilization was 0.444444 "
            "(includedTokens=40, budget.MaxTokens=90)."
        ),
    ),
    "utilisation of nothing": (
        EMPTY,
        "have_budget_utilization_above",
        (1, ContextBudget(0, 0)),
        (
            "HaveBudgetUtilizationAbove(1.0) failed: computed utilization was 0.000000 "
            "(includedTokens=0, budget.MaxTokens=0)."
        ),
    ),
    "coverage": (
        CHAT,
        "have_kind_coverage_count",
        (3,),
        (
            "HaveKindCoverageCount(3) failed: expected at least 3 distinct ContextKind values in Included, "
            "but found 2: [Message, ToolOutput]."
        ),
    ),
    "edge, in the middle": (
        CHAT,
        "place_item_at_edge",
        (lambda entry: entry.score in {0.8, 0.7},),
        (
            "PlaceItemAtEdge failed: item matching predicate was at index 1 (not at edge). "
            "Edge positions: 0 and 3. Included had 4 items."
        ),
    ),
    "edge, no match": (
        CHAT,
        "place_item_at_edge",
        (nothing,),
        "PlaceItemAtEdge failed: no item in Included matched the predicate.",
    ),
    "edge, nothing": (
        EMPTY,
        "place_item_at_edge",
        (anything,),
        "PlaceItemAtEdge failed: no item in Included matched the predicate.",
    ),
    "top in the middle": (
        report(included(("Message", 0.5), ("Memory", 0.9), ("Document", 0.5))),
        "place_top_n_scored_at_edges",
        (2,),
        (
            "PlaceTopNScoredAtEdges(2) failed: 1 of the top-2 scored items were not at expected edge positions. "
            "Top-2 items (by score): [(kind=Memory, score=0.900000, idx=1), (kind=Message, score=0.500000, idx=0)]. "
            "Expected edge positions: [0, 2]."
        ),
    ),
    "top descending": (
        report(included(("A", 0.9), ("B", 0.8), ("C", 0.7), ("D", 0.6), ("E", 0.5), ("F", 0.4))),
        "place_top_n_scored_at_edges",
        (4,),
        (
            "PlaceTopNScoredAtEdges(4) failed: 2 of the top-4 scored items were not at expected edge positions. "
            "Top-4 items (by score): [(kind=A, score=0.900000, idx=0), (kind=B, score=0.800000, idx=1), "
            "(kind=C, score=0.700000, idx=2), (kind=D, score=0.600000, idx=3)]. "
            "Expected edge positions: [0, 5, 1, 4]."
        ),
    ),
    "top with a NaN at an edge": (
        report(included(("A", math.nan), ("B", 0.9), ("C", 0.5))),
        "place_top_n_scored_at_edges",
        (2,),
        (
            "PlaceTopNScoredAtEdges(2) failed: 1 of the top-2 scored items were not at expected edge positions. "
            "Top-2 items (by score): [(kind=B, score=0.900000, idx=1), (kind=C, score=0.500000, idx=2)]. "
            "Expected edge positions: [0, 2]."
        ),
    ),
    "more than there are": (
        CHAT,
        "place_top_n_scored_at_edges",
        (5,),
        "PlaceTopNScoredAtEdges(5) failed: n=5 exceeds Included count=4.",
    ),
}


@pytest.mark.parametrize(("subject", "assertion", "arguments"), PASSING.values(), ids=PASSING)
def test_passes(subject, assertion, arguments):
    chain = subject.should()
    assert getattr(chain, assertion)(*arguments) is chain


@pytest.mark.parametrize(("subject", "assertion", "arguments", "message"), FAILING.values(), ids=FAILING)
def test_fails_with_the_words_of_the_specification(subject, assertion, arguments, message):
    with pytest.raises(SelectionReportAssertionException) as failure:
        getattr(should(subject), assertion)(*arguments)
    assert str(failure.value) == message
    assert failure.value.report is subject


def test_every_assertion_is_tried_both_ways():
    assertions = {name for name in vars(SelectionReportAssertionChain) if not name.startswith("_")} - {"report"}
    assert len(assertions) == 13
    assert {row[1] for row in PASSING.values()} == {row[1] for row in FAILING.values()} == assertions


def test_a_chain_stops_at_the_first_failure():
    asked = []
    with pytest.raises(SelectionReportAssertionException, match="HaveAtLeastNExclusions"):
        CHAT.should().include_item_with_kind("Message").have_at_least_n_exclusions(9).include_item_matching(
            asked.append
        )
    assert asked == []


def test_the_exception_is_a_failure_not_an_error():
    assert issubclass(SelectionReportAssertionException, AssertionError)
    assert not issubclass(SelectionReportAssertionException, cupel.CupelError)


def test_a_summary_of_up_to_five_items_is_a_note_beside_the_exact_message():
    many = report(included(*[("Message", score / 10) for score in range(7)]))
    with pytest.raises(SelectionReportAssertionException) as failure:
        many.should().include_item_matching(nothing)
    (note,) = failure.value.__notes__
    assert note.splitlines() == [
        "Included:",
        *[f"  kind=Message, score=0.{score}000, reason=Scored" for score in range(5)],
        "  … and 2 more",
    ]


def test_the_note_on_budget_details_names_the_actual_reasons():
    with pytest.raises(SelectionReportAssertionException) as failure:
        CHAT.should().exclude_item_with_budget_details(lambda item: item.kind == ContextKind("Memory"), 10, 3)
    assert failure.value.__notes__ == ["Matching items in Excluded:\n  kind=Memory, score=0.4000, reason=Deduplicated"]


def test_the_note_on_budget_details_lists_every_matching_item_with_its_numbers():
    entries = [("A", 0.5, BudgetExceeded(number, 3)) for number in range(10, 17)]
    with pytest.raises(SelectionReportAssertionException) as failure:
        report((), excluded(*entries)).should().exclude_item_with_budget_details(anything, 99, 3)
    (note,) = failure.value.__notes__
    assert note.splitlines() == [
        "Matching items in Excluded:",
        *(f"  kind=A, score=0.5000, reason=BudgetExceeded, item_tokens={n}, available_tokens=3" for n in range(10, 17)),
    ]


def test_an_empty_selection_needs_no_summary():
    with pytest.raises(SelectionReportAssertionException) as failure:
        EMPTY.should().include_item_matching(anything)
    assert not hasattr(failure.value, "__notes__")


@pytest.mark.parametrize("name", KNOWN_REASONS)
def test_all_ten_reasons_can_be_asserted_by_class_and_name(name):
    subject = report((), excluded(("A", 0.5, _an_instance(KNOWN_REASONS[name]))))
    subject.should().exclude_item_with_reason(KNOWN_REASONS[name]).exclude_item_with_reason(name)
    with pytest.raises(SelectionReportAssertionException, match=f"ExcludeItemWithReason\\({name}\\) failed"):
        EMPTY.should().exclude_item_with_reason(KNOWN_REASONS[name])


def test_a_reason_from_a_newer_producer_is_matched_by_its_name():
    subject = report((), excluded(("A", 0.5, UnknownReason("TooOld", FrozenDict({"age": 3})))))
    subject.should().exclude_item_with_reason("TooOld").exclude_item_with_reason(UnknownReason)
    subject.should().exclude_item_with_reason(UnknownReason("TooOld", FrozenDict()))
    with pytest.raises(SelectionReportAssertionException, match=r"reasons: \[TooOld\]"):
        subject.should().exclude_item_with_reason(UnknownReason("TooNew", FrozenDict()))


@pytest.mark.parametrize(
    ("assertion", "arguments"),
    [
        ("include_exactly_n_items_with_kind", ("A", -1)),
        ("have_at_least_n_exclusions", (-1,)),
        ("have_kind_coverage_count", (-1,)),
        ("place_top_n_scored_at_edges", (-1,)),
    ],
)
def test_a_negative_count_is_refused(assertion, arguments):
    with pytest.raises(ValueError, match="n must be >= 0, got -1"):
        getattr(CHAT.should(), assertion)(*arguments)


@pytest.mark.parametrize(
    ("assertion", "arguments", "message"),
    [
        ("include_item_with_kind", (3,), "kind must be a string, got int: 3"),
        ("include_item_matching", ("Message",), "predicate must be callable, got str: 'Message'"),
        ("have_at_least_n_exclusions", (True,), "n must be an integer, got bool: True"),
        ("have_at_least_n_exclusions", (1.0,), r"n must be an integer, got float: 1\.0"),
        ("exclude_item_with_reason", (ExclusionReason,), "reason must be a class of ExclusionReason, an instance"),
        ("exclude_item_with_reason", (ContextItem,), "reason must be a class of ExclusionReason, an instance"),
        ("exclude_item_with_reason", ("",), "reason must be a class of ExclusionReason, an instance"),
        ("exclude_item_with_budget_details", (anything, "10", 3), "expected_item_tokens must be an integer, got str"),
        ("have_budget_utilization_above", ("0.5", BUDGET), "threshold must be a number, got str: '0.5'"),
        ("have_budget_utilization_above", (0.5, 100), "budget must be a ContextBudget, got int: 100"),
    ],
)
def test_a_wrong_type_is_named(assertion, arguments, message):
    with pytest.raises(TypeError, match=message):
        getattr(CHAT.should(), assertion)(*arguments)


def test_should_wants_a_report():
    with pytest.raises(TypeError, match="report must be a SelectionReport, got list"):
        should([])


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=7), st.integers(0, 7))
def test_top_n_at_edges_agrees_with_trying_every_choice_among_ties(scores, n):
    """The specification in words: some set of n highest scores occupies the n outermost positions."""
    if n > len(scores):
        return
    positions = [side for left in range(len(scores)) for side in (left, len(scores) - 1 - left)]
    edges = list(dict.fromkeys(positions))[:n]
    expected = sorted((scores[index] for index in edges), reverse=True) == sorted(scores, reverse=True)[:n]
    chain = report(included(*[("A", score) for score in scores])).should()
    if expected:
        chain.place_top_n_scored_at_edges(n)
    else:
        with pytest.raises(SelectionReportAssertionException):
            chain.place_top_n_scored_at_edges(n)


def test_the_exception_crosses_a_process_boundary_with_its_report():
    with pytest.raises(SelectionReportAssertionException) as failure:
        CHAT.should().have_at_least_n_exclusions(9)
    copy = pickle.loads(pickle.dumps(failure.value))
    assert (type(copy), str(copy), copy.report) == (type(failure.value), str(failure.value), CHAT)


def test_assertions_work_without_hypothesis_and_pytest():
    code = """
import sys
sys.modules.update(hypothesis=None, pytest=None)
import cupel
from cupel.testing import check_slicer, should
report = cupel.Pipeline(scorer=cupel.RecencyScorer()).dry_run([], cupel.ContextBudget(1, 1))
should(report).have_at_least_n_exclusions(0)
for use in (lambda: __import__("cupel.testing.strategies"), lambda: check_slicer(cupel.GreedySlice())):
    try:
        use()
    except cupel.MissingExtraError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    told = "hypothesis is not installed; install it with: pip install 'cupel-context[testing]'"
    assert done.stdout.splitlines() == [told, told]


def _an_instance(reason: type[ExclusionReason]) -> ExclusionReason:
    return reason(*["x" if field.type is str else 1 for field in _fields(reason)])


def _fields(reason):
    from msgspec.structs import fields

    return fields(reason)
