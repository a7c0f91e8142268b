"""Whatever is handed in, an error names it in a few words; nothing else escapes."""

import traceback
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cupel.errors import ConfigurationError, CupelError, InvalidItemError
from cupel.messages import MessageSession, fit
from tests.messages.provider_rules import Message

JUNK = st.sampled_from(
    (None, 5, True, float("nan"), 2**80, "x", "\ud800", [], {}, ["a"], [1], [[[]]], {"type": 1}, b"x", {1: 2}, object())
)
FIELDS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "tool_calls",
        "function_call",
        "tool_call_id",
        "name",
        "id",
        "call_id",
        "caller",
        "output",
        "summary",
        "refusal",
        "audio",
        "reasoning",
        "encrypted_content",
        "result",
        "input",
        "source",
        "text",
        "tool_use_id",
        "image_url",
        "input_audio",
        "file",
        "function",
    ]
)
ROLES = st.sampled_from(("user", "assistant", "tool", "system", "function", "developer"))
KINDS = st.sampled_from(
    [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "program",
        "program_output",
        "text",
        "tool_use",
        "tool_result",
        "image",
        "document",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "search_result",
        "image_url",
        "input_audio",
        "file",
        "input_image",
        "input_file",
        "refusal",
        "image_generation_call",
        "computer_call_output",
        "compaction",
        "function",
    ]
)
BLOCK = st.builds(lambda fields, kind: {**fields, "type": kind}, st.dictionaries(FIELDS, JUNK, max_size=4), KINDS)
BODY = st.dictionaries(FIELDS, JUNK | BLOCK | st.lists(BLOCK, max_size=2), max_size=4)
MESSAGE = st.one_of(
    BODY,
    st.builds(lambda body, role: {**body, "role": role}, BODY, ROLES),
    st.builds(lambda body, kind: {**body, "type": kind}, BODY, KINDS),
)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(
    st.lists(MESSAGE | JUNK, max_size=4),
    st.sampled_from((None, "anthropic", "openai", "openai-responses")),
    st.none() | st.lists(BLOCK | JUNK, max_size=2),
    st.booleans(),
)
def test_only_errors_of_ours_escape(messages: list[Message], provider: Any, tools: list[Any] | None, alternate: bool):
    refused: Exception | None = None
    try:
        fit(messages, 10**6, provider=provider, tools=tools, alternate=alternate)
    except (CupelError, TypeError) as error:
        refused = error
    if refused is not None:
        raised = traceback.extract_tb(refused.__traceback__)[-1]
        assert (raised.line or "").startswith("raise"), "an accident, not a judgement"
        assert len(str(refused)) < 500


@pytest.mark.parametrize(
    ("messages", "options", "said"),
    [
        (
            [{"role": "user", "contents": "hi"}],
            {},
            "has no content but 'contents'; did you mean 'content'?",
        ),
        ([{"role": "user", "contnet": "hi"}], {"provider": "anthropic"}, "did you mean 'content'?"),
        ([{"type": "message", "role": "user", "text": "hi"}], {}, "messages[0] has no content but 'text'"),
        (
            [{"role": "user", "parts": [{"text": "hi"}]}],
            {"provider": "openai"},
            "messages[0].parts belongs to Gemini's format",
        ),
        (
            [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            {"provider": "anthropic"},
            "messages[0].role must not be system: pass the prompt as system=",
        ),
        (
            [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "document", "source": {}}]}],
            {},
            "pass the prompt as system=",
        ),
    ],
)
def test_a_message_in_the_wrong_shape_is_an_error_and_not_a_smaller_request(messages, options, said):
    for send in (lambda: fit(messages, 1000, **options), lambda: MessageSession(1000, **options).fit(messages)):
        with pytest.raises(InvalidItemError) as caught:
            send()
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: MessageSession(max_tokens=100), "the budget is the first argument, MessageSession(8000)"),
        (lambda: fit([], max_tokens=10), "the budget is the second argument, fit(messages, 8000)"),
        (lambda: fit([], 10, alternat=True), "unexpected keyword argument 'alternat'; did you mean 'alternate'?"),
        (lambda: fit([], 10, wrong=1), "fit() got an unexpected keyword argument 'wrong'"),
        (lambda: MessageSession(10).fit([], tools=[]), "pass it to MessageSession(...), for all turns"),
    ],
)
def test_an_unknown_argument_is_answered_with_the_right_one(call, said):
    with pytest.raises(TypeError) as caught:
        call()
    assert said in str(caught.value)


def test_a_misspelt_provider_is_refused_at_once():
    with pytest.raises(ConfigurationError, match="got 'OpenAI'; did you mean 'openai'"):
        MessageSession(1000, provider="OpenAI")
