import asyncio
import pickle
from itertools import repeat

import pytest

from cupel import (
    ContextBudget,
    ContextItem,
    DiagnosticTraceCollector,
    PinnedExceedsBudgetError,
    Pipeline,
    PipelineConfigError,
    RecencyScorer,
)
from cupel.pipeline import ItemSource, SourceError, SourceFailure

PIPELINE = Pipeline(scorer=RecencyScorer())
BUDGET = ContextBudget(100, 100)


def items(*names):
    return [ContextItem(name, 1) for name in names]


def after(seconds, *names):
    async def source():
        await asyncio.sleep(seconds)
        return items(*names)

    return source


async def failing():
    await asyncio.sleep(0)
    raise ConnectionError("refused")


async def hanging():
    await asyncio.Event().wait()


def arun(sources, **options):
    return asyncio.run(PIPELINE.arun(sources, BUDGET, **options))


def names(result):
    return [item.content for item in result]


class Getter(ItemSource):
    async def get(self):
        return items("a", "b")


class Streamer(ItemSource):
    async def stream(self):
        for item in items("a", "b"):
            yield item


class Duck:
    async def get(self):
        return tuple(items("a", "b"))


async def generator():
    for item in items("a", "b"):
        await asyncio.sleep(0)
        yield item


@pytest.mark.parametrize(
    "source",
    [
        Getter,
        Streamer,
        Duck,
        generator,
        lambda: generator,
        lambda: items("a", "b"),
        lambda: tuple(items("a", "b")),
        lambda: iter(items("a", "b")),
        lambda: after(0, "a", "b"),
        after(0, "a", "b"),
        lambda: lambda: items("a", "b"),
    ],
    ids=["get", "stream", "duck", "agen", "agenfunc", "list", "tuple", "iterator", "corofunc", "coro", "function"],
)
def test_whatever_gives_items_is_a_source(source):
    assert names(arun(source())) == ["a", "b"]
    assert names(arun([source(), items("c")])) == ["a", "b", "c"]


def test_the_result_is_that_of_select_on_the_concatenated_items():
    candidates = items("a", "b", "c")
    result = arun([candidates[:2], candidates[2:]])
    expected = PIPELINE.select(candidates, BUDGET)
    assert result.items == expected.items
    assert result.report.included == expected.report.included
    assert result.total_tokens == expected.total_tokens
    assert result.budget is BUDGET
    assert result.source_errors == ()


def test_items_come_in_the_order_of_the_sources_whichever_answers_first():
    assert names(arun([after(0.02, "slow"), after(0.01, "middle"), after(0, "fast")])) == ["slow", "middle", "fast"]


def test_sources_are_read_at_the_same_time():
    async def timed():
        loop = asyncio.get_running_loop()
        start = loop.time()
        await PIPELINE.arun([after(0.1, f"{number}") for number in range(20)], BUDGET)
        return loop.time() - start

    assert asyncio.run(timed()) < 1.0


def test_a_failing_source_raises_and_the_others_are_cancelled():
    cancelled = []

    async def watching():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(SourceError, match=r"^web: ConnectionError: refused$") as caught:
        arun({"docs": watching, "web": failing})
    assert cancelled == [True]
    assert caught.value.failure.source == "web"
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_of_two_failing_sources_the_first_speaks():
    def broken(text):
        def source():
            raise ValueError(text)

        return source

    with pytest.raises(SourceError, match=r"sources\[0\]: ValueError: one"):
        arun([broken("one"), broken("two")])


def test_a_failing_source_can_be_skipped_and_is_recorded():
    result = arun({"memory": after(0, "m"), "web": failing, "docs": after(0, "d")}, on_error="skip")
    assert names(result) == ["m", "d"]
    (failure,) = result.source_errors
    assert (failure.source, type(failure.error), failure.timeout) == ("web", ConnectionError, None)
    assert str(failure) == "web: ConnectionError: refused"


def test_a_hanging_source_is_timed_out():
    with pytest.raises(SourceError, match=r"sources\[1\]: timed out after 0.01 s"):
        arun([after(0, "a"), hanging], timeout=0.01)
    result = arun([after(0, "a"), hanging], timeout=0.01, on_error="skip")
    assert names(result) == ["a"]
    assert result.source_errors[0].timeout == 0.01


def test_a_hanging_generator_is_closed_and_gives_nothing():
    events = []

    async def half():
        try:
            yield ContextItem("half", 1)
            await asyncio.Event().wait()
        finally:
            events.append("closed")

    result = arun([half(), items("a")], timeout=0.01, on_error="skip")
    assert names(result) == ["a"]
    assert events == ["closed"]


async def restless():
    while True:
        yield ContextItem("again", 1)


@pytest.mark.parametrize("source", [restless, lambda: repeat(ContextItem("again", 1))], ids=["async", "plain"])
def test_a_source_that_never_waits_is_timed_out_too(source):
    result = arun({"restless": source, "good": items("a")}, timeout=0.02, on_error="skip")
    assert names(result) == ["a"]
    assert [str(failure) for failure in result.source_errors] == ["restless: timed out after 0.02 s"]


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 65])
def test_a_source_of_any_length_is_read_whole(count):
    async def counted():
        for number in range(count):
            yield ContextItem(str(number), 0)

    assert len(arun([counted])) == count


def test_each_source_can_have_its_own_time():
    result = arun({"slow": after(0.05, "s"), "stuck": hanging}, timeout={"stuck": 0.01}, on_error="skip")
    assert names(result) == ["s"]
    assert [failure.source for failure in result.source_errors] == ["stuck"]


def test_a_sources_own_timeout_error_is_not_ours():
    async def impatient():
        raise TimeoutError("upstream took too long")

    result = arun({"web": impatient}, timeout=10, on_error="skip")
    assert str(result.source_errors[0]) == "web: TimeoutError: upstream took too long"


def test_a_source_that_cancels_itself_has_failed():
    async def confused():
        raise asyncio.CancelledError

    result = arun({"web": confused, "docs": items("d")}, on_error="skip")
    assert names(result) == ["d"]
    assert isinstance(result.source_errors[0].error, asyncio.CancelledError)


def test_cancelling_the_caller_cancels_the_sources():
    events = []

    async def watched():
        try:
            await asyncio.Event().wait()
        finally:
            events.append("cancelled")

    async def cancelled():
        task = asyncio.create_task(PIPELINE.arun([watched, watched], BUDGET, on_error="skip"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert events == ["cancelled", "cancelled"]


def test_a_coroutine_that_never_began_is_closed_quietly(recwarn):
    def broken():
        raise ValueError("at once")

    with pytest.raises(SourceError):
        arun([broken, after(0, "a")()])
    assert not list(recwarn)


def test_what_a_source_gives_must_be_items():
    with pytest.raises(SourceError, match=r"docs: TypeError: items\[1\] must be a ContextItem, got str: 'b'"):
        arun({"docs": [*items("a"), "b"]})


@pytest.mark.parametrize("given", ["text", 3, None, {"a": 1}])
def test_what_a_source_gives_must_be_iterable(given):
    with pytest.raises(SourceError, match="what a source gives must be an iterable of items, got"):
        arun({"docs": lambda: given})


def test_no_sources_give_an_empty_selection():
    assert names(arun([])) == []
    assert names(arun({})) == []


def test_the_selections_own_errors_are_not_wrapped():
    pinned = [ContextItem("p", 200, pinned=True)]
    with pytest.raises(PinnedExceedsBudgetError):
        arun([pinned])


def test_the_trace_observes_the_run():
    trace = DiagnosticTraceCollector()
    result = arun([items("a")], trace=trace)
    assert trace.build_report().included == result.report.included


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on_error": "ignore"}, PipelineConfigError, "on_error must be 'raise' or 'skip', got 'ignore'"),
        ({"timeout": 0}, PipelineConfigError, "timeout must be more than 0 seconds, got 0"),
        ({"timeout": float("nan")}, PipelineConfigError, "timeout must be more than 0 seconds, got nan"),
        ({"timeout": "1"}, TypeError, "timeout must be a number, got str: '1'"),
        ({"timeout": {"web": 1}}, PipelineConfigError, "timeout names 'web', which is not a source"),
    ],
)
def test_options_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        arun({"docs": items("a")}, **options)


def test_a_name_is_a_string():
    with pytest.raises(TypeError, match="a source's name must be a string, got int: 3"):
        arun({3: items("a")})


def test_the_budget_is_checked_before_anything_is_read():
    read = []
    with pytest.raises(TypeError, match="budget must be a ContextBudget"):
        asyncio.run(PIPELINE.arun(lambda: read.append(1), "100"))
    assert read == []


def test_a_source_class_defines_one_of_the_two():
    with pytest.raises(TypeError, match="Empty must define get or stream"):
        type("Empty", (ItemSource,), {})


def test_the_error_pickles():
    error = SourceError(SourceFailure("web", TimeoutError(), 2.0))
    assert str(pickle.loads(pickle.dumps(error))) == "web: timed out after 2 s"


def test_what_is_no_ordinary_error_of_a_source_goes_before_those_that_are():
    class Stop(BaseException):
        pass

    async def stopping():
        await asyncio.sleep(0)
        raise Stop

    with pytest.raises(Stop):
        arun({"first": failing, "second": stopping})
    with pytest.raises(SourceError, match="first"):
        arun({"first": failing, "second": failing})
