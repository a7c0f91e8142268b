"""The smallest budget for an item: the specified search, and the exact answer."""

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import (
    BudgetOverflowError,
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    CupelError,
    GreedySlice,
    InvalidBudgetError,
    InvalidItemError,
    KnapsackSlice,
    OverflowStrategy,
    PinnedExceedsBudgetError,
    Pipeline,
    PipelineConfigError,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    ScarcityBehavior,
    ScarcityError,
    SearchStoppedError,
    Slicer,
    TableTooLargeError,
)
from cupel.analytics import _search, find_min_budget_for
from cupel.slicers import Chooser
from tests.analytics.counting import CountingScorer
from tests.oracle.generators import law
from tests.pools import FarAway, knapsacks, small_items, small_slicers

GUARD = (
    "FindMinBudgetFor requires monotonic item inclusion. QuotaSlice and CountQuotaSlice produce non-monotonic "
    "inclusion as budget changes shift allocations. "
    "Use a GreedySlice or KnapsackSlice inner slicer for budget simulation."
)


def item(name, tokens, hint=0.5, **fields):
    return ContextItem(name, tokens, future_relevance_hint=hint, **fields)


def pipeline(slicer=None, **options):
    return Pipeline(scorer=ReflexiveScorer(), slicer=slicer or GreedySlice(), **options)


BIG, SMALL = item("A", 6, 0.9), item("B", 5, 0.5)
LONE = item("lone", 50)
FREE = item("free", 0)
PIN = item("pin", 30, pinned=True)


@pytest.mark.parametrize(
    ("items", "target", "ceiling", "searched", "exact"),
    [
        ([BIG, SMALL], SMALL, 20, 11, 5),  # ruling 9.3
        ([BIG, SMALL], SMALL, 10, None, 5),
        ([BIG, SMALL], BIG, 20, 6, 6),
        ([LONE], LONE, 200, 50, 50),  # ruling 9.4
        ([LONE], LONE, 50, 50, 50),
        ([LONE], LONE, 51, 50, 50),
        ([FREE], FREE, 0, None, None),  # ruling 9.8
        ([FREE], FREE, 1, 1, 1),
        ([FREE], FREE, 9, 1, 1),
        ([FREE, LONE], FREE, 100, 1, 1),
        ([PIN, LONE], LONE, 200, 80, 80),  # ruling 9.6
        ([PIN, LONE], LONE, 79, None, None),
        ([PIN, LONE], PIN, 200, 30, 30),
        ([PIN, LONE], PIN, 30, 30, 30),
        ([PIN, item("other pin", 20, pinned=True)], PIN, 40, None, None),
    ],
)
def test_worked_cases(items, target, ceiling, searched, exact):
    assert find_min_budget_for(pipeline(), items, target, ceiling) == searched
    assert find_min_budget_for(pipeline(), items, target, ceiling, exact=True) == exact


@pytest.mark.parametrize("exact", [False, True])
def test_items_that_are_never_selected(exact):
    negative = item("negative", -5)
    winner, loser = item("same", 10, 0.9), item("same", 10, 0.1)
    assert find_min_budget_for(pipeline(), [negative], negative, 100, exact=exact) is None
    assert find_min_budget_for(pipeline(), [negative], negative, -5, exact=exact) is None
    assert find_min_budget_for(pipeline(), [winner, loser], loser, 100, exact=exact) is None
    assert find_min_budget_for(pipeline(deduplicate=False), [winner, loser], loser, 100, exact=exact) == 20


@pytest.mark.parametrize(
    "slicer", [QuotaSlice([]), CountQuotaSlice([]), CountConstrainedKnapsackSlice([])], ids=lambda s: type(s).__name__
)
def test_the_search_refuses_slicers_that_are_not_monotonic_before_anything_else(slicer):
    with pytest.raises(PipelineConfigError) as caught:
        find_min_budget_for(pipeline(slicer), [], LONE, -1)
    assert str(caught.value) == GUARD
    assert find_min_budget_for(pipeline(slicer), [LONE], LONE, 500, exact=True) is not None


@pytest.mark.parametrize("exact", [False, True])
def test_an_item_that_was_not_prepared_is_refused_by_name(exact):
    dropped = item("negative", -1)
    prepared = pipeline().prepare([LONE, dropped])
    with pytest.raises(InvalidItemError, match=r"target_item must be among the items that were.*content='lone'"):
        find_min_budget_for(prepared, None, item("lone", 50), 100, exact=exact)
    assert find_min_budget_for(prepared, None, LONE, 100, exact=exact) == 50
    assert find_min_budget_for(prepared, None, dropped, 100, exact=exact) is None


@pytest.mark.parametrize("exact", [False, True])
def test_preconditions(exact):
    twin = item("lone", 50)
    with pytest.raises(InvalidItemError) as stranger:
        find_min_budget_for(pipeline(), [LONE], twin, 10, exact=exact)  # equal, but another object
    assert str(stranger.value) == "targetItem must be an element of items"
    assert "content='lone'" in stranger.value.__notes__[0]
    with pytest.raises(InvalidBudgetError) as caught:
        find_min_budget_for(pipeline(), [LONE], LONE, 49, exact=exact)
    assert str(caught.value) == "searchCeiling must be >= targetItem.Tokens"
    assert caught.value.__notes__ == ["search_ceiling is 49, target_item.tokens is 50"]
    for ceiling in (60.0, True, "60"):
        with pytest.raises(TypeError, match="search_ceiling must be an integer"):
            find_min_budget_for(pipeline(), [LONE], LONE, ceiling, exact=exact)


def test_items_may_be_an_iterator():
    assert find_min_budget_for(pipeline(), iter([BIG, SMALL]), SMALL, 20) == 11


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("slicer", [GreedySlice(), KnapsackSlice(10)], ids=lambda s: type(s).__name__)
def test_all_probes_share_one_scoring_pass(slicer, exact):
    scorer = CountingScorer()
    items = [item(str(i), 10 + i * 7 % 40, i * 37 % 100 / 100) for i in range(200)]
    find_min_budget_for(Pipeline(scorer=scorer, slicer=slicer), items, items[70], 10_000, exact=exact)
    assert scorer.passes == 1


def test_the_search_asks_the_slicer_a_logarithmic_number_of_times():
    asked = []

    class Counting(GreedySlice):
        def fit(self, candidates):
            chooser = GreedySlice().prepare(candidates)

            class Counted(Chooser):
                def __call__(self, budget):
                    asked.append(budget.target_tokens)
                    return chooser(budget)

            return Counted()

    items = [item(str(i), 10 + i * 7 % 40, i * 37 % 100 / 100) for i in range(200)]
    expected = find_min_budget_for(pipeline(), items, items[70], 1 << 20)
    assert find_min_budget_for(pipeline(Counting()), items, items[70], 1 << 20) == expected
    assert len(asked) <= 22
    assert len(set(asked)) == len(asked)


def test_the_search_does_not_tell_the_application_about_overflow():
    told = []
    entries = [CountQuotaEntry("Message", 2, 2)]
    noisy = pipeline(CountQuotaSlice(entries), overflow=OverflowStrategy.PROCEED, on_overflow=told.append)
    items = [item("a", 30), item("b", 30), item("c", 10, kind="Document")]
    assert find_min_budget_for(noisy, items, items[2], 100, exact=True) == 70
    assert told == []


def test_errors_of_other_kinds_end_the_search():
    items = [item("a", 30), item("b", 30)]
    tiny = pipeline(KnapsackSlice(1, max_cells=50))
    scarce = pipeline(CountQuotaSlice([CountQuotaEntry("Document", 1, 1)], scarcity=ScarcityBehavior.THROW))
    with pytest.raises(TableTooLargeError):
        find_min_budget_for(tiny, items, items[1], 100)
    with pytest.raises(TableTooLargeError):
        find_min_budget_for(tiny, items, items[1], 100, exact=True)
    with pytest.raises(ScarcityError):
        find_min_budget_for(scarce, items, items[1], 100, exact=True)


def brute_force(tried, items, target, ceiling):
    for tokens in range(ceiling + 1):
        try:
            selected = tried.run(items, ContextBudget(tokens, tokens))
        except (PinnedExceedsBudgetError, BudgetOverflowError):
            continue
        if any(item is target for item in selected):
            return tokens
    return None


@pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")
@law(100)
@given(
    items=small_items,
    slicer=small_slicers,
    overflow=st.sampled_from(OverflowStrategy),
    deduplicate=st.booleans(),
    repeat=st.booleans(),
    data=st.data(),
)
def test_exact_equals_a_scan_of_all_budgets(items, slicer, overflow, deduplicate, repeat, data):
    if repeat:
        items = [*items, items[0]]  # the same object twice
    target = data.draw(st.sampled_from(items))
    ceiling = data.draw(st.integers(max(target.tokens, 0), 60))
    tried = pipeline(slicer, overflow=overflow, deduplicate=deduplicate)
    assert find_min_budget_for(tried, items, target, ceiling, exact=True) == brute_force(tried, items, target, ceiling)


coarse_items = st.lists(
    st.builds(
        ContextItem,
        st.sampled_from("abcdefgh"),
        st.sampled_from([0, 30, 70, 99, 100, 101, 150, 200, 299]),
        future_relevance_hint=st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0]),
        kind=st.sampled_from(["Message", "Document"]),
    ),
    min_size=1,
    max_size=7,
)


@law(40)
@given(
    items=coarse_items,
    bucket=st.sampled_from([1, 50, 100]),
    cells=st.sampled_from([None, 20, 300]),
    shared=st.booleans(),
    data=st.data(),
)
def test_exact_with_coarse_buckets_and_a_guard(items, bucket, cells, shared, data):
    slicer = KnapsackSlice(bucket, max_cells=cells)
    if shared:
        slicer = QuotaSlice([QuotaEntry("Message", 20, 60)], slicer)
    target = data.draw(st.sampled_from(items))
    ceiling = data.draw(st.integers(target.tokens, 900))
    prepared = pipeline(slicer, deduplicate=False).prepare(items)

    def scan():
        for tokens in range(ceiling + 1):
            if any(one is target for one in prepared.included(ContextBudget(tokens, tokens))):
                return tokens
        return None

    try:
        expected = scan()
    except TableTooLargeError as error:
        with pytest.raises(TableTooLargeError, match=re.escape(str(error).split(" x ")[0])):
            find_min_budget_for(pipeline(slicer, deduplicate=False), items, target, ceiling, exact=True)
    else:
        found = find_min_budget_for(pipeline(slicer, deduplicate=False), items, target, ceiling, exact=True)
        assert found == expected


@law(100)
@given(items=small_items, slicer=st.just(GreedySlice()) | knapsacks, data=st.data())
def test_the_search_finds_a_budget_that_works(items, slicer, data):
    target = data.draw(st.sampled_from(items))
    ceiling = data.draw(st.integers(max(target.tokens, 0), 60))
    found = find_min_budget_for(pipeline(slicer), items, target, ceiling)
    exact = find_min_budget_for(pipeline(slicer), items, target, ceiling, exact=True)
    if found is not None:
        selected = pipeline(slicer).run(items, ContextBudget(found, found))
        assert any(item is target for item in selected)
        assert exact is not None
        assert exact <= found <= ceiling


def test_a_selection_over_the_budget_ends_the_search():
    class Everything(Slicer):
        """Ignores the budget."""

        def slice(self, scored, budget):
            return [entry.item for entry in scored]

    items = [item("a", 30), item("b", 30)]
    with pytest.raises(BudgetOverflowError):
        find_min_budget_for(pipeline(Everything()), items, items[1], 100)
    assert find_min_budget_for(pipeline(Everything()), items, items[1], 100, exact=True) == 60


@pytest.mark.parametrize("scale", [1, 10**6, 10**13])
@pytest.mark.parametrize(
    "slicer", [GreedySlice(), CountQuotaSlice([CountQuotaEntry("Message", 0, 1)])], ids=["greedy", "count"]
)
def test_exact_for_large_counts(scale, slicer):
    """The budget found selects the item, and one token less does not."""
    rows = ((6, 0.9, "Message"), (5, 0.5, "Message"), (3, 0.4, "Document"), (4, 0.1, "Document"))
    pool = [item(str(at), size * scale, hint, kind=kind) for at, (size, hint, kind) in enumerate(rows)]
    tried = pipeline(slicer)
    found = [find_min_budget_for(tried, pool, one, 60 * scale, exact=True) for one in pool]
    assert found[0] is not None
    for one, least in zip(pool, found, strict=True):
        if least is not None:
            assert any(chosen is one for chosen in tried.run(pool, ContextBudget(least, least)))
            assert not any(chosen is one for chosen in tried.run(pool, ContextBudget(least - 1, least - 1)))


def test_exact_raises_only_where_a_run_raises():
    inner = CountQuotaSlice([CountQuotaEntry("Memory", 1, 2)], scarcity=ScarcityBehavior.THROW)
    slicer = QuotaSlice([QuotaEntry("Message", cap=20)], inner)
    pool = [item("a", 1, kind="Message")]
    assert all(pipeline(slicer).run(pool, ContextBudget(tokens, tokens)) == [] for tokens in range(5))
    assert find_min_budget_for(pipeline(slicer), pool, pool[0], 4, exact=True) is None
    with pytest.raises(ScarcityError):
        find_min_budget_for(pipeline(slicer), pool, pool[0], 5, exact=True)


def test_a_search_that_would_take_too_long_says_so():
    with pytest.raises(SearchStoppedError, match="was stopped; no budget that works was found"):
        find_min_budget_for(pipeline(FarAway()), [BIG], BIG, 999_000, exact=True)
    with pytest.raises(SearchStoppedError, match="was stopped; a budget of 1000000000 works") as stopped:
        find_min_budget_for(pipeline(FarAway()), [BIG], BIG, 10**9, exact=True)
    assert pickle.loads(pickle.dumps(stopped.value)).enough == 10**9


def test_the_refusal_names_the_exact_search():
    with pytest.raises(PipelineConfigError) as refused:
        find_min_budget_for(pipeline(QuotaSlice([])), [LONE], LONE, 100)
    assert "exact=True" in refused.value.__notes__[0]


def test_a_prepared_selection_replaces_pipeline_and_items():
    prepared = pipeline().prepare([BIG, SMALL])
    assert find_min_budget_for(prepared, None, SMALL, 20) == 11
    assert find_min_budget_for(prepared, None, SMALL, 20, exact=True) == 5
    with pytest.raises(TypeError, match="items must be None beside a PreparedSelection"):
        find_min_budget_for(prepared, [BIG, SMALL], SMALL, 20, exact=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, [LONE], LONE, 60), "pipeline must be a Pipeline or a PreparedSelection, got NoneType"),
        ((pipeline(), None, LONE, 60), "items must be an iterable of ContextItem, got NoneType"),
        ((pipeline(), [1], LONE, 60), r"items\[0\] must be a ContextItem, got int"),
        ((pipeline(), [LONE], "lone", 60), "target_item must be a ContextItem, got str"),
    ],
)
def test_arguments_of_the_wrong_type_are_named(arguments, message):
    with pytest.raises(TypeError, match=message):
        find_min_budget_for(*arguments)


def test_whatever_a_search_may_cost_it_ends_with_an_answer_or_says_where_it_stopped(monkeypatch):
    items = [ContextItem(str(n), 7 + n, kind="Tool", future_relevance_hint=n / 9) for n in range(9)]
    knapsack = KnapsackSlice(3, max_cells=120)
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=QuotaSlice([QuotaEntry("Tool", cap=60)], knapsack))
    monkeypatch.setattr(_search, "_FURTHER_ITEM", 0)
    ends = set()
    for steps in range(0, 60_000_000, 2_000_000):
        monkeypatch.setattr(_search, "_QUESTION", steps)
        try:
            find_min_budget_for(pipeline, items, items[0], 10_000, exact=True)
        except CupelError as error:
            ends.add(type(error))
    assert ends == {SearchStoppedError, TableTooLargeError}
