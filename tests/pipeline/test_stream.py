import asyncio
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import (
    BudgetOverflowError,
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    OverflowStrategy,
    PinnedExceedsBudgetError,
    Pipeline,
    PipelineConfigError,
    QuotaEntry,
    QuotaSlice,
    RecencyScorer,
    ReflexiveScorer,
    SlicerConfigError,
    StreamSlice,
    UShapedPlacer,
)
from cupel.pipeline import ItemSource
from tests.oracle.generators import law
from tests.slicers.test_stream_slice import Feed, contents

PIPELINE = Pipeline(scorer=ReflexiveScorer())


def item(content, tokens, hint=0.5, *, pinned=False, **fields):
    return ContextItem(content, tokens, future_relevance_hint=hint, pinned=pinned, **fields)


def stream(items, target, *, pipeline=PIPELINE, budget=None, **options):
    feed = Feed(items)
    result = asyncio.run(pipeline.stream(feed, budget or ContextBudget(target, target), **options))
    assert feed.closed
    assert feed.read == result.consumed
    return result


def test_it_selects_from_an_endless_stream_and_stops_when_the_budget_is_full():
    def endless():
        number = 0
        while True:
            number += 1
            yield item(f"{number}", 10)

    result = stream(endless(), 100, batch_size=4)
    assert contents(result) == [str(number) for number in range(1, 11)]
    assert result.total_tokens == 100
    assert result.consumed == 12
    assert not result.exhausted
    assert result.excluded == {"BudgetExceeded": 2}


def test_a_million_items_under_a_small_budget_are_neither_kept_nor_all_read():
    pipeline = Pipeline(scorer=RecencyScorer())
    million = (item(f"{number} " + "x" * 500, 70) for number in range(1_000_000))
    tracemalloc.start()
    result = stream(million, 7000, pipeline=pipeline)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(result) == 100
    assert result.consumed == 128
    assert peak < 2_000_000


def test_memory_stays_flat_while_a_budget_that_nothing_fills_reads_on():
    def peak_of(count):
        tracemalloc.start()
        result = stream((item(f"{number} " + "x" * 500, 70) for number in range(count)), 1000)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert result.exhausted
        assert result.consumed == count
        return peak

    assert peak_of(20_000) < 1.2 * peak_of(2_000)


def test_slack_stops_a_stream_whose_items_cannot_fill_the_rest():
    result = stream((item(f"{number}", 70) for number in range(100_000)), 1000, slack_tokens=69)
    assert len(result) == 14
    assert result.consumed == 32


def test_scores_are_relative_to_the_batch():
    """Two batches of two: each has a newest item of its own, so the oldest item of all beats a newer one."""
    from datetime import UTC, datetime, timedelta

    start = datetime(2026, 1, 1, tzinfo=UTC)
    items = [ContextItem(str(day), 30, timestamp=start + timedelta(days=day)) for day in (1, 0, 3, 2)]
    pipeline = Pipeline(scorer=RecencyScorer())
    assert contents(stream(items, 60, pipeline=pipeline, batch_size=2)) == ["0", "1"]
    assert contents(stream(items, 60, pipeline=pipeline, batch_size=4)) == ["2", "3"]


def test_with_everything_in_one_batch_and_room_for_all_it_is_a_run():
    items = [item("c", 10, 0.2), item("a", 10, 0.9), item("p", 10, pinned=True), item("a", 10, 0.95), item("z", 0)]
    for placer in (PIPELINE.placer, UShapedPlacer()):
        pipeline = Pipeline(scorer=ReflexiveScorer(), placer=placer)
        budget = ContextBudget(100, 100)
        assert contents(stream(items, 100, pipeline=pipeline)) == contents(pipeline.run(items, budget))


def test_negative_counts_are_dropped_even_when_pinned():
    told = []
    result = stream([item("a", -5), item("b", -5, pinned=True), item("c", 5)], 10, on_excluded=told.append)
    assert contents(result) == ["c"]
    assert result.excluded == {"NegativeTokens": 2}
    assert [(entry.item.content, entry.score, entry.reason.tokens) for entry in told] == [
        ("a", 0.0, -5),
        ("b", 0.0, -5),
    ]


def test_copies_are_dropped_across_batches():
    result = stream([item("a", 10), item("b", 10), item("a", 10), item("a", 10)], 100, batch_size=1)
    assert contents(result) == ["a", "b"]
    assert result.excluded == {"Deduplicated": 2}


def test_within_a_batch_the_best_copy_stays():
    first, best = item("a", 10, 0.1), item("a", 10, 0.9)
    assert stream([first, best], 100).items[0] is best


def test_copies_stay_when_deduplication_is_off():
    pipeline = Pipeline(scorer=ReflexiveScorer(), deduplicate=False)
    assert contents(stream([item("a", 10), item("a", 10)], 100, pipeline=pipeline, batch_size=1)) == ["a", "a"]


def test_a_pinned_item_is_no_copy():
    assert contents(stream([item("a", 10, pinned=True), item("a", 10)], 100, batch_size=1)) == ["a", "a"]


def test_pinned_items_reserve_room_before_their_batch_is_chosen_from():
    result = stream([item("a", 60, 0.9), item("p", 50, 0.0, pinned=True), item("b", 50, 0.1)], 100)
    assert sorted(contents(result)) == ["b", "p"]


def test_what_was_chosen_makes_way_for_a_pinned_item_that_comes_later():
    told = []
    items = [item("good", 40, 0.9), item("poor", 40, 0.1), item("pin", 50, pinned=True), item("tail", 10, 0.2)]
    result = stream(items, 100, batch_size=2, on_excluded=told.append)
    assert sorted(contents(result)) == ["good", "pin", "tail"]
    assert result.excluded == {"PinnedOverride": 1}
    assert [(entry.item.content, entry.reason.displaced_by) for entry in told] == [("poor", "pin")]


def test_no_more_makes_way_than_a_pinned_item_needs():
    items = [item("good", 40, 0.9), item("poor", 40, 0.1), item("pin", 60, pinned=True), item("tail", 1)]
    assert sorted(contents(stream(items, 100, batch_size=2))) == ["good", "pin"]


def test_what_makes_way_is_told_which_pinned_item_needed_the_room():
    told = []
    items = [item("poor", 90, 0.1), item("good", 5, 0.9), item("free", 0, pinned=True), item("pin", 20, pinned=True)]
    stream(items, 100, batch_size=2, on_excluded=told.append)
    assert [(entry.item.content, entry.reason.displaced_by) for entry in told] == [("poor", "pin")]


def test_items_without_tokens_never_make_way():
    items = [item("free", 0, 0.0), item("big", 90, 0.9), item("pin", 20, pinned=True)]
    assert sorted(contents(stream(items, 100, batch_size=2))) == ["free", "pin"]


def test_an_item_that_made_way_may_come_back():
    items = [item("big", 90, 0.1), item("pin", 20, pinned=True), item("big", 70, 0.1)]
    assert sorted(entry.tokens for entry in stream(items, 100, batch_size=1)) == [20, 70]


def test_pinned_items_beyond_the_window_raise_and_the_stream_is_closed():
    feed = Feed([item("p", 60, pinned=True), item("q", 60, pinned=True)])
    with pytest.raises(PinnedExceedsBudgetError, match="Pinned items require 120 tokens, but only 100 are available"):
        asyncio.run(PIPELINE.stream(feed, ContextBudget(100, 90), batch_size=1))
    assert feed.closed


@pytest.mark.parametrize("overflow", OverflowStrategy)
def test_pinned_items_above_the_target_are_the_overflow_strategys_business(overflow):
    told = []
    pipeline = Pipeline(
        scorer=ReflexiveScorer(),
        overflow=overflow,
        on_overflow=told.append if overflow is OverflowStrategy.PROCEED else None,
    )
    items = [item("a", 10), item("p", 60, pinned=True)]
    budget = ContextBudget(100, 50)
    if overflow is OverflowStrategy.THROW:
        with pytest.raises(BudgetOverflowError):
            stream(items, 50, pipeline=pipeline, budget=budget)
    else:
        assert contents(stream(items, 50, pipeline=pipeline, budget=budget)) == ["p"]
        assert [event.tokens_over_budget for event in told] == ([10] if told else [])
        assert bool(told) is (overflow is OverflowStrategy.PROCEED)


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_an_item_that_truncation_removes_is_counted_and_told(batch_size):
    told = []
    pipeline = Pipeline(scorer=ReflexiveScorer(), overflow=OverflowStrategy.TRUNCATE)
    items = [item("free", 0), item("pin", 60, pinned=True)]
    result = stream(
        items, 50, pipeline=pipeline, budget=ContextBudget(100, 50), batch_size=batch_size, on_excluded=told.append
    )
    assert contents(result) == ["pin"]
    assert len(result) + sum(result.excluded.values()) == result.consumed == 2
    assert [entry.item.content for entry in told] == ["free"]


@law(200)
@given(
    st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 12), st.booleans()), max_size=9),
    st.integers(1, 4),
    st.integers(0, 20),
    st.sampled_from([OverflowStrategy.TRUNCATE, OverflowStrategy.PROCEED]),
)
def test_every_item_is_selected_or_counted(rows, batch_size, target, overflow):
    items = [item(str(tokens), tokens, hint / 12, pinned=pinned) for tokens, hint, pinned in rows]
    told = []
    result = stream(
        items,
        target,
        pipeline=Pipeline(scorer=ReflexiveScorer(), overflow=overflow),
        budget=ContextBudget(50, target),
        batch_size=batch_size,
        on_excluded=told.append,
    )
    assert len(result) + len(told) == result.consumed
    assert sum(result.excluded.values()) == len(told)


def test_a_subclass_with_a_slice_of_its_own_is_refused():
    class Own(GreedySlice):
        def slice(self, scored, budget):
            return []

    with pytest.raises(PipelineConfigError, match="Own cannot do"):
        asyncio.run(Pipeline(scorer=ReflexiveScorer(), slicer=Own()).stream(Feed([]), 9))


def test_a_number_is_a_budget_and_results_are_short():
    result = asyncio.run(PIPELINE.stream(Feed([item("a" * 1000, 4), item("b", 4)]), 5))
    assert result.budget == ContextBudget(5, 5)
    assert repr(result) == "<StreamResult: 1 item, 4 of 5 target tokens>"
    gathered = asyncio.run(PIPELINE.arun([item("a" * 1000, 4), item("b", 1)], 5))
    assert repr(gathered) == "<ContextResult: 2 items, 5 of 5 target tokens>"


def test_a_selection_that_meets_the_target_is_no_overflow():
    told = []
    pipeline = Pipeline(scorer=ReflexiveScorer(), overflow=OverflowStrategy.PROCEED, on_overflow=told.append)
    assert contents(stream([item("a", 50)], 50, pipeline=pipeline)) == ["a"]
    assert not told


def test_the_effective_budget_is_that_of_a_run():
    budget = ContextBudget(
        1000, 900, output_reserve=200, reserved_slots={"Memory": 300}, estimation_safety_margin_percent=7
    )
    items = [item(f"{number}", 1) for number in range(1000)]
    assert stream(items, 0, budget=budget).total_tokens == sum(entry.tokens for entry in PIPELINE.run(items, budget))


def test_without_room_nothing_is_read():
    assert stream([item("a", 0)], 0).consumed == 0


def test_the_batch_size_is_the_slicers_unless_given():
    pipeline = Pipeline(scorer=ReflexiveScorer(), slicer=StreamSlice(5))
    items = [item(f"{number}", 1) for number in range(50)]
    assert stream(items, 7, pipeline=pipeline).consumed == 10
    assert stream(items, 7, pipeline=pipeline, batch_size=3).consumed == 9
    assert stream(items, 7).consumed == 32


def test_an_item_source_streams():
    class Source(ItemSource):
        async def get(self):
            return [item("a", 1), item("b", 2)]

    assert contents(asyncio.run(PIPELINE.stream(Source(), ContextBudget(9, 9)))) == ["a", "b"]


@pytest.mark.parametrize(
    "slicer",
    [
        KnapsackSlice(),
        QuotaSlice([QuotaEntry("Message", 10, 50)]),
        CountQuotaSlice([CountQuotaEntry("Message", 1, 2)]),
    ],
)
def test_slicers_that_need_all_candidates_are_refused_before_anything_is_read(slicer):
    feed = Feed([item("a", 1)])
    with pytest.raises(PipelineConfigError, match=f"{type(slicer).__name__} cannot do"):
        asyncio.run(Pipeline(scorer=ReflexiveScorer(), slicer=slicer).stream(feed, ContextBudget(9, 9)))
    assert feed.read == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch_size": 0}, SlicerConfigError, "batch_size must be >= 1, got 0"),
        ({"batch_size": "2"}, TypeError, "batch_size must be an integer, got str"),
        ({"slack_tokens": -1}, PipelineConfigError, "slack_tokens must be >= 0, got -1"),
        ({"slack_tokens": 1.5}, TypeError, "slack_tokens must be an integer, got float"),
    ],
)
def test_options_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        asyncio.run(PIPELINE.stream(Feed([]), ContextBudget(9, 9), **options))


@pytest.mark.parametrize("source", [[item("a", 1)], None, 3])
def test_a_stream_must_be_asynchronous(source):
    with pytest.raises(TypeError, match="source must be an asynchronous iterable"):
        asyncio.run(PIPELINE.stream(source, ContextBudget(9, 9)))


def test_what_the_stream_yields_must_be_items():
    with pytest.raises(TypeError, match=r"items\[1\] must be a ContextItem, got str"):
        stream([item("a", 1), "b"], 9)


def test_cancellation_closes_the_stream():
    events = []

    async def hanging():
        try:
            yield item("a", 1)
            await asyncio.Event().wait()
        finally:
            events.append("closed")

    async def timed():
        async with asyncio.timeout(0.01):
            await PIPELINE.stream(hanging(), ContextBudget(9, 9), batch_size=1)

    with pytest.raises(TimeoutError):
        asyncio.run(timed())
    assert events == ["closed"]


async def endless(tokens, *, pinned=False):
    number = 0
    while True:
        number += 1
        yield item(f"item {number}", tokens, pinned=pinned)


async def within(seconds, awaitable):
    async with asyncio.timeout(seconds):
        await awaitable


def test_a_timeout_ends_a_stream_that_never_waits():
    with pytest.raises(TimeoutError):
        asyncio.run(within(0.02, PIPELINE.stream(endless(70), ContextBudget(100, 100))))


@pytest.mark.parametrize("pinned", [False, True])
def test_items_without_tokens_are_at_most_as_many_as_the_target_has_tokens(pinned):
    result = asyncio.run(PIPELINE.stream(endless(0, pinned=pinned), ContextBudget(100, 100), batch_size=8))
    assert (len(result), result.consumed, result.exhausted) == (104, 104, False)
