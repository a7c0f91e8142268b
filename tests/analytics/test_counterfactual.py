"""What it would take to let an item in, checked by running every budget up to the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import (
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    CupelError,
    GreedySlice,
    InvalidItemError,
    KnapsackSlice,
    OverflowStrategy,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    ScarcityBehavior,
    Slicer,
)
from cupel.analytics import counterfactual, counterfactuals, find_min_budget_for
from cupel.slicers import _knapsack
from tests.analytics.counting import CountingScorer
from tests.oracle.generators import law
from tests.pools import FarAway, small_items, small_slicers

FAR = 400  # beyond anything that could change for the small pools


def item(name, tokens, hint=0.5, **fields):
    return ContextItem(name, tokens, future_relevance_hint=hint, **fields)


def extra(items, budget, target, slicer=None, **options):
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer or GreedySlice(), **options)
    found = counterfactual(pipeline.prepare(items), budget, target)
    assert found.item is target
    assert found.budget == (None if found.extra_tokens is None else budget.extended(found.extra_tokens))
    return found.extra_tokens


BIG, SMALL = item("big", 6, 0.9), item("small", 5, 0.5)


@pytest.mark.parametrize(
    ("budget", "target", "expected"),
    [
        (ContextBudget(5, 5), SMALL, 0),
        (ContextBudget(6, 6), SMALL, 5),  # greedy drops it at 6 and takes it back at 11
        (ContextBudget(4, 4), SMALL, 1),
        (ContextBudget(5, 5), BIG, 1),
        (ContextBudget(100, 5), BIG, 1),
        (ContextBudget(100, 5, output_reserve=98), BIG, 4),
        (ContextBudget(10, 10, reserved_slots={"x": 8}), BIG, 4),
        (ContextBudget(4, 4, estimation_safety_margin_percent=50.0), BIG, 8),
        (ContextBudget(4, 4, estimation_safety_margin_percent=100.0), BIG, None),
    ],
)
def test_worked_cases(budget, target, expected):
    assert extra([BIG, SMALL], budget, target) == expected


def test_what_no_budget_can_help():
    winner, loser, negative = item("same", 5, 0.9), item("same", 5, 0.1), item("negative", -5)
    budget = ContextBudget(10, 10)
    assert extra([winner, loser], budget, loser) is None
    assert extra([winner, negative], budget, negative) is None
    with pytest.raises(InvalidItemError, match="must be among the items that were prepared"):
        extra([winner], budget, item("same", 5, 0.9))  # equal, but not among the candidates
    capped = QuotaSlice([QuotaEntry("Message", cap=0)])
    assert extra([winner], budget, winner, capped) is None
    counted = CountQuotaSlice([CountQuotaEntry("Message", 0, 1)])
    assert extra([winner, item("next", 5, 0.5)], budget, winner, counted) == 0
    other = item("next", 5, 0.5)
    assert extra([winner, other], budget, other, counted) is None
    worthless = item("worthless", 5, 0.0)
    assert extra([winner, worthless], budget, worthless, KnapsackSlice(1)) is None


def test_budgets_that_cannot_be_run():
    a, b = item("a", 30), item("b", 30)
    assert extra([a, b], ContextBudget(40, 40), b, KnapsackSlice(1, max_cells=100)) is None  # 60 need 2 x 61 cells
    scarce = CountQuotaSlice([CountQuotaEntry("Document", 1, 1)], scarcity=ScarcityBehavior.THROW)
    assert extra([a], ContextBudget(40, 0), a, scarce) is None
    required = CountQuotaSlice([CountQuotaEntry("Message", 2, 2)])
    assert extra([a, b], ContextBudget(40, 40), b, required) == 20  # THROW until both fit
    assert extra([a, b], ContextBudget(40, 40), b, required, overflow=OverflowStrategy.TRUNCATE) == 20
    assert extra([a, b], ContextBudget(40, 40), b, required, overflow=OverflowStrategy.PROCEED) == 0


def test_pins_over_the_target_and_over_the_window():
    pin, other = item("pin", 50, pinned=True), item("other", 10)
    assert extra([pin, other], ContextBudget(100, 20), other) == 40
    assert extra([pin, other], ContextBudget(20, 20), other) == 40
    assert extra([pin, other], ContextBudget(100, 20), pin) == 30
    assert extra([pin, other], ContextBudget(100, 20), pin, overflow=OverflowStrategy.TRUNCATE) == 0
    assert extra([pin, other], ContextBudget(20, 20), pin, overflow=OverflowStrategy.TRUNCATE) == 30


def test_huge_token_counts_need_no_huge_sets():
    a, b = item("a", 10**15, 0.9), item("b", 10**15, 0.5)
    assert extra([a, b], ContextBudget(10**15, 10**15), b) == 10**15


def test_one_scoring_pass_and_no_callback():
    scorer, told = CountingScorer(), []
    items = [item(str(n), 10 + n, n * 37 % 100 / 100) for n in range(50)]
    pipeline = Pipeline(scorer=scorer, overflow=OverflowStrategy.PROCEED, on_overflow=told.append)
    prepared = pipeline.prepare(items)
    for one in items:
        counterfactual(prepared, ContextBudget(300, 300), one)
    assert (scorer.passes, told) == (1, [])


def selects(prepared, budget, target):
    try:
        selected = prepared.included(budget)
    except CupelError:
        return False
    return any(one is target for one in selected)


@pytest.mark.parametrize("required", [0, 1])
def test_an_item_that_a_cap_keeps_out_of_larger_shares(required):
    """Within a share of three or four tokens the small one is all that fits; then the cap prefers the large one."""
    large, small, must = item("large", 5, 0.5), item("small", 3, 0.1), item("must", 1, 0.9)
    slicer = QuotaSlice(
        [QuotaEntry("Message", require=50, cap=50)],
        CountQuotaSlice([CountQuotaEntry("Message", required, 1 + required)]),
    )
    pool = [large, small, must] if required else [large, small]
    first = 6 + 2 * required
    prepared = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).prepare(pool)
    works = [size for size in range(200) if small in prepared.included(ContextBudget(size, size))]
    assert works == list(range(first, first + 4))
    assert extra(pool, ContextBudget(0, 0), small, slicer) == first
    assert extra(pool, ContextBudget(first + 4, first + 4), small, slicer) is None


@pytest.mark.parametrize(("cap", "tokens", "expected"), [(50, 1, 1), (50, 5, None), (51, 1, 1), (51, 5, None)])
def test_a_kind_that_gets_only_what_rounding_leaves(cap, tokens, expected):
    """Half and half of an odd target leave one token to the memory; no larger share ever comes."""
    memory = item("memory", tokens, kind="Memory")
    pool = [item("message", 3), item("document", 4, kind="Document"), memory]
    halves = [QuotaEntry("Message", 50, 50), QuotaEntry("Document", 50, cap)]
    prepared = Pipeline(scorer=ReflexiveScorer(), slicer=QuotaSlice(halves)).prepare(pool)
    assert selects(prepared, ContextBudget(11, 11), memory) == (tokens == 1)
    assert extra(pool, ContextBudget(10, 10), memory, QuotaSlice(halves)) == expected
    required = QuotaSlice(halves, CountQuotaSlice([CountQuotaEntry("Memory", 1, 1)]))
    assert extra(pool, ContextBudget(10, 10), memory, required, overflow=OverflowStrategy.PROCEED) == 1  # committed


def test_a_share_that_rounding_passes_over():
    """The small memory fits a share of ten tokens alone, and from nine the shares go on to eleven."""
    small = item("small", 10, 0.1, kind="Memory")
    memories = [item("large", 11, 0.9, kind="Memory"), small, item("worthless", 1, 0.0, kind="Memory")]
    pool = [item("message", 4), item("tool", 6, kind="ToolOutput"), *memories]
    shares = [QuotaEntry("Message", 46.7), QuotaEntry("ToolOutput", 1, 1.5), QuotaEntry("Document", 40)]
    slicer = QuotaSlice(shares, CountQuotaSlice([CountQuotaEntry("Memory", 0, 1)]))
    prepared = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).prepare(pool)
    assert not any(selects(prepared, ContextBudget(size, size), small) for size in range(FAR))
    assert extra(pool, ContextBudget(20, 20), small, slicer) is None


def test_a_kind_without_a_share_is_never_refused():
    """Ten tokens of messages would need a table that is too large, but messages get nothing."""
    message, document = item("message", 3), item("document", 9, kind="Document")
    slicer = QuotaSlice([QuotaEntry("Message", cap=0)], KnapsackSlice(1, max_cells=10))
    assert extra([message, document], ContextBudget(5, 5), document, slicer) == 4
    assert extra([message, document], ContextBudget(5, 5), message, slicer) is None
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=slicer)
    assert find_min_budget_for(pipeline, [message, document], document, 9, exact=True) == 9


def test_counts_within_counts_that_commit_beyond_the_smallest_targets():
    """The outer count commits the large one, the inner the small one, whatever the target: both fit from 14 on."""
    large, small = item("large", 11, 0.9), item("small", 3, 0.5)
    inner = CountConstrainedKnapsackSlice([CountQuotaEntry("Message", 1, 1)], KnapsackSlice(1))
    slicer = CountQuotaSlice([CountQuotaEntry("Message", 1, 2)], inner)
    pool = [large, small]
    assert extra(pool, ContextBudget(8, 8), small, slicer, overflow=OverflowStrategy.THROW) == 6
    assert extra(pool, ContextBudget(12, 12), small, slicer, overflow=OverflowStrategy.TRUNCATE) == 2
    assert extra(pool, ContextBudget(8, 8), small, CountQuotaSlice([CountQuotaEntry("Message", 1, 1)], inner)) is None


def test_what_an_inner_count_commits_fills_the_cap_of_the_outer():
    first, second = item("first", 5, 0.9), item("second", 5, 0.5)
    inner = CountConstrainedKnapsackSlice([CountQuotaEntry("Message", 1, 2)], KnapsackSlice(1))
    slicer = CountQuotaSlice([CountQuotaEntry("Message", 0, 1)], inner)
    prepared = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).prepare([first, second])
    assert prepared.run(100) == [first]
    found = counterfactual(prepared, 100, second)
    assert (found.extra_tokens, found.exact) == (None, True)


def test_a_slicer_of_your_own_within_shares_and_counts_is_asked_for_a_while():
    class Alone(Slicer):
        """Takes the first item while the target is eleven or twelve."""

        def slice(self, scored, budget):
            return [scored[0].item] if 11 <= budget.target_tokens <= 12 else []

    one = item("one", 1)
    half, counted = QuotaSlice([QuotaEntry("Message", 50, 50)], Alone()), [CountQuotaEntry("Message", 0, 1)]
    assert extra([one], ContextBudget(0, 0), one, half) == 22
    assert extra([one], ContextBudget(0, 0), one, CountQuotaSlice(counted, Alone())) == 11
    assert extra([one], ContextBudget(0, 0), one, CountQuotaSlice(counted, half)) == 22
    nothing = QuotaSlice([QuotaEntry("Message", cap=0)], Alone())
    assert extra([one], ContextBudget(0, 0), one, nothing) is None


@law(200)
@given(
    items=small_items,
    slicer=small_slicers,
    overflow=st.sampled_from(OverflowStrategy),
    window=st.integers(0, 40),
    below=st.integers(0, 20),
    reserve=st.integers(0, 10),
    slots=st.sampled_from([{}, {"x": 3}]),
    margin=st.sampled_from([0.0, 0.0, 7.0, 34.0, 50.0]),
    data=st.data(),
)
def test_the_answer_is_the_first_budget_that_works(
    items, slicer, overflow, window, below, reserve, slots, margin, data
):
    target = data.draw(st.sampled_from(items))
    budget = ContextBudget(
        window + below,
        window,
        output_reserve=min(reserve, window + below),
        reserved_slots=slots,
        estimation_safety_margin_percent=margin,
    )
    prepared = Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=overflow).prepare(items)
    answer = counterfactual(prepared, budget, target).extra_tokens
    tried = range(FAR if answer is None else answer)
    assert not any(selects(prepared, budget.extended(tokens), target) for tokens in tried)
    assert answer is None or selects(prepared, budget.extended(answer), target)


def pool(count=25):
    kinds = ("Message", "Document", "ToolOutput")
    return [item(str(n), 20 + n * 37 % 280, n * 29 % 20 / 20, kind=kinds[n % 3]) for n in range(count)]


COUNTS = [CountQuotaEntry("Message", 2, 5), CountQuotaEntry("Document", 0, 3)]
SHARES = [QuotaEntry("Message", 20, 60), QuotaEntry("Document", cap=30)]


@pytest.mark.parametrize(
    ("tokens", "overflow"),
    [(100, OverflowStrategy.TRUNCATE), (100, OverflowStrategy.THROW), (1_000, OverflowStrategy.THROW)],
)
@pytest.mark.parametrize(
    "slicer",
    [
        GreedySlice(),
        KnapsackSlice(10),
        KnapsackSlice(10, max_cells=8_000),
        KnapsackSlice(),
        QuotaSlice(SHARES),
        QuotaSlice(SHARES, KnapsackSlice(10, max_cells=5_000)),
        CountQuotaSlice(COUNTS),
        CountQuotaSlice([CountQuotaEntry("Nothing", 1, 1)], scarcity=ScarcityBehavior.THROW),
        CountQuotaSlice(COUNTS, QuotaSlice(SHARES)),
        CountConstrainedKnapsackSlice(COUNTS),
    ],
    ids=repr,
)
def test_all_items_at_once(slicer, tokens, overflow):
    twice = pool()[7]
    items = [item("pin", 150, pinned=True), *pool(), twice, twice, item("free", 0), item("worthless", 10, 0.0)]
    prepared = Pipeline(scorer=ReflexiveScorer(), slicer=slicer, overflow=overflow).prepare(items)
    budget = ContextBudget(tokens + 50, tokens, output_reserve=20, estimation_safety_margin_percent=7.0)
    found = counterfactuals(prepared, budget, items)
    assert all(one.exact for one in found)
    assert found[::9] == [counterfactual(prepared, budget, one) for one in items[::9]]
    for one in found[::7]:
        near = one.extra_tokens
        tried = range(0, 3_000, 101) if near is None else [*range(0, near, 101), *range(max(0, near - 9), near)]
        assert not any(selects(prepared, budget.extended(extra), one.item) for extra in tried)
        assert one.budget is None or selects(prepared, one.budget, one.item)


@pytest.mark.parametrize("cells", [50, 400, 4_000_000])
def test_a_knapsack_that_chooses_its_buckets(monkeypatch, cells):
    """Whichever bucket size the work allows at a budget, no budget below the answer selects the item."""
    monkeypatch.setattr(_knapsack, "MOST_CELLS", cells)
    items = [item(str(n), 5 + n * 7 % 30, n * 29 % 20 / 20) for n in range(24)]
    prepared = Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice("auto")).prepare(items)
    budget = ContextBudget(60, 60)
    runs = [prepared.included(budget.extended(more)) for more in range(450)]  # all items take 462 tokens
    for one in items[1::3]:
        expected = next((more for more, selected in enumerate(runs) if one in selected), None)
        assert counterfactual(prepared, budget, one).extra_tokens == expected


def test_questions_about_no_item():
    assert counterfactuals(Pipeline(scorer=ReflexiveScorer()).prepare([]), ContextBudget(10, 10), []) == []


def test_a_search_that_stops_says_so():
    prepared = Pipeline(scorer=ReflexiveScorer(), slicer=FarAway()).prepare([BIG, SMALL])
    found = counterfactual(prepared, 10, SMALL)
    assert (found.exact, found.extra_tokens) == (False, None)  # four times what is there is as far as it looks
    large = item("large", 10**6)
    found = counterfactual(Pipeline(scorer=ReflexiveScorer(), slicer=FarAway()).prepare([large]), 10, large)
    assert (found.exact, found.extra_tokens) == (False, 999_990)


KINDS = ("Message", "Document", "ToolOutput", "Memory")
THOUSANDS = [item(str(n), 20 + n * 7919 % 981, n * 104729 % 9973 / 9973, kind=KINDS[n % 4]) for n in range(3_000)]


def test_greedy_answers_for_three_thousand_items_are_exact():
    prepared = Pipeline(scorer=ReflexiveScorer()).prepare(THOUSANDS)
    found = counterfactuals(prepared, 50_000, THOUSANDS)
    assert all(one.exact for one in found)
    for one in found[::300]:
        assert selects(prepared, one.budget, one.item)
        assert not one.extra_tokens or not selects(prepared, one.budget.extended(-1), one.item)


@pytest.mark.parametrize("slicer", [QuotaSlice(SHARES), CountQuotaSlice(COUNTS), KnapsackSlice()], ids=repr)
def test_other_answers_for_three_thousand_items_work_whether_exact_or_not(slicer):
    prepared = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).prepare(THOUSANDS)
    found = counterfactuals(prepared, 50_000, THOUSANDS[::301])
    assert any(one.budget is not None for one in found)
    assert all(one.budget is None or selects(prepared, one.budget, one.item) for one in found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 10, BIG), "prepared must be a PreparedSelection, got NoneType"),
        (
            (Pipeline(scorer=ReflexiveScorer()).prepare([BIG]), "10", BIG),
            "budget must be a ContextBudget or an integer",
        ),
        ((Pipeline(scorer=ReflexiveScorer()).prepare([BIG]), 10, "big"), "item must be a ContextItem, got str"),
    ],
)
def test_arguments_of_the_wrong_type_are_named(arguments, message):
    with pytest.raises(TypeError, match=message):
        counterfactual(*arguments)


def test_an_item_that_was_not_prepared_is_refused_by_name():
    item = ContextItem("known", 40)
    prepared = Pipeline(scorer=ReflexiveScorer()).prepare([item])
    assert counterfactual(prepared, 10, item).extra_tokens == 30
    with pytest.raises(InvalidItemError, match=r"items must be among the items that were prepared, got .*'known'"):
        counterfactual(prepared, 10, ContextItem("known", 40))
