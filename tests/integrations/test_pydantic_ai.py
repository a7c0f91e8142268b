"""The Pydantic AI module, against the real package."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, BinaryContent, CachePoint, Tool
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from cupel.integrations.pydantic_ai import fit_messages
from cupel.messages import PinnedMessagesExceedBudgetError
from cupel.tokens import CharacterEstimate
from tests.integrations.framework_laws import FrameworkLaws

COUNTER = CharacterEstimate()


def history() -> list[ModelMessage]:
    return [
        ModelRequest([SystemPromptPart("Answer briefly."), UserPromptPart("Tell me about Oslo.")]),
        ModelResponse([TextPart("It is the capital of Norway. " * 50)]),
        ModelRequest([UserPromptPart("How is the weather there?")]),
        ModelResponse(
            [ToolCallPart("weather", {"city": "Oslo"}, "a"), ToolCallPart("weather", '{"city": "Rome"}', "b")]
        ),
        ModelRequest([ToolReturnPart("weather", "rain " * 40, "b"), ToolReturnPart("weather", {"sky": "blue"}, "a")]),
        ModelResponse([ThinkingPart("Two cities."), TextPart("Rain, then sun.")]),
        ModelRequest([UserPromptPart("And tomorrow?")]),
    ]


@pytest.mark.parametrize("budget", range(40, 300, 5))
def test_calls_and_results_stay_together_and_system_prompts_stay(budget: int):
    messages = history()
    fitted = fit_messages(messages, budget, counter=COUNTER)
    kept = list(fitted.positions)
    assert kept == sorted(kept)
    assert {0, 6} <= set(kept)
    assert {3, 4} <= set(kept) or not {3, 4} & set(kept)
    assert fitted.total_tokens <= budget


def test_results_beside_user_text_are_read_in_any_order():
    messages = [
        ModelRequest([UserPromptPart("Hi")]),
        ModelResponse([ToolCallPart("weather", {}, "a")]),
        ModelRequest([UserPromptPart("Hurry!"), ToolReturnPart("weather", "rain", "a")]),
    ]
    assert fit_messages(messages, 1000, counter=COUNTER).messages == messages


def test_images_and_instructions_are_counted():
    image = BinaryContent(
        bytes.fromhex("89504e470d0a1a0a0000000d4948445200000280000001e00802000000"), media_type="image/png"
    )
    messages = [ModelRequest([UserPromptPart(["What is this?", image])], instructions="x" * 400)]
    words = COUNTER.count("What is this?") + COUNTER.count("x" * 400)
    assert fit_messages(messages, 1000, counter=COUNTER).total_tokens == 3 + 4 + 410 + words


def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


def test_tools_of_every_kind_are_counted():
    plain = fit_messages(history(), 10_000, counter=COUNTER).total_tokens
    tool = Tool(weather)
    schema = {"name": "weather", "description": tool.description, "input_schema": tool.tool_def.parameters_json_schema}
    counts = {
        fit_messages(history(), 10_000, counter=COUNTER, tools=[one]).total_tokens
        for one in (tool, tool.tool_def, schema)
    }
    assert len(counts) == 1
    assert counts.pop() > plain + COUNTER.count("Tell the weather in a city.")


def test_work_of_the_provider_and_marks_are_read():
    messages = [
        ModelRequest([UserPromptPart(["What is new?", CachePoint()])]),
        ModelResponse(
            [
                NativeToolCallPart("web_search", {"query": "news"}, "s"),
                NativeToolReturnPart("web_search", {"results": ["Much. " * 20]}, "s"),
                TextPart("Much."),
            ]
        ),
        ModelRequest([UserPromptPart("Tell me.")]),
    ]
    fitted = fit_messages(messages, 1000, counter=COUNTER)
    assert fitted.messages == messages
    assert 45 < fitted.total_tokens < 90


@pytest.mark.parametrize("way", ["run", "run_stream"])
def test_the_processor_runs_in_an_agent(way: str):
    seen: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        if len(seen) == 1:
            return ModelResponse([ToolCallPart("weather", {"city": "Oslo"})])
        return ModelResponse([TextPart("Rain.")])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        seen.append(messages)
        yield {0: DeltaToolCall("weather", '{"city": "Oslo"}')} if len(seen) == 1 else "Rain."

    agent = Agent(
        FunctionModel(model, stream_function=stream),
        tools=[weather],
        capabilities=[ProcessHistory(lambda messages: fit_messages(messages, 100, counter=COUNTER).messages)],
    )

    async def run() -> str:
        if way == "run":
            return (await agent.run("And now?", message_history=history())).output
        async with agent.run_stream("And now?", message_history=history()) as result:
            return await result.get_output()

    assert asyncio.run(run()) == "Rain."
    assert "capital of Norway" not in str(seen[0])
    kinds = [part.part_kind for message in seen[1] for part in message.parts]
    assert kinds[-3:] == ["user-prompt", "tool-call", "tool-return"]
    assert kinds[0] == "system-prompt"


def test_the_newest_result_is_never_hidden():
    messages = [
        ModelRequest([UserPromptPart("Hi")]),
        ModelResponse([ToolCallPart("weather", {}, "a")]),
        ModelRequest([ToolReturnPart("weather", "x" * 4000, "a")]),
    ]
    with pytest.raises(PinnedMessagesExceedBudgetError, match="results that the model has yet to see"):
        fit_messages(messages, 100, counter=COUNTER, forms=False)


class TestLaws(FrameworkLaws):
    def fit(self, messages, budget, **options):
        return fit_messages(messages, budget, counter=COUNTER, **options)

    def user(self, text):
        return ModelRequest([UserPromptPart(text)])

    def answer(self, text):
        return ModelResponse([TextPart(text)])

    def call(self, key, *, thinking=""):
        thoughts = [ThinkingPart(thinking, signature="c2ln")] if thinking else []
        return ModelResponse([*thoughts, ToolCallPart("look", {}, key)])

    def result(self, key, text, words=""):
        return [ModelRequest([ToolReturnPart("look", text, key), *([UserPromptPart(words)] if words else [])])]
