"""The official SDKs: their typed objects go in, and their own types parse what comes out."""

from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

from anthropic.types import Diagnostics, Message, MessageDeltaUsage, MessageParam, TextBlock, Usage
from anthropic.types.beta import BetaMessageParam
from hypothesis import HealthCheck, given, settings
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.responses import (
    ResponseCodeInterpreterToolCall,
    ResponseFunctionShellToolCall,
    ResponseFunctionToolCall,
    ResponseInputItemParam,
    ResponseOutputMessage,
    ResponseReasoningItem,
    ResponseUsage,
)
from pydantic import TypeAdapter

from cupel.messages import MessageSession, fit
from cupel.tokens import CharacterEstimate
from tests.messages.histories import BY_PROVIDER

COUNTER = CharacterEstimate(4.0)
PARAMETERS: dict[str, Any] = {
    "anthropic": TypeAdapter(MessageParam),
    "openai": TypeAdapter(ChatCompletionMessageParam),
    "openai-responses": TypeAdapter(ResponseInputItemParam),
}

COMPACTED: Any = TypeAdapter(BetaMessageParam)
"""Compaction is in beta."""


def as_sent(value: Any) -> dict[str, Any]:
    """An SDK's object as the SDK would send it."""
    return value.model_dump(mode="json", exclude_none=True)


def exhausted(value: Any) -> Any:
    """The value with every lazily validated iterable in it run through."""
    if isinstance(value, dict):
        return {key: exhausted(inner) for key, inner in value.items()}
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return value
    return [exhausted(inner) for inner in value]


@pytest.mark.parametrize("provider", sorted(PARAMETERS))
def test_the_sdk_parses_what_comes_out(provider: str):
    @settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    @given(BY_PROVIDER[provider])
    def run(messages: list[Any]) -> None:
        fitted = fit(messages, 100_000, counter=COUNTER, provider=provider)
        for message in fitted.messages:
            adapter = COMPACTED if "'compaction'" in str(message) else PARAMETERS[provider]
            exhausted(adapter.validate_python(message))

    run()


def test_chat_completion_objects_are_taken_and_given_back():
    called = ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        }
    )
    answered = ChatCompletionMessage(role="assistant", content="Rain.")
    messages = [
        {"role": "user", "content": "How is the weather?"},
        called,
        {"role": "tool", "tool_call_id": "a", "content": "rain " * 100},
        answered,
        {"role": "user", "content": "And tomorrow?"},
    ]
    before = called.model_dump_json()
    whole = fit(messages, 1000)
    assert whole.messages == [messages[0], as_sent(called), messages[2], as_sent(answered), messages[4]]
    assert whole.messages[0] is messages[0]
    small = fit(messages, 40, counter=COUNTER, notes=False)
    assert small.provider == "openai"
    assert small.messages == [messages[0], as_sent(answered), messages[4]]
    assert small.dropped[0].messages[0] is called
    assert called.model_dump_json() == before


def test_what_only_responses_hold_is_not_sent():
    said = ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": [],
            "audio": {"id": "audio_1", "data": "AAAA", "expires_at": 1, "transcript": "Rain."},
            "tool_calls": [],
        }
    )
    messages = [{"role": "user", "content": "Weather?"}, said, {"role": "user", "content": "And now?"}]
    assert fit(messages, 1000).messages[1] == {"role": "assistant", "audio": {"id": "audio_1"}}
    shell = ResponseFunctionShellToolCall.model_validate(
        {
            "type": "shell_call",
            "id": "sh_1",
            "call_id": "a",
            "status": "completed",
            "action": {"commands": ["ls"], "max_output_length": None, "timeout_ms": None},
            "environment": None,
            "created_by": "me",
        }
    )
    output = {"type": "shell_call_output", "call_id": "a", "output": []}
    sent = fit([{"role": "user", "content": "Go"}, shell, output], 1000).messages[1]
    assert "created_by" not in sent
    exhausted(PARAMETERS["openai-responses"].validate_python(sent))


def test_fields_that_must_be_sent_though_null_are_sent():
    code = ResponseCodeInterpreterToolCall.model_validate(
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": "1 + 1",
            "container_id": "c",
            "outputs": None,
            "status": "completed",
        }
    )
    sent = fit([{"role": "user", "content": "Go"}, code], 1000).messages[1]
    assert sent == {**as_sent(code), "outputs": None}
    location = {
        "type": "char_location",
        "cited_text": "Rain.",
        "document_index": 0,
        "document_title": None,
        "start_char_index": 0,
        "end_char_index": 5,
    }
    cited = TextBlock.model_validate({"type": "text", "text": "Rain.", "citations": [location]})
    sent = fit([{"role": "user", "content": "Go"}, {"role": "assistant", "content": [cited]}], 1000).messages[1]
    assert sent["content"] == [{"type": "text", "text": "Rain.", "citations": [location]}]


def test_response_items_are_taken_and_given_back():
    reasoning = ResponseReasoningItem(id="rs_1", summary=[], type="reasoning")
    call = ResponseFunctionToolCall(arguments="{}", call_id="a", name="f", type="function_call", id="fc_1")
    said = ResponseOutputMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Rain.", "annotations": []}],
        }
    )
    output = {"type": "function_call_output", "call_id": "a", "output": "rain " * 100}
    items = [{"role": "user", "content": "Weather?"}, reasoning, call, output, said, {"role": "user", "content": "Hm?"}]
    sent = [items[0], as_sent(reasoning), as_sent(call), output, as_sent(said), items[-1]]
    assert fit(items, 1000).messages == sent
    small = fit(items, 30, counter=COUNTER, notes=False)
    assert small.provider == "openai-responses"
    assert small.messages == [sent[0], sent[4], sent[5]]


def test_anthropic_messages_and_blocks_are_taken_and_given_back():
    response = Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [
                {"type": "thinking", "thinking": "The log first.", "signature": "c2ln"},
                {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "log"}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 10},
        }
    )
    results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "fine"}]}
    as_object = [{"role": "user", "content": "What is in the log?"}, response, results]
    as_blocks = [as_object[0], {"role": "assistant", "content": response.content}, results]
    before = response.model_dump_json()
    for messages in (as_object, as_blocks):
        fitted = fit(messages, 1000)
        assert fitted.provider == "anthropic"
        assert fitted.messages[0] is messages[0]
        assert fitted.messages[1] == {"role": "assistant", "content": [as_sent(block) for block in response.content]}
        assert as_blocks[1]["content"] is response.content
        for message in fitted.messages:
            exhausted(PARAMETERS["anthropic"].validate_python(message))
    assert response.model_dump_json() == before


def test_a_session_reads_the_usage_that_the_sdks_report():
    chat = {"prompt_tokens": 1000, "completion_tokens": 5, "total_tokens": 1005}
    items = {"input_tokens": 1000, "output_tokens": 5, "total_tokens": 1005}
    beside = {"output_tokens": 5, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 88}
    given: list[tuple[Any, int, int]] = [
        (CompletionUsage.model_validate({**chat, "prompt_tokens_details": {"cached_tokens": 896}}), 1000, 896),
        (CompletionUsage.model_validate(chat), 1000, 0),
        (
            ResponseUsage.model_validate(
                {
                    **items,
                    "input_tokens_details": {"cached_tokens": 896, "cache_write_tokens": 100},
                    "output_tokens_details": {"reasoning_tokens": 0},
                }
            ),
            1000,
            896,
        ),
        (Usage.model_validate({"input_tokens": 12, **beside}), 1000, 900),
        (Usage.model_validate({"input_tokens": 12, "output_tokens": 5}), 12, 0),
        (MessageDeltaUsage.model_validate({"input_tokens": 12, **beside}), 1000, 900),
    ]
    for usage, sent, read in given:
        session = MessageSession[Any](4000, counter=COUNTER)
        session.fit([{"role": "user", "content": "What is in the log?"}])
        bill = session.observe(usage)
        assert bill is not None
        assert (bill.sent, bill.read) == (sent, read)


def test_a_session_reads_the_cache_diagnostics_of_the_sdk():
    session = MessageSession[Any](4000, counter=COUNTER, provider="anthropic")
    history = [{"role": "user", "content": "What is in the log? " * 100}]
    session.fit(history)
    session.fit([*history, {"role": "assistant", "content": "Rain."}, {"role": "user", "content": "And now?"}])
    missed = {"type": "system_changed", "cache_missed_input_tokens": 500}
    diagnostics = Diagnostics.model_validate({"cache_miss_reason": missed})
    bill = session.observe(Usage.model_validate({"input_tokens": 540, "output_tokens": 5}), diagnostics=diagnostics)
    assert bill is not None
    assert bill.mistake == "system changed, 500 tokens were not read"
