"""Messages that no provider takes are errors that name the field and say what to do; none is left out in silence."""

import re
import warnings
from typing import Any

import pytest

from cupel import InvalidItemError
from cupel.errors import ConfigurationWarning
from cupel.messages import MessageSession, fit

LARGE = 10**6
TEXT = {"type": "text", "text": "Hm."}
TOOLS: dict[str, Any] = {"bedrock": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]}


def chat(call: dict[str, Any] | None = None, **result: Any) -> list[Any]:
    function = {"name": "f", "arguments": "{}"}
    given = {"id": "a", "type": "function", "function": function} if call is None else call
    answer = {"role": "tool", "tool_call_id": "a", "content": "fine", **result}
    return [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [given]},
        {key: value for key, value in answer.items() if value is not ...},
    ]


def claude(call: dict[str, Any], result: dict[str, Any] | None = None) -> list[Any]:
    used = {"type": "tool_result", "tool_use_id": "a", "content": "fine"} if result is None else result
    return [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}, **call}]},
        {"role": "user", "content": [used]},
    ]


def converse(call: dict[str, Any], result: dict[str, Any] | None = None) -> list[Any]:
    used = {"toolUseId": "a", "content": [{"text": "fine"}]} if result is None else result
    return [
        {"role": "user", "content": [{"text": "Look."}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}, **call}}]},
        {"role": "user", "content": [{"toolResult": used}]},
    ]


def gemini(call: dict[str, Any], result: dict[str, Any] | None = None) -> list[Any]:
    used = {"name": "f", "response": {"output": "fine"}} if result is None else result
    return [
        {"role": "user", "parts": [{"text": "Look."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}, **call}}]},
        {"role": "user", "parts": [{"functionResponse": used}]},
    ]


def items(call: dict[str, Any], **result: Any) -> list[Any]:
    answer = {"type": "function_call_output", "call_id": "a", "output": "fine", **result}
    return [
        {"role": "user", "content": "Look."},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}", **call},
        {key: value for key, value in answer.items() if value is not ...},
    ]


def options(provider: str) -> dict[str, Any]:
    return {"provider": provider, "tools": TOOLS.get(provider)}


@pytest.mark.parametrize(
    ("provider", "history", "error", "words"),
    [
        ("openai", chat(content=...), InvalidItemError, r"messages[2].content must be the output of the call"),
        ("openai", chat(content=None), InvalidItemError, r"('' if there is none), got None"),
        ("openai", chat(tool_call_id=...), TypeError, "messages[2].tool_call_id must be the id of the call"),
        ("openai", chat(tool_call_id=7), TypeError, "messages[2].tool_call_id must be the id of the call"),
        ("openai", chat({"function": {"name": "f"}}), TypeError, "messages[1].tool_calls[0].id must be an id"),
        ("openai", chat({"id": "a", "function": {}}), TypeError, "messages[1].tool_calls[0].function.name must be"),
        ("openai", chat({"id": "a", "function": "f"}), TypeError, "messages[1].tool_calls[0].function.name must be"),
        ("openai", [{"role": "user", "content": None}], InvalidItemError, "messages[0] has no content"),
        ("openai", [*chat(), {"role": "user", "content": None}], InvalidItemError, "messages[3] has no content"),
        ("openai", [{"role": "user", "content": [{"type": "text"}]}], TypeError, "messages[0].content[0].text must be"),
        ("anthropic", claude({"input": "{}"}), TypeError, "messages[1].content[0].input must be an object"),
        ("anthropic", claude({"id": None}), TypeError, "messages[1].content[0].id must be an id"),
        ("anthropic", claude({"name": 5}), TypeError, "messages[1].content[0].name must be the name of a tool"),
        ("anthropic", claude({}, {"type": "tool_result"}), TypeError, "messages[2].content[0].tool_use_id must be"),
        ("anthropic", [{"role": "user", "content": None}], InvalidItemError, "messages[0] has no content"),
        ("bedrock", [{"role": "user", "content": None}], InvalidItemError, "messages[0] has no content"),
        ("bedrock", converse({"input": "{}"}), TypeError, "messages[1].content[0].toolUse.input must be an object"),
        ("bedrock", converse({"toolUseId": "a b"}), InvalidItemError, "toolUse.toolUseId must be 1 to 64 of"),
        ("bedrock", converse({"name": None}), TypeError, "messages[1].content[0].toolUse.name must be"),
        ("bedrock", converse({}, {"content": []}), TypeError, "messages[2].content[0].toolResult.toolUseId must be"),
        ("bedrock", [{"role": "user", "content": [{"text": 5}]}], TypeError, "messages[0].content[0].text must be"),
        ("gemini", gemini({"args": "{}"}), TypeError, "messages[1].parts[0].functionCall.args must be an object"),
        ("gemini", gemini({"name": None}), TypeError, "messages[1].parts[0].functionCall.name must be"),
        ("gemini", gemini({}, {"name": "f"}), TypeError, "messages[2].parts[0].functionResponse.response must be"),
        ("gemini", gemini({}, {"name": "f", "response": "x"}), TypeError, "functionResponse.response must be an obj"),
        ("gemini", [{"role": "user", "parts": [{"text": 5}]}], TypeError, "messages[0].parts[0].text must be a string"),
        ("openai-responses", items({"arguments": {}}), TypeError, "messages[1].arguments must be JSON as a text"),
        ("openai-responses", items({"call_id": None}), TypeError, "messages[1].call_id must be a string, the same"),
        ("openai-responses", items({"name": None}), TypeError, "messages[1].name must be the name of a function"),
        ("openai-responses", items({}, call_id=...), TypeError, "messages[2].call_id must be a string, the same"),
        ("openai-responses", items({}, output=...), InvalidItemError, "messages[2].output must be the output of the"),
    ],
)
def test_a_shape_that_every_request_is_refused_for_is_an_error(
    provider: str, history: list[Any], error: type[Exception], words: str
) -> None:
    for call in (lambda: fit(history, LARGE, **options(provider)), lambda: session(provider).fit(history)):
        with pytest.raises(error) as caught:
            call()
        assert words in str(caught.value)
        assert len(str(caught.value)) < 250


def session(provider: str) -> MessageSession[Any]:
    return MessageSession(LARGE, **options(provider))


@pytest.mark.parametrize(
    ("provider", "history"),
    [
        ("openai", chat(content="")),
        ("openai", chat(content=[{"type": "text", "text": "fine"}])),
        ("openai", chat({"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}})),
        ("anthropic", claude({}, {"type": "tool_result", "tool_use_id": "a"})),
        ("bedrock", converse({})),
        ("gemini", gemini({})),
        ("openai-responses", items({}, output="")),
        # Mistral's thinking is a list of parts, and a recorded answer may be empty.
        (
            "openai",
            [{"role": "user", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}],
        ),
    ],
)
def test_shapes_that_providers_take_pass_without_a_warning(provider: str, history: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(history, LARGE, **options(provider)).messages == session(provider).fit(history).messages == history


@pytest.mark.parametrize(
    ("provider", "part"),
    [
        ("openai", {"type": "thinking", "thinking": "Hm.", "signature": "s"}),
        ("openai", {"type": "redacted_thinking", "data": "s"}),
        ("openai", {"type": "input_text", "text": "Hi"}),
        ("openai-responses", {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
        ("anthropic", {"type": "input_text", "text": "Hi"}),
    ],
)
def test_parts_of_another_format_are_warned_of(provider: str, part: dict[str, Any]) -> None:
    """Not refused: servers and gateways that speak a format take parts that its author does not."""
    history = [{"role": "user", "content": [{"type": "text", "text": "Hi"}, part]}]
    words = rf"messages\[0\]\.content\[1\] is of type '{part['type']}', .*name the format .* or convert the part"
    with pytest.warns(ConfigurationWarning, match=words):
        assert fit(history, LARGE, provider=provider).messages == history  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "name", "page"),
    [
        ("langchain_core.messages.human", "HumanMessage", "langchain"),
        ("agents.items", "ToolCallItem", "openai_agents"),
        ("google.adk.events.event", "Event", "google_adk"),
        ("llama_index.core.base.llms.types", "ChatMessage", "llamaindex"),
    ],
)
def test_a_message_of_a_framework_is_an_error_that_names_the_module_for_it(module: str, name: str, page: str) -> None:
    def model_dump(_: object, **options: object) -> dict[str, str]:
        del options
        return {"role": "user", "content": "Hi"}

    message = type(name, (), {"__module__": module, "model_dump": model_dump})()
    with pytest.raises(TypeError, match=rf"messages\[0\] is a {name} of .*: pass it through cupel.integrations.{page}"):
        fit([message], LARGE)


def test_messages_nested_deeply_are_sent() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"a": deep}
    for provider, history in (("anthropic", claude({"input": deep})), ("gemini", gemini({"args": deep}))):
        assert fit(history, LARGE, **options(provider)).messages == history
    history = gemini({}, {"name": "f", "response": {"output": deep, "log": "line\n" * 2000}})
    assert session("gemini").fit(history).messages == history
    assert fit(history, 900, provider="gemini").shortened == (2,)


@pytest.mark.parametrize(
    ("provider", "part", "path"),
    [
        ("bedrock", {"document": {"name": "a", "format": "pdf", "source": {"bytes": {}}}}, "document.source.bytes"),
        ("bedrock", {"reasoningContent": {"redactedContent": 7}}, "reasoningContent.redactedContent"),
        ("gemini", {"inlineData": {"mimeType": "application/pdf", "data": 7}}, "inlineData.data"),
    ],
)
def test_files_that_are_no_bytes_are_an_error(provider: str, part: dict[str, Any], path: str) -> None:
    key = "parts" if provider == "gemini" else "content"
    with pytest.raises(TypeError, match=rf"messages\[0\]\.{key}\[1\]\.{path} must be "):
        fit([{"role": "user", key: [{"text": "Hi"}, part]}], LARGE, **options(provider))


def test_breakpoints_of_system_prompt_and_tools_count() -> None:
    def marked(text: str) -> dict[str, Any]:
        return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}

    history = [{"role": role, "content": [marked("Hi")]} for role in ("user", "assistant", "user")]
    tools = [{"name": "search", "input_schema": {}, "cache_control": {"type": "ephemeral"}}]
    with pytest.warns(ConfigurationWarning, match="the request carries more than 4 cache breakpoints"):
        fit(history, LARGE, provider="anthropic", system=[marked("Be brief.")], tools=tools)
    made = MessageSession(LARGE, provider="anthropic", system=[marked("a"), marked("b")], tools=tools)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConfigurationWarning)
        assert str(made.fit(history).marked()).count("cache_control") == 1


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ([{"role": "user", "content": ""}], r"messages\[1\] \(empty content\) cannot be sent"),
        (
            [
                {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": []},
            ],
            r"messages\[1:3\] \(empty content\) cannot be sent",
        ),
    ],
)
def test_newest_messages_that_cannot_be_sent_are_warned_of(
    end: list[Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    history = [{"role": "user", "content": "Hi"}, *end]
    assert fit(history, LARGE, provider="openai").messages == history[:1]
    assert re.search(said, caplog.text)
    turn = MessageSession(LARGE, provider="openai").fit(history)
    assert re.search(said, turn.warning)
    assert turn.explain().startswith("Warning: messages[")


SPOKEN = {"role": "assistant", "content": None, "audio": {"id": "audio_1"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "f"}}]}


@pytest.mark.parametrize(
    ("history", "provider", "hint"),
    [
        (
            [{"role": "user", "content": "Hi"}, {"role": "tool", "tool_call_id": "a", "content": "x"}],
            "anthropic",
            "pass provider='openai'",
        ),
        ([{"role": "user", "content": [{"text": "Hi"}]}], "openai", "pass provider='bedrock'"),
        ([{"role": "user", "content": [{"text": "Hi"}]}], "anthropic", "pass provider='bedrock'"),
        ([SPOKEN], "openai-responses", r"messages\[0\].audio belongs to OpenAI's Chat Completions"),
        ([CALLING], "openai-responses", r"messages\[0\].tool_calls belongs"),
        ([{**CALLING, "content": "I look."}], "anthropic", r"messages\[0\].tool_calls belongs"),
    ],
)
def test_a_message_of_another_provider_says_which(history: Any, provider: Any, hint: str) -> None:
    with pytest.raises(InvalidItemError, match=hint):
        fit(history, 1000, provider=provider)
