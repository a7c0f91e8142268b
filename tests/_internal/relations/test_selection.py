"""Selections keep to the relations of their candidates, whichever slicer makes them."""

from math import floor

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cupel import (
    BestFirstSlice,
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    InvalidItemError,
    KnapsackSlice,
    OverflowStrategy,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    ScoredItem,
    Slicer,
    StreamSlice,
    TableTooLargeError,
    forms,
)
from cupel.analytics import counterfactual
from cupel.slicers import Chooser, Selection
from tests.oracle.generators import law
from tests.oracle.relations import best_value, breaches, greedy, value
from tests.pools import related_items


class Everything(Slicer):
    """Someone else's slicer, which knows neither relations nor budgets."""

    def slice(self, scored, budget):
        return [entry.item for entry in scored] if budget.target_tokens > 0 else []


class EverythingPrepared(Slicer):
    """The same, written the other way."""

    def slice(self, scored, budget):
        raise NotImplementedError

    def prepare(self, candidates):
        return _All(len(candidates))


class _All(Chooser):
    def __init__(self, count):
        self.count = count

    def __call__(self, budget):
        return Selection(list(range(self.count)))


SLICERS = [
    GreedySlice(),
    BestFirstSlice(),
    StreamSlice(),
    KnapsackSlice(1),
    KnapsackSlice(3),
    KnapsackSlice("auto"),
    QuotaSlice([QuotaEntry("Message", 20, 60)]),
    QuotaSlice([QuotaEntry("ToolOutput", 30)], KnapsackSlice(1)),
    CountQuotaSlice([CountQuotaEntry("Message", 1, 2)]),
    CountQuotaSlice([CountQuotaEntry("ToolOutput", 0, 1)], QuotaSlice([])),
    CountQuotaSlice([CountQuotaEntry("ToolOutput", cap_count=1)], leftover="share"),
    CountQuotaSlice([CountQuotaEntry("ToolOutput", 1, 1), CountQuotaEntry("Message", 1)], leftover="share"),
    CountConstrainedKnapsackSlice([CountQuotaEntry("ToolOutput", 1, 2)], KnapsackSlice(1)),
    Everything(),
    EverythingPrepared(),
    QuotaSlice([], Everything()),
]


def names(slicer):
    inner = getattr(slicer, "inner", None) or getattr(slicer, "bucket_size", "")
    return f"{type(slicer).__name__}-{inner if isinstance(inner, (str, int)) else type(inner).__name__}"


def pipeline(slicer, overflow=OverflowStrategy.TRUNCATE):
    return Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=overflow)


def scored(items):
    ranked = sorted(items, key=lambda item: -item.future_relevance_hint)
    return [ScoredItem(item, item.future_relevance_hint) for item in ranked]


@pytest.mark.parametrize("slicer", SLICERS, ids=names)
@given(items=related_items(pinned=True), target=st.integers(0, 60))
def test_no_selection_is_against_the_relations(slicer, items, target):
    budget = ContextBudget(200, target)
    try:
        report = pipeline(slicer).dry_run(items, budget)
    except InvalidItemError:
        assume(False)  # pins that contradict one another
        return
    selected = [entry.item for entry in report.included]
    assert breaches(items, selected) == []
    pinned = sum(item.tokens for item in items if item.pinned)
    assert sum(item.tokens for item in selected) <= max(target, pinned)
    truncated = [entry.item for entry in report.origin.stages[-1].excluded]
    for entry in report.excluded:
        if entry.item not in truncated:
            check_reason(entry, selected + truncated)


def check_reason(entry, selected):
    """A reason that names something names it right."""
    inside = {item.metadata["cupel:id"]: item for item in selected}
    fields, marks = entry.reason.to_dict(), entry.item.metadata
    if fields["reason"] == "Superseded":
        assert inside[marks["cupel:id"]].content == fields["by"]
    if fields["reason"] == "GroupIncomplete":
        assert marks["cupel:group"] == fields["group"]
    if marks["cupel:id"] in inside:
        assert fields["reason"] in {"Superseded", "Deduplicated"}


@law(150)
@given(slicer=st.sampled_from(SLICERS[:11]), items=related_items(), target=st.integers(0, 60))
def test_a_slicer_called_by_itself_keeps_to_the_relations_too(slicer, items, target):
    selected = slicer.slice(scored(items), ContextBudget(200, target))
    assert breaches(items, selected) == []


@given(items=related_items(), target=st.integers(0, 60))
def test_greedy_is_its_naive_definition(items, target):
    entries = [(entry.item, entry.score) for entry in scored(items)]
    selected = GreedySlice().slice(scored(items), ContextBudget(200, target))
    assert {item.content for item in selected} == {entries[place][0].content for place in greedy(entries, target)}


@pytest.mark.parametrize("bucket", [1, "auto"])
@given(items=related_items(), target=st.integers(1, 60))
def test_the_knapsack_is_the_best_of_all_forms_and_groups(bucket, items, target):
    entries = [(entry.item, entry.score) for entry in scored(items)]
    places = {id(item): place for place, (item, _) in enumerate(entries)}

    def worth(place):
        return floor(10_000 * value(entries, place))

    selected = KnapsackSlice(bucket).slice(scored(items), ContextBudget(200, target))
    assert sum(worth(places[id(item)]) for item in selected) == best_value(entries, target, worth)


@given(items=related_items(), target=st.integers(1, 60))
def test_the_knapsack_is_never_worse_than_greedy(items, target):
    entries = [(entry.item, entry.score) for entry in scored(items)]
    places = {id(item): place for place, (item, _) in enumerate(entries)}
    budget = ContextBudget(200, target)
    totals = [
        sum(value(entries, places[id(item)]) for item in slicer.slice(scored(items), budget))
        for slicer in (KnapsackSlice("auto"), GreedySlice())
    ]
    assert totals[0] >= totals[1]


def test_a_form_that_only_the_inner_slicer_wants_stays_as_it_is():
    class Middle(Slicer):
        def slice(self, scored, budget):
            return [entry.item for entry in scored if entry.item.tokens == 50 <= budget.target_tokens]

    items = [
        ContextItem(f"{tokens}", tokens, future_relevance_hint=1.0, metadata={"cupel:id": "a", "cupel:worth": worth})
        for tokens, worth in ((10, 0.2), (50, 0.3), (60, 0.9))
    ]
    for inner, chosen in ((Middle(), ["50"]), (GreedySlice(), ["60"])):
        slicer = CountQuotaSlice([CountQuotaEntry("Message", 0, 5)], inner)
        assert [item.content for item in slicer.slice(scored(items), ContextBudget(100, 100))] == chosen


def test_related_items_beyond_any_table_are_chosen_greedily():
    huge = 10**15
    items = [
        ContextItem(f"{name} {tokens}", tokens, future_relevance_hint=0.5, metadata={"cupel:id": name})
        for name in ("a", "b", "c")
        for tokens in (huge, 3 * huge)
    ]
    budget = ContextBudget(5 * huge, 5 * huge)
    automatic, greedy = (slicer.slice(scored(items), budget) for slicer in (KnapsackSlice("auto"), GreedySlice()))
    assert {item.content for item in automatic} == {item.content for item in greedy} != set()


@law(200)
@given(slicer=st.sampled_from(SLICERS[:11]), items=related_items(max_size=6), budget=st.integers(0, 30))
def test_the_same_is_chosen_over_a_span(slicer, items, budget):
    prepared = pipeline(slicer, OverflowStrategy.PROCEED).prepare(items)
    start = ContextBudget(budget, budget)
    chosen = prepared.chooser(start).chosen
    low, stop = prepared.chooser.span(start)
    for target in {max(0, low), budget, *((budget + more for more in (1, 40, 1000)) if stop is None else [stop - 1])}:
        assert prepared.chooser(ContextBudget(max(target, 0), target)).chosen == chosen


@pytest.mark.parametrize("slicer", [GreedySlice(), BestFirstSlice()], ids=names)
@given(items=related_items(max_size=6), budget=st.integers(0, 30))
def test_counterfactuals_are_what_runs_say(slicer, items, budget):
    prepared = pipeline(slicer).prepare(items)
    report = prepared.dry_run(ContextBudget(budget, budget))
    runs = [{id(item) for item in prepared.run(budget + extra)} for extra in range(150)]
    for entry in report.excluded[:2]:
        found = report.counterfactual(entry.item)
        fits = [extra for extra, selected in enumerate(runs) if id(entry.item) in selected]
        assert found.exact
        assert found.extra_tokens == (fits[0] if fits else None)


@pytest.mark.parametrize("slicer", [slicer for slicer in SLICERS[:11] if not isinstance(slicer, QuotaSlice)], ids=names)
def test_a_group_that_can_never_be_in_is_told_from_one_that_was_not_found(slicer):
    """Budgets are run only up to where the choice settles, so that there is an answer, and soon."""
    incomplete = [hinted(f"half {tokens}", tokens, metadata={"cupel:group": "g"}) for tokens in (5, -1)]
    plain = hinted("plain", 3)
    report = pipeline(slicer, OverflowStrategy.PROCEED).dry_run([*incomplete, plain], 20)
    found = report.counterfactual(incomplete[0])
    assert (found.extra_tokens, found.exact) == (None, True)


def hinted(content, tokens, hint=0.5, **fields):
    return ContextItem(content, tokens, future_relevance_hint=hint, **fields)


def contents(items, target, slicer=None):
    return sorted(item.content for item in pipeline(slicer or GreedySlice()).run(items, target))


LOG = forms(hinted("the whole log", 100, 0.9), (hinted("its errors", 40), 0.8), (hinted("a stub", 5), 0.1), id="log")


@pytest.mark.parametrize(
    ("target", "expected"), [(4, []), (5, ["a stub"]), (39, ["a stub"]), (40, ["its errors"]), (100, ["the whole log"])]
)
@pytest.mark.parametrize("slicer", [GreedySlice(), StreamSlice(), KnapsackSlice(1), KnapsackSlice("auto")], ids=names)
def test_the_largest_form_that_fits_is_in(slicer, target, expected):
    assert contents(LOG, target, slicer) == expected


def test_a_table_of_forms_that_is_too_large_is_refused():
    slicer = KnapsackSlice(1, max_cells=300)  # three forms: up to 99 tokens
    assert contents(LOG, 99, slicer) == ["its errors"]
    with pytest.raises(TableTooLargeError, match="303 cells"):
        contents(LOG, 100, slicer)
    found = counterfactual(pipeline(slicer).prepare(LOG), 50, LOG[0])
    assert (found.extra_tokens, found.exact) == (None, True)


def test_a_form_under_the_hull_is_never_taken_by_greedy():
    weak = forms(
        hinted("whole", 100, 0.9), (hinted("half, and hardly worth it", 60), 0.2), (hinted("stub", 5), 0.1), id="x"
    )
    assert contents(weak, 80) == ["stub"]


def test_a_short_form_is_in_where_the_whole_does_not_fit_though_the_whole_is_denser():
    assert contents(forms(hinted("whole", 100, 0.9), (hinted("short", 60), 0.3), id="x"), 80) == ["short"]


def test_a_group_is_one_candidate_of_its_total_tokens():
    call = hinted("call", 5, 0.9, metadata={"cupel:group": "g"})
    result = hinted("result", 95, 0.1, metadata={"cupel:group": "g"})
    other = hinted("other", 50, 0.6)
    assert contents([call, result, other], 100) == ["other"]
    assert contents([call, result, other], 149) == ["other"]
    assert contents([call, result, other], 150) == ["call", "other", "result"]


def test_a_copy_in_another_entity_or_group_is_no_copy():
    marks = ({"cupel:id": "a"}, {"cupel:id": "b"}, {"cupel:group": "g"}, {"cupel:group": "h"}, {}, {"mine": 1})
    items = [hinted("ok", 1, metadata=metadata) for metadata in marks]
    report = pipeline(GreedySlice()).dry_run([*items, hinted("ok", 1, 0.4, metadata={"cupel:id": "a"})], 100)
    assert [entry.reason.name for entry in report.excluded] == ["Deduplicated", "Deduplicated"]
    assert len(report.included) == 5


def test_counts_count_an_entity_once_and_spend_the_rest_on_larger_forms():
    log = [item.replace(kind="ToolOutput") for item in LOG]
    slicer = CountQuotaSlice([CountQuotaEntry("ToolOutput", 1, 1)])
    assert contents(log, 5, slicer) == ["a stub"]
    assert contents(log, 100, slicer) == ["the whole log"]
    report = pipeline(CountQuotaSlice([CountQuotaEntry("ToolOutput", 2, 2)])).dry_run(log, 100)
    assert [(short.required_count, short.satisfied_count) for short in report.count_requirement_shortfalls] == [(2, 1)]


@given(items=related_items(), target=st.integers(1, 60), cap=st.integers(0, 2))
def test_no_group_gets_around_a_cap(items, target, cap):
    slicer = CountQuotaSlice([CountQuotaEntry("ToolOutput", min(cap, 1), cap)])
    selected = pipeline(slicer).run(items, target)
    assert sum(item.kind.key == "tooloutput" for item in selected) <= cap


def test_a_group_of_mixed_kinds_is_chosen_from_the_share_of_the_kind_with_most_tokens():
    call = hinted("call", 5, 0.9, metadata={"cupel:group": "g"})
    result = hinted("result", 60, 0.1, kind="ToolOutput", metadata={"cupel:group": "g"})
    chat = hinted("chat", 30, 0.5)
    slicer = QuotaSlice([QuotaEntry("Message", 30, 30), QuotaEntry("ToolOutput", 70, 70)])
    assert contents([call, result, chat], 100, slicer) == ["call", "chat", "result"]


def test_truncation_takes_nothing_apart():
    pair = [
        hinted("call", 10, 0.9, kind="K", metadata={"cupel:group": "g"}),
        hinted("result", 95, 0.8, kind="K", metadata={"cupel:group": "g"}),
    ]
    report = pipeline(CountQuotaSlice([CountQuotaEntry("K", 2, 2)])).dry_run(pair, 100)
    assert report.included == ()
    assert [entry.reason.to_dict()["item_tokens"] for entry in report.excluded] == [105, 105]


def test_a_pinned_form_supersedes_the_others():
    items = [
        hinted("pinned form", 5, pinned=True, metadata={"cupel:id": "p"}),
        hinted("other form", 3, metadata={"cupel:id": "p", "cupel:worth": 0.5}),
    ]
    report = pipeline(GreedySlice()).dry_run(items, 100)
    assert [entry.item.content for entry in report.included] == ["pinned form"]
    assert report.excluded[0].reason.to_dict() == {"reason": "Superseded", "by": "pinned form"}


def test_explain_says_which_form_is_in_and_what_the_longer_one_would_take():
    report = pipeline(GreedySlice()).dry_run(LOG, 50)
    assert report.explain(LOG[0]) == (
        "'the whole log' is dropped at Slice (score 0.9): in as “its errors”. It gets in with 50 more tokens of budget."
    )


def test_members_of_a_group_that_does_not_fit_say_what_the_group_needs():
    pair = [hinted("call", 10, metadata={"cupel:group": "g"}), hinted("result", 95, metadata={"cupel:group": "g"})]
    report = pipeline(GreedySlice()).dry_run(pair, 100)
    assert [entry.reason.to_dict() for entry in report.excluded] == [
        {"reason": "BudgetExceeded", "item_tokens": 105, "available_tokens": 100}
    ] * 2


def test_a_group_that_can_never_be_in_says_so():
    first, second = (hinted(name, tokens, metadata={"cupel:group": "g"}) for name, tokens in (("first", 1), ("n", -1)))
    report = pipeline(GreedySlice()).dry_run([first, second], 100)
    reasons = {entry.item.content: entry.reason.to_dict() for entry in report.excluded}
    assert reasons["first"] == {"reason": "GroupIncomplete", "group": "g"}
