"""Trying forms in order."""

import asyncio
import threading
import time
from functools import partial

import pytest

from cupel.shorten import FormFailure, Shortened, atry_forms, head_tail, shorten, try_forms
from cupel.tokens import CharacterEstimate

COUNTER = CharacterEstimate(4.0)
TEXT = "one line of many\n" * 200


def summary(text, limit):
    return "a summary"


async def asummary(text, limit):
    await asyncio.sleep(0)
    return "a summary"


def broken(text, limit):
    msg = "no model"
    raise ConnectionError(msg)


def both(*forms, **options):
    return [
        try_forms(TEXT, 50, *forms, counter=COUNTER, **options),
        asyncio.run(atry_forms(TEXT, 50, *forms, counter=COUNTER, **options)),
    ]


@pytest.mark.parametrize("timeout", [None, 60])
def test_the_first_that_succeeds_is_taken(timeout):
    for tried in both(summary, head_tail, timeout=timeout):
        assert tried == Shortened("a summary", 3, "summary")


@pytest.mark.parametrize("timeout", [None, 60])
def test_an_error_is_reported_and_the_next_form_is_taken(timeout):
    for tried in both(broken, summary, timeout=timeout):
        assert tried.form == "summary"
        (failure,) = tried.failures
        assert (failure.form, failure.reason) == ("broken", "ConnectionError: no model")
        assert isinstance(failure.error, ConnectionError)


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "returned NoneType, not a string"),
        ("word " * 50, "returned 63 tokens, more than the limit of 50"),
        ("x" * 4000, "returned 4,000 characters for 3,400"),
    ],
)
def test_a_form_that_breaks_its_promise_has_failed(returned, reason):
    def form(text, limit):
        return returned

    for tried in both(form):
        assert tried == Shortened(
            shorten(TEXT, 50, counter=COUNTER), tried.tokens, "shorten", (FormFailure("form", reason),)
        )


def test_a_function_that_takes_too_long_is_left_behind():
    release = threading.Event()

    def slow(text, limit):
        release.wait(60)
        return "late"

    try:
        started = time.monotonic()
        for tried in both(slow, summary, timeout=0.5):
            assert tried == Shortened("a summary", 3, "summary", (FormFailure("slow", "took longer than 0.5 seconds"),))
        assert time.monotonic() - started < 30
    finally:
        release.set()


def test_a_coroutine_that_takes_too_long_is_cancelled():
    cancelled = []

    async def slow(text, limit):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    tried = asyncio.run(atry_forms(TEXT, 50, partial(slow), asummary, counter=COUNTER, timeout=0.5))
    assert tried.failures == (FormFailure("slow", "took longer than 0.5 seconds"),)
    assert (tried.form, cancelled) == ("asummary", [True])


def test_a_timeout_that_a_form_raises_is_its_own_error():
    async def gateway(text, limit):
        raise TimeoutError("upstream")

    tried = asyncio.run(atry_forms(TEXT, 50, gateway, counter=COUNTER, timeout=60))
    assert tried.failures[0].reason == "TimeoutError: upstream"


def test_cancelling_the_caller_is_not_a_failure_of_the_form():
    async def scenario():
        async def forever(text, limit):
            await asyncio.sleep(60)

        task = asyncio.create_task(atry_forms(TEXT, 50, forever, summary, counter=COUNTER))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_form_to_be_awaited_is_refused_where_nobody_awaits():
    tried = try_forms(TEXT, 50, asummary, summary, counter=COUNTER)
    assert tried.failures == (FormFailure("asummary", "has to be awaited: use atry_forms"),)


def test_the_own_forms_are_given_all_the_time_they_need():
    for tried in both(partial(head_tail, head=0.5), timeout=1e-9):
        assert (tried.form, tried.failures) == ("head_tail", ())


def test_a_text_within_the_limit_asks_no_form():
    assert try_forms("short", 50, broken, counter=COUNTER) == Shortened("short", 2, "full")
    assert asyncio.run(atry_forms("short", 50, broken, counter=COUNTER)) == Shortened("short", 2, "full")


def test_a_callable_object_is_named_by_its_type():
    class Summariser:
        async def __call__(self, text, limit):
            return "a summary"

    assert asyncio.run(atry_forms(TEXT, 50, Summariser(), counter=COUNTER, timeout=60)).form == "Summariser"


@pytest.mark.parametrize(("timeout", "error"), [(0, ValueError), (-1, ValueError), ("1", TypeError), (True, TypeError)])
def test_a_time_limit_is_checked(timeout, error):
    with pytest.raises(error, match="timeout must be"):
        try_forms(TEXT, 50, summary, timeout=timeout)
    with pytest.raises(TypeError, match="limit must be a number of tokens, got NoneType"):
        try_forms(TEXT, None, summary)
