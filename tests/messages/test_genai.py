"""Google's SDK: its contents go in, and come out as contents that it sends."""

from typing import Any

import pytest

pytest.importorskip("google.genai")

from google.genai import types
from google.genai._transformers import t_contents

from cupel.messages import MessageSession, PinnedMessagesExceedBudgetError, fit, provider_of
from tests.messages.chat import COUNTER
from tests.messages.generators.chance import Chance
from tests.messages.generators.gemini import history as generated
from tests.messages.provider_rules import violations
from tests.messages.test_gemini import steps

SIGNATURE = b"\x00\xff signature"
TOOLS = [types.Tool(function_declarations=[types.FunctionDeclaration(name="look", description="Look.")])]
OPTIONS: dict[str, Any] = {"counter": COUNTER, "tools": TOOLS, "image_tokens": 10}


def contents(count: int) -> list[types.Content]:
    made = [types.Content.model_validate(content) for content in steps(count)]
    for content in made:
        for part in content.parts or []:
            part.thought_signature = SIGNATURE if part.function_call else None
    image = types.Part.from_bytes(data=b"\xfb\xff\xfe" * 9, mime_type="image/png")
    return [types.Content(role="user", parts=[image, types.Part(text="Look at this.")]), *made[1:]]


def sent(messages: list[Any]) -> list[Any]:
    """The contents as the SDK writes them into a request."""
    return [one.model_dump(mode="json", exclude_none=True, by_alias=True) for one in t_contents(messages)]


def test_contents_that_are_sent_whole_are_the_same_objects() -> None:
    history = contents(3)
    assert provider_of(history) == "gemini"
    fitted = fit(history, 10**6, **OPTIONS)
    assert all(one is other for one, other in zip(fitted.messages, history, strict=True))


@pytest.mark.parametrize("budget", [700, 1500])
def test_contents_that_change_are_contents_again(budget: int) -> None:
    history = contents(20)
    before = [content.model_copy(deep=True) for content in history]
    session = MessageSession[Any](budget, **OPTIONS)
    for end in range(1, len(history) + 1, 2):
        turn = session.fit(history[:end])
        assert all(isinstance(message, types.Content) for message in turn.messages)
        assert violations("gemini", sent(turn.messages), sent(history[:end])) == []
    assert turn.notes
    assert turn.shortened
    assert history == before
    parts = [part for message in turn.messages for part in message.parts]
    assert all(part.thought_signature == SIGNATURE for part in parts if part.function_call)
    assert next(part.inline_data.data for part in parts if part.inline_data) == b"\xfb\xff\xfe" * 9


def test_a_note_in_a_content_of_its_own_is_a_content_too() -> None:
    texts = ["What is in the log?", "All is well. " * 90, "And in the other one?"]
    roles = ("user", "model", "user")
    history = [types.Content(role=role, parts=[types.Part(text=text)]) for role, text in zip(roles, texts, strict=True)]
    fitted = fit(history, 200, counter=COUNTER)
    assert None in fitted.positions
    assert all(isinstance(message, types.Content) for message in fitted.messages)


def test_requests_of_generated_histories_are_contents() -> None:
    for seed in range(60):
        history = generated(Chance(seed), 4)
        objects = [types.Content.model_validate(content) for content in history]
        whole = fit(history, 10**6, counter=COUNTER).total_tokens
        for share in (40, 70, 100):
            try:
                fitted = fit(history, whole * share // 100, counter=COUNTER, forms=True)
                again = fit(objects, whole * share // 100, counter=COUNTER, forms=True)
            except PinnedMessagesExceedBudgetError:
                continue
            assert with_roles(fitted.messages) == with_roles(again.messages)


def with_roles(messages: list[Any]) -> list[types.Content]:
    read = [types.Content.model_validate(message) for message in messages]
    return [types.Content(role=content.role or "user", parts=content.parts) for content in read]


def test_neighbours_are_joined_as_contents() -> None:
    text = types.Part(text="a")
    history = [types.Content(role=role, parts=[text]) for role in ("user", "model", "model", "user")]
    assert fit(history, 10**6).messages == [history[0], types.Content(role="model", parts=[text, text]), history[3]]


def test_users_are_joined_where_they_must_alternate_and_no_further() -> None:
    roles = ("user", "user", "model", "user")
    history = [types.Content(role=role, parts=[types.Part(text=str(at))]) for at, role in enumerate(roles)]
    sent = fit(history, 10**6, alternate=True).messages
    assert [[part.text for part in content.parts] for content in sent] == [["0", "1"], ["2"], ["3"]]


def test_a_dict_may_hold_parts() -> None:
    history = [{"role": "user", "parts": [types.Part(text="Hi")]}]
    assert fit(history, 10**6, provider="gemini").messages == history


def test_the_usage_of_a_response_settles_the_bill() -> None:
    session = MessageSession[Any](10**6)
    session.fit(contents(1))
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=5000, cached_content_token_count=4096)
    bill = session.observe(usage)
    assert bill is not None
    assert (bill.sent, bill.read) == (5000, 4096)
