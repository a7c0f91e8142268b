"""The official SDKs: their typed objects go in, and their own types parse what comes out."""

from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

from anthropic.types import Message, MessageParam
from hypothesis import HealthCheck, given, settings
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseInputItemParam,
    ResponseOutputMessage,
    ResponseReasoningItem,
)
from pydantic import TypeAdapter

from cupel.integrations.messages import fit
from cupel.tokens import CharacterEstimate
from tests.integrations.histories import BY_PROVIDER

COUNTER = CharacterEstimate()
PARAMETERS: dict[str, Any] = {
    "anthropic": TypeAdapter(MessageParam),
    "openai": TypeAdapter(ChatCompletionMessageParam),
    "openai-responses": TypeAdapter(ResponseInputItemParam),
}


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
            exhausted(PARAMETERS[provider].validate_python(message))

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
    assert all(kept is given for kept, given in zip(fit(messages, 1000).messages, messages, strict=True))
    small = fit(messages, 40, counter=COUNTER)
    assert small.provider == "openai"
    assert [messages.index(message) for message in small.messages] == [0, 3, 4]
    assert called.model_dump_json() == before


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
    assert fit(items, 1000).messages == items
    small = fit(items, 30, counter=COUNTER)
    assert small.provider == "openai-responses"
    assert [items.index(item) for item in small.messages] == [0, 4, 5]


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
    for messages in (as_object, as_blocks):
        fitted = fit(messages, 1000)
        assert fitted.provider == "anthropic"
        assert all(kept is given for kept, given in zip(fitted.messages, messages, strict=True))
