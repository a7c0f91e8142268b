"""What a session refuses, and in which words."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cupel import ConfigurationError, SelectionError
from cupel.messages import MessageSession, PinnedMessagesExceedBudgetError
from tests.messages.chat import OPTIONS
from tests.messages.simulated import Message


def test_a_user_message_larger_than_the_budget_is_an_error_that_names_it() -> None:
    session = MessageSession[Message](100, **OPTIONS)
    with pytest.raises(PinnedMessagesExceedBudgetError, match=r"messages\[0\] \(the newest user message\)"):
        session.fit([{"role": "user", "content": "word " * 1000}])
    assert session.total.sent == 0


@pytest.mark.parametrize(
    ("usage", "error", "words"),
    [
        (None, TypeError, "usage must be"),
        ("many", TypeError, "usage must be"),
        ({}, ConfigurationError, "prompt_tokens"),
        ({"prompt_tokens": "12"}, TypeError, "usage.prompt_tokens"),
        ({"prompt_tokens": -1}, ConfigurationError, "usage.prompt_tokens must be from 0 to"),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": True}}, TypeError, "cached_tokens"),
    ],
)
def test_usage_that_makes_no_sense_is_refused(usage: Any, error: type[Exception], words: str) -> None:
    session = MessageSession[Message](1000, **OPTIONS)
    session.fit([{"role": "user", "content": "Hello!"}])
    with pytest.raises(error, match=words):
        session.observe(usage)
    assert not session.total.settled


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ('{"version":99}', "version 99"),
        ("[]", "to_json"),
        ("not json", "to_json"),
        ('{"version":1,"expiry":0.5,"last":[["k","",5]]}', "version 1, this is version 2: begin a new session"),
        ("{}", "to_json"),
        ('{"version":2,"last":[[0,"",-5]]}', "to_json"),
        ('{"version":2,"last":[[-1,"",5]]}', "to_json"),
        ('{"version":2,"whole":-1}', "to_json"),
        ('{"version":2,"before":{"price":1e400}}', "to_json"),
        ('{"version":2,"before":{"sent":1' + "0" * 400 + "}}", "to_json"),
        ('{"version":2,"unknown":0}', "to_json"),
        ("\ud800", "to_json"),
    ],
)
def test_a_state_that_is_none_is_refused(state: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        MessageSession.from_json(state, 1000)
    with pytest.raises(TypeError, match="state must be a string"):
        MessageSession.from_json(b"{}", 1000)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"prices": 0.1}, TypeError, "prices must be a Prices"),
        ({"framework": "langchain"}, TypeError, "framework must be a Framework"),
        ({"worth": 0.7}, TypeError, "'worth': raise keep to keep more after a cut"),
        ({"thinking": "free"}, ConfigurationError, "thinking must be 'bound' or 'loop', got 'free'"),
        ({"keep": float("nan")}, ConfigurationError, "keep must be"),
        ({"keep": 1.5}, ConfigurationError, "keep must be from 0 to 1"),
        ({"note": "summary"}, TypeError, "note"),
        ({"observation": True}, TypeError, "observation"),
        ({"provider": "OpenAI"}, ConfigurationError, "provider must be one of"),
        ({"forms": "short"}, TypeError, "forms"),
        ({"gaps": 0}, TypeError, "gaps"),
        ({"alternate": "yes"}, TypeError, "alternate"),
        ({"query": 5}, TypeError, "query"),
        ({"policy": "newest"}, TypeError, "policy"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        MessageSession(1000, **options)


def test_one_conversation_has_one_writer() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow:
        def count(self, text: str) -> int:
            entered.set()
            leave.wait(10)
            return len(text)

    session = MessageSession[Message](1000, provider="openai", counter=Slow())
    history = [{"role": "user", "content": "Hello!"}]
    thread = threading.Thread(target=session.fit, args=(history,))
    thread.start()
    entered.wait(10)
    for use in (lambda: session.fit(history), lambda: session.observe({"prompt_tokens": 1}), session.copy):
        with pytest.raises(SelectionError, match="one writer"):
            use()
    leave.set()
    thread.join()
    assert session.total.sent > 0
