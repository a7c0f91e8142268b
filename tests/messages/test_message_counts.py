"""What messages, calls, tools and media cost."""

import json
from typing import Any

import pytest

from cupel import ConfigurationError
from cupel.messages import fit
from tests.messages.chat import COUNTER, LARGE, assistant, calling, result, user
from tests.messages.histories import IMAGE

TEXT = {"type": "text", "text": "Yes."}


def total(messages: list[Any], **options: Any) -> int:
    return fit(messages, LARGE, counter=COUNTER, **options).total_tokens


def test_every_message_has_a_frame():
    assert total([{"role": "system", "content": "four"}]) == 3 + 4 + 1
    assert total([user("four")], provider="openai") == 3 + 4 + 1
    assert total([user("four")], provider="anthropic") == 3 + 4 + 1
    assert total([{**user("four"), "name": "anna"}], provider="openai") == 3 + 4 + 1 + 1 + 1


def test_calls_are_counted():
    plain = [user("Hi"), calling("a"), result("a", "")]
    longer = [user("Hi"), calling("a"), result("a", "")]
    longer[1]["tool_calls"][0]["function"]["arguments"] = "x" * 400
    assert total(longer) - total(plain) == 99


def test_tools_and_the_system_parameter_are_counted():
    tools = [{"name": "look", "description": "x" * 400}]
    assert 100 < total([user("Hi")], tools=tools, provider="openai") - total([user("Hi")], provider="openai") < 150
    assert total([user("Hi")], system="x" * 400) - total([user("Hi")]) == 100
    assert total([user("Hi")], system=[{"type": "text", "text": "x" * 400}]) - total([user("Hi")]) > 100


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}, 85),
        ({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}, 85 + 8 * 170),
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}, 85 + 2 * 170),
        ({"type": "input_audio", "input_audio": {"data": "A" * 64_000, "format": "wav"}}, 10),
        ({"type": "input_audio", "input_audio": {"data": "A" * 64_000, "format": "mp3"}}, 60),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0xLjQ="}}, 3000),
        ({"type": "file", "file": {"file_data": "dGV4dCB0ZXh0IHRleHQgdGV4dA=="}}, 5),
    ],
)
def test_openai_media_are_counted(part: dict[str, Any], tokens: int):
    assert total([user([part])], provider="openai") == 3 + 4 + tokens


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}, 410),
        ({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}, 1600),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x" * 400}}, 100),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}, 3000),
        ({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x" * 40}]}}, 10),
        (
            {
                "type": "search_result",
                "source": "four",
                "title": "four",
                "content": [{"type": "text", "text": "x" * 40}],
            },
            12,
        ),
    ],
)
def test_anthropic_media_are_counted(block: dict[str, Any], tokens: int):
    assert total([user([block])], provider="anthropic") == 3 + 4 + tokens


def test_images_can_be_counted_flat():
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert total([user([image])], image_tokens=7) == 3 + 4 + 7
    assert total([user([image])], image_tokens=lambda size: 11 if size is None else 0) == 3 + 4 + 11
    known = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
    assert total([user([known])], image_tokens=lambda size: sum(size or ())) == 3 + 4 + 640 + 480
    with pytest.raises(TypeError, match="image_tokens must be an integer"):
        fit([user("Hi")], 10, image_tokens="7")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="image_tokens must not be negative, got -1"):
        fit([user("Hi")], 10, image_tokens=-1)


SIGNATURE = "EqQBCkgIARABGAIi" * 100
"""1,600 characters of base64: 1,200 bytes, four of them to a token."""


def hidden(provider: str, message: dict[str, Any]) -> int:
    """The tokens of a signature in a message."""
    key = "parts" if provider == "gemini" else "content"
    spoken: Any = [{"text": "Hi"}] if provider in ("gemini", "bedrock") else "Hi"
    signed = [{"role": "user", key: spoken}, message, {"role": "user", key: spoken}]
    unsigned = json.loads(json.dumps(signed).replace(SIGNATURE, "s"))
    options: dict[str, Any] = {"provider": provider}
    return total(signed, **options) - total(unsigned, **options)


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("anthropic", assistant([{"type": "thinking", "thinking": "", "signature": SIGNATURE}, TEXT])),
        ("anthropic", assistant([{"type": "redacted_thinking", "data": SIGNATURE}, TEXT])),
        (
            "bedrock",
            assistant(
                [{"reasoningContent": {"reasoningText": {"text": "", "signature": SIGNATURE}}}, {"text": "Yes."}]
            ),
        ),
        ("bedrock", assistant([{"reasoningContent": {"redactedContent": SIGNATURE}}, {"text": "Yes."}])),
        ("gemini", {"role": "model", "parts": [{"text": "Yes.", "thoughtSignature": SIGNATURE}]}),
        ("gemini", {"role": "model", "parts": [{"text": "", "thought_signature": SIGNATURE}, {"text": "Yes."}]}),
        ("openai", {**assistant("Yes."), "reasoning_details": [{"type": "reasoning.encrypted", "data": SIGNATURE}]}),
        ("openai", {**assistant("Yes."), "thinking_blocks": [{"type": "thinking", "signature": SIGNATURE}]}),
        ("openai", {**assistant("Yes."), "provider_specific_fields": {"thought_signature": SIGNATURE}}),
        ("openai", {**assistant("Yes."), "extra_content": {"google": {"thought_signature": SIGNATURE}}}),
    ],
)
def test_reasoning_that_only_the_provider_can_read_is_counted(provider: str, message: dict[str, Any]):
    assert hidden(provider, message) == 299


def test_the_signature_of_a_call_by_gemini_is_counted():
    histories: list[list[Any]] = [[user("Hi"), calling("a"), result("a", "fine")] for _ in range(2)]
    signed = {**histories[1][1]["tool_calls"][0], "extra_content": {"google": {"thought_signature": SIGNATURE}}}
    histories[1][1] = {**histories[1][1], "tool_calls": [signed]}
    assert total(histories[1]) - total(histories[0]) == 300


def test_a_signature_counts_beyond_the_reasoning_that_is_shown():
    """The same reasoning is in both."""
    block = {"type": "thinking", "thinking": "x" * 400, "signature": SIGNATURE}
    assert hidden("anthropic", assistant([block, TEXT])) == 200
    assert hidden("anthropic", assistant([{**block, "thinking": "x" * 4000}, TEXT])) == 0
    kept = {**assistant("Yes."), "reasoning_content": "x" * 400, "thinking_blocks": [block]}
    alone = {**assistant("Yes."), "thinking_blocks": [block]}
    history = [user("Hi"), kept, user("Hi")]
    assert hidden("openai", kept) == 200
    assert (
        total(history, provider="openai") == total([user("Hi"), alone, user("Hi")], provider="openai") == 3 + 15 + 300
    )


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ("function_call", [{"type": "input_text", "text": "All is well. " * 9}]),
        ("local_shell_call", "All is well. " * 9),
        ("shell_call", "All is well. " * 9),
    ],
)
def test_an_output_costs_what_its_text_costs(call: str, output: Any):
    def cost(call: str, output: Any) -> int:
        answer = {"type": f"{call}_output", "call_id": "a", "output": output}
        history = [user("Hi"), {"type": call, "call_id": "a", "name": "run", "arguments": "{}"}, answer]
        return fit(history, LARGE, counter=COUNTER).total_tokens

    assert cost(call, output) - cost(call, "") == 30
