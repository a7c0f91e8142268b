"""What a provider says of a request corrects what a session counts."""

from __future__ import annotations

from typing import Any

import pytest

from cupel import Prices
from cupel.messages import Bill, MessageSession
from tests.messages.chat import OPTIONS, weigh
from tests.messages.simulated import Message, Provider, conversation, requests


@pytest.mark.parametrize("ratio", [1.4, 1.0, 0.7])
def test_the_budget_is_kept_in_the_providers_own_tokens(ratio: float) -> None:
    messages = conversation(3, 60)
    budget = weigh(messages) // 3
    session = MessageSession[Message](budget, prices=Prices.marked(), **OPTIONS)
    provider = Provider(ratio=ratio)
    price = 0.0
    for history in requests(messages):
        turn = session.fit(history)
        usage = provider.answer(turn.messages, weigh)
        assert usage["prompt_tokens"] <= budget
        settled = session.observe(usage)
        assert settled is not None
        assert settled.settled
        assert (settled.sent, settled.read) == (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"])
        assert settled.read + settled.rewritten + settled.new == settled.sent
        price += settled.price
    assert session.total.settled
    assert session.total.price == pytest.approx(price) == pytest.approx(provider.billed)


@pytest.mark.parametrize("forgets", [0.0, 0.5])
def test_the_bill_of_a_provider_that_forgets_is_right(forgets: float) -> None:
    messages = conversation(4, 60)
    session = MessageSession[Message](weigh(messages) // 3, prices=Prices.marked(), **OPTIONS)
    provider = Provider(forgets=forgets, seed=7)
    for history in requests(messages):
        turn = session.fit(history)
        session.observe(provider.answer(turn.messages, weigh))
    assert session.total.price == pytest.approx(provider.billed)
    assert session.total.read + session.total.rewritten + session.total.new == session.total.sent


def test_another_process_goes_on_in_the_middle_of_calibration() -> None:
    messages = conversation(5, 40)
    budget = weigh(messages) // 3
    one, other = (Provider(ratio=1.3, forgets=0.2, seed=1) for _ in range(2))
    session = MessageSession[Message](budget, prices=Prices.marked(), **OPTIONS)
    state = session.to_json()
    for history in requests(messages):
        restarted = MessageSession.from_json(state, budget, prices=Prices.marked(), **OPTIONS)
        turn, again = session.fit(history), restarted.fit(history)
        assert again.messages == turn.messages
        assert again.shortened == turn.shortened
        session.observe(one.answer(turn.messages, weigh))
        restarted.observe(other.answer(again.messages, weigh))
        state = restarted.to_json()
        assert state == session.to_json()
    assert len(state) < 10_000


def test_an_answer_is_observed_once() -> None:
    session = MessageSession[Message](1000, **OPTIONS)
    usage = {"prompt_tokens": 20, "prompt_tokens_details": {"cached_tokens": 0}}
    assert session.observe(usage) is None, "there is no request to settle"
    session.fit([{"role": "user", "content": "Hello!"}])
    assert not session.total.settled
    assert session.observe(usage) is not None
    before = session.to_json()
    assert session.observe({**usage, "prompt_tokens": 99}) is None
    assert session.to_json() == before


@pytest.mark.parametrize(
    ("usage", "sent", "read"),
    [
        ({"input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 10}, 100, 80),
        ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64}}, 100, 64),
        ({"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}, 100, 64),
        ({"prompt_token_count": 100, "cached_content_token_count": 50}, 100, 50),
        ({"promptTokenCount": 100, "cachedContentTokenCount": 50}, 100, 50),
        ({"input_tokens": 100, "input_token_details": {"cache_read": 50, "cache_creation": 30}}, 100, 50),
        ({"input_tokens": 100, "cache_read_tokens": 50, "cache_write_tokens": 30}, 100, 50),
        ({"prompt_tokens": 100, "prompt_tokens_details": None}, 100, 0),
    ],
)
def test_the_usage_of_every_provider_is_read(usage: dict[str, Any], sent: int, read: int) -> None:
    class Given:
        def __init__(self, values: dict[str, Any]) -> None:
            for name, value in values.items():
                setattr(self, name, Given(value) if isinstance(value, dict) else value)

    for form in (usage, Given(usage)):
        session = MessageSession[Message](1000, **OPTIONS)
        session.fit([{"role": "user", "content": "Hello!"}])
        bill = session.observe(form)
        assert bill is not None
        assert (bill.sent, bill.read) == (sent, read)
        assert (bill.new, bill.rewritten) == (sent - read, 0), "all of a first request is new, but for what was read"


def diagnosed(cause: str, tokens: int | None = None) -> dict[str, Any]:
    missed = {} if tokens is None else {"cache_missed_input_tokens": tokens}
    return {"cache_miss_reason": {"type": cause, **missed}}


def second_turn(diagnostics: object, *, read: int = 0) -> tuple[MessageSession[Message], Bill]:
    """A session after its second request, which should have been read from the cache up to the end of the first one."""
    session = MessageSession[Message](10_000, provider="anthropic", counter=OPTIONS["counter"])
    history = [{"role": "user", "content": "What is in the log? " * 100}]
    first = session.fit(history)
    session.observe({"input_tokens": first.total_tokens})
    turn = session.fit([*history, {"role": "assistant", "content": "Rain."}, {"role": "user", "content": "And now?"}])
    usage = {"input_tokens": turn.total_tokens - read, "cache_read_input_tokens": read}
    bill = session.observe(usage, diagnostics=diagnostics)
    assert bill is not None
    return session, bill


@pytest.mark.parametrize("cause", ["model_changed", "system_changed", "tools_changed", "messages_changed"])
def test_a_bill_is_wrong_if_the_provider_saw_another_request(cause: str, caplog: pytest.LogCaptureFixture) -> None:
    _, bill = second_turn(diagnosed(cause, 500))
    said = f"{cause.replace('_', ' ')}, 500 tokens were not read"
    assert bill.mistake == said
    assert str(bill).endswith(f"; the estimate was wrong: {said}")
    assert caplog.messages[-1] == f"turn 2: the bill was wrong: {said}"


@pytest.mark.parametrize(
    "diagnostics",
    [
        None,
        {"cache_miss_reason": None},
        diagnosed("previous_message_not_found"),
        diagnosed("unavailable"),
        diagnosed("messages_changed", 20),
    ],
)
def test_a_bill_that_no_diagnosis_contradicts_is_right(diagnostics: object) -> None:
    assert second_turn(diagnostics, read=500)[1].mistake == ""


def test_a_request_that_the_session_rewrote_is_no_mistake() -> None:
    messages = conversation(3, 60)
    session = MessageSession[Message](weigh(messages) // 3, prices=Prices.marked(), **OPTIONS)
    provider = Provider()
    rewritten = 0
    for history in requests(messages):
        turn = session.fit(history)
        usage = provider.answer(turn.messages, weigh)
        rewritten += turn.bill.rewritten
        bill = session.observe(usage, diagnostics=diagnosed("messages_changed", turn.bill.rewritten))
        assert bill is not None
        assert bill.mistake == ""
    assert rewritten > 0


def test_diagnostics_of_another_type_are_refused() -> None:
    session = MessageSession[Message](1000, **OPTIONS)
    session.fit([{"role": "user", "content": "Hello!"}])
    for diagnostics in ("tools_changed", b"tools_changed", 7, 0.5):
        with pytest.raises(TypeError, match="diagnostics must be the diagnostics of a response, or a mapping"):
            session.observe({"prompt_tokens": 20}, diagnostics=diagnostics)
