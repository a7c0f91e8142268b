import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import ContextBudget, ContextItem, GreedySlice, Pipeline, ReflexiveScorer, ScoredItem, StreamSlice
from cupel.errors import SlicerConfigError


class Feed:
    """An asynchronous iterator over given entries that counts what was read and knows whether it was closed."""

    def __init__(self, entries, *, error=None):
        self._entries = iter(entries)
        self._error = error
        self.read = 0
        self.closed = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        for entry in self._entries:
            self.read += 1
            return entry
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def aclose(self):
        self.closed = True


def scored(*pairs):
    return [ScoredItem(ContextItem(f"{position}", tokens), score) for position, (tokens, score) in enumerate(pairs)]


def contents(items):
    return [item.content for item in items]


def choose(slicer, entries, target):
    feed = Feed(entries)
    return asyncio.run(slicer.slice(feed, ContextBudget(target, target))), feed


def test_each_batch_is_taken_by_score_and_only_then_the_next_is_read():
    chosen, feed = choose(StreamSlice(2), scored((40, 0.1), (40, 0.2), (40, 0.9), (10, 0.3)), 90)
    assert contents(chosen) == ["1", "0", "3"]
    assert feed.read == 4


def test_reading_stops_after_the_batch_that_fills_the_budget():
    chosen, feed = choose(StreamSlice(3), scored(*[(10, 0.5)] * 100), 30)
    assert contents(chosen) == ["0", "1", "2"]
    assert feed.read == 3
    assert feed.closed


def test_a_budget_that_is_not_quite_full_goes_on_reading():
    chosen, feed = choose(StreamSlice(3), scored(*[(10, 0.5)] * 7), 31)
    assert len(chosen) == 3
    assert feed.read == 7


def test_equal_scores_keep_their_order():
    chosen, _ = choose(StreamSlice(), scored((1, 0.5), (1, 0.7), (1, 0.5), (1, 0.7)), 10)
    assert contents(chosen) == ["1", "3", "0", "2"]


def test_nan_comes_last_in_its_batch():
    chosen, _ = choose(StreamSlice(), scored((6, math.nan), (6, -math.inf)), 10)
    assert contents(chosen) == ["1"]


def test_items_without_tokens_are_taken_even_in_the_batch_that_fills_the_budget():
    chosen, _ = choose(StreamSlice(3), scored((10, 0.9), (0, 0.1), (0, 0.0)), 10)
    assert contents(chosen) == ["0", "1", "2"]


def test_items_without_tokens_after_the_budget_is_full_are_lost():
    chosen, feed = choose(StreamSlice(1), scored((10, 0.9), (0, 0.8)), 10)
    assert contents(chosen) == ["0"]
    assert feed.read == 1


def test_negative_counts_are_never_taken():
    chosen, _ = choose(StreamSlice(), scored((-50, 0.9), (10, 0.1), (10, 0.05)), 10)
    assert contents(chosen) == ["1"]


def test_without_a_target_nothing_is_read_but_the_source_is_closed():
    chosen, feed = choose(StreamSlice(), scored((0, 1.0)), 0)
    assert chosen == []
    assert feed.read == 0
    assert feed.closed


def test_an_iterator_that_cannot_be_closed_will_do():
    class Bare:
        def __init__(self):
            self._entries = iter(scored((1, 0.5)))

        def __aiter__(self):
            return self

        async def __anext__(self):
            for entry in self._entries:
                return entry
            raise StopAsyncIteration

    assert contents(asyncio.run(StreamSlice().slice(Bare(), ContextBudget(9, 9)))) == ["0"]


def test_an_error_of_the_source_reaches_the_caller_and_the_source_is_closed():
    feed = Feed(scored((1, 0.5)), error=ConnectionError("gone"))
    with pytest.raises(ConnectionError, match="gone"):
        asyncio.run(StreamSlice().slice(feed, ContextBudget(9, 9)))
    assert feed.closed


def test_cancellation_closes_a_generator_in_the_middle():
    events = []

    async def hanging():
        try:
            yield ScoredItem(ContextItem("a", 1), 1.0)
            await asyncio.Event().wait()
        finally:
            events.append("closed")

    async def cancelled():
        task = asyncio.create_task(StreamSlice().slice(hanging(), ContextBudget(9, 9)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert events == ["closed"]


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 1)), max_size=40), st.integers(0, 200), st.integers(1, 9))
def test_it_chooses_what_the_ruling_spells_out(pairs, target, batch_size):
    entries = scored(*pairs)
    expected, remaining, batch, read = [], target, [], 0

    def process():
        nonlocal remaining
        for entry in sorted(batch, key=lambda entry: -entry.score):
            if entry.item.tokens == 0 or entry.item.tokens <= remaining:
                expected.append(entry.item)
                remaining -= entry.item.tokens
        batch.clear()

    for entry in entries if target > 0 else []:
        read += 1
        batch.append(entry)
        if len(batch) == batch_size:
            process()
            if remaining <= 0:
                break
    if remaining > 0:
        process()
    chosen, feed = choose(StreamSlice(batch_size), entries, target)
    assert contents(chosen) == contents(expected)
    assert feed.read == read


def test_in_a_synchronous_run_it_is_greedy():
    items = [ContextItem(str(size), size, future_relevance_hint=size / 100) for size in (90, 30, 60, 10)]
    budget = ContextBudget(100, 100)
    run = Pipeline(scorer=ReflexiveScorer(), slicer=StreamSlice(2)).run(items, budget)
    assert run == Pipeline(scorer=ReflexiveScorer(), slicer=GreedySlice()).run(items, budget)
    entries = scored((40, 0.1), (40, 0.2), (40, 0.9))
    assert StreamSlice(1).slice(entries, budget) == GreedySlice().slice(entries, budget)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_holds_at_least_one_item(batch_size):
    with pytest.raises(SlicerConfigError, match=f"batch_size must be >= 1, got {batch_size}"):
        StreamSlice(batch_size)


@pytest.mark.parametrize("batch_size", [True, 2.0, "32", None])
def test_a_batch_size_is_an_integer(batch_size):
    with pytest.raises(TypeError, match="batch_size must be an integer"):
        StreamSlice(batch_size)


def test_items_without_tokens_are_not_read_for_ever():
    chosen, feed = choose(StreamSlice(4), scored(*[(0, 0.5)] * 100), 10)
    assert len(chosen) == feed.read == 12
