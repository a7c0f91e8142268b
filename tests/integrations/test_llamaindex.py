"""The LlamaIndex module, against the real package."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM, MockLLM, MockLLMWithChatMemoryOfLastCall
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool

from cupel import Pipeline, ReflexiveScorer
from cupel.integrations.llamaindex import BudgetPostprocessor, SessionMemory, fit_messages
from cupel.messages import PinnedMessagesExceedBudgetError
from cupel.tokens import CharacterEstimate
from tests.integrations.framework_laws import FrameworkLaws

COUNTER = CharacterEstimate()


def history() -> list[ChatMessage]:
    calls = [{"id": key, "function": {"name": "weather", "arguments": "{}"}, "type": "function"} for key in "ab"]
    return [
        ChatMessage("Answer briefly.", role=MessageRole.SYSTEM),
        ChatMessage("How is the weather? " * 5),
        ChatMessage(role=MessageRole.ASSISTANT, additional_kwargs={"tool_calls": calls}),
        ChatMessage("rain " * 40, role=MessageRole.TOOL, additional_kwargs={"tool_call_id": "b"}),
        ChatMessage("sun", role=MessageRole.TOOL, additional_kwargs={"tool_call_id": "a"}),
        ChatMessage("Rain, then sun.", role=MessageRole.ASSISTANT),
        ChatMessage("And tomorrow?"),
    ]


@pytest.mark.parametrize("budget", range(35, 220, 5))
def test_calls_and_results_stay_together_and_the_user_speaks_first(budget: int):
    messages = history()
    fitted = fit_messages(messages, budget, counter=COUNTER)
    kept = list(fitted.positions)
    assert kept == sorted(kept)
    assert {0, 6} <= set(kept)
    assert {2, 3, 4} <= set(kept) or not {2, 3, 4} & set(kept)
    assert messages[kept[1]].role == MessageRole.USER
    assert fitted.total_tokens <= budget


def test_call_blocks_and_images_are_read():
    blocks = pytest.importorskip("llama_index.core.base.llms.types")
    if not hasattr(blocks, "ToolCallBlock"):
        pytest.skip("this version keeps calls in additional_kwargs only")
    messages = [
        ChatMessage(blocks=[TextBlock(text="What is this?"), ImageBlock(url="https://example.com/a.png")]),
        ChatMessage(
            role=MessageRole.ASSISTANT,
            blocks=[blocks.ToolCallBlock(tool_call_id="a", tool_name="look", tool_kwargs={"closely": True})],
        ),
        ChatMessage("A cat.", role=MessageRole.TOOL, additional_kwargs={"tool_call_id": "a"}),
    ]
    fitted = fit_messages(messages, 10_000, counter=COUNTER)
    assert fitted.messages == messages
    assert fitted.total_tokens > 1000, "the image has been counted"


@pytest.mark.parametrize(("call_id", "result_id"), [(None, "roll"), (None, ""), ("", ""), ("roll", "roll")])
def test_calls_of_models_that_have_no_ids_are_answered_in_their_order(call_id: str | None, result_id: str):
    call = ToolCallBlock(tool_call_id=call_id, tool_name="roll", tool_kwargs={"sides": 6})
    result = {"additional_kwargs": {"tool_call_id": result_id}, "role": MessageRole.TOOL}
    messages = [
        ChatMessage("Roll two dice."),
        ChatMessage(role=MessageRole.ASSISTANT, blocks=[call, call]),
        ChatMessage("3", **result),
        ChatMessage("5", **result),
    ]
    assert fit_messages(messages, 1000, counter=COUNTER).messages == messages
    assert len(fit_messages(messages[:3], 1000, counter=COUNTER).messages) == 1


def test_tools_are_counted_and_pinned_messages_stay():
    def weather(city: str) -> str:
        """Tell the weather in a city."""
        return f"rain in {city}"

    tool = FunctionTool.from_defaults(weather)
    plain = fit_messages(history(), 1000, counter=COUNTER).total_tokens
    counted = fit_messages(history(), 1000, counter=COUNTER, tools=[tool]).total_tokens
    assert (
        counted == fit_messages(history(), 1000, counter=COUNTER, tools=[tool.metadata.to_openai_tool()]).total_tokens
    )
    assert counted > plain + COUNTER.count("Tell the weather in a city.")
    fitted = fit_messages(
        history(),
        counted - 1,
        notes=False,
        counter=COUNTER,
        tools=[tool],
        pin=lambda message: message.content == "sun",
        forms=False,
    )
    assert [message.role.value for message in fitted.messages].count("tool") == 2
    assert len(fitted.messages) < 7


def test_a_call_without_its_result_is_left_out():
    messages = history()[:4]
    fitted = fit_messages(messages, 10_000, counter=COUNTER)
    assert [message.role.value for message in fitted.messages] == ["system", "user"]
    assert {unit.reason.filter_name for unit in fitted.dropped} == {"call without its result"}


def test_the_memory_keeps_everything_and_returns_what_fits():
    memory = SessionMemory.from_defaults(chat_history=history(), budget=75, counter=COUNTER)
    assert [message.role.value for message in memory.get()][-1] == "user"
    assert [message.role.value for message in memory.get(initial_token_count=30)] == ["system", "user"]
    assert len(memory.get_all()) == 7
    memory.put(ChatMessage("One more."))
    assert memory.get()[-1].content == "One more."


def test_the_memory_serves_a_chat_engine():
    memory = SessionMemory.from_defaults(llm=MockLLM(), counter=COUNTER)
    assert memory.budget == MockLLM().metadata.context_window * 3 // 4
    engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
    engine.chat("Hello there.")
    assert [message.role.value for message in memory.get()] == ["user", "assistant"]


LONG = "Once upon a time there was a king. " * 8


def sent_tokens(messages: list[ChatMessage]) -> int:
    return sum(COUNTER.count(message.content or "") for message in messages)


def engine_of(memory: SessionMemory, **options: Any) -> tuple[SimpleChatEngine, MockLLMWithChatMemoryOfLastCall]:
    llm = MockLLMWithChatMemoryOfLastCall()
    return SimpleChatEngine.from_defaults(llm=llm, memory=memory, **options), llm


def long_memory(budget: int) -> SessionMemory:
    turns = [ChatMessage(LONG, role=role) for _ in range(50) for role in (MessageRole.USER, MessageRole.ASSISTANT)]
    return SessionMemory.from_defaults(chat_history=turns, budget=budget, counter=COUNTER)


def test_what_the_memory_hands_out_does_not_depend_on_how_it_is_asked():
    memory = SessionMemory.from_defaults(chat_history=history(), budget=90, counter=COUNTER)
    for arguments in ({}, {"input": "And?"}, {"initial_token_count": 30}, {"input": "And?", "initial_token_count": 30}):
        assert asyncio.run(memory.aget(**arguments)) == memory.get(**arguments)
    assert len(asyncio.run(memory.aget_all())) == 7


async def talk(engine: SimpleChatEngine, ask: str) -> None:
    if ask == "achat":
        await engine.achat("And then?")
    else:
        answer = await engine.astream_chat("And then?")
        assert [token async for token in answer.async_response_gen()]


@pytest.mark.parametrize("ask", ["chat", "achat", "stream_chat", "astream_chat"])
def test_a_chat_engine_sends_what_fits_beside_its_own_prompt(ask: str):
    engine, llm = engine_of(long_memory(500), system_prompt="Be brief. " * 30)
    if ask.startswith("a"):
        asyncio.run(talk(engine, ask))
    else:
        str(getattr(engine, ask)("And then?"))
    assert llm.last_chat_messages[-1].content == "And then?"
    assert 3 < len(llm.last_chat_messages) < 12
    assert sent_tokens(llm.last_chat_messages) <= 500


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # LlamaIndex's own, of pydantic's old names
@pytest.mark.parametrize("streaming", [False, True])
def test_an_agent_sends_what_fits_and_its_own_steps(streaming: bool):
    requests: list[list[ChatMessage]] = []

    def answer(messages: Sequence[ChatMessage], **_kwargs: Any) -> Any:
        requests.append(list(messages))
        called = any(message.role == MessageRole.TOOL for message in messages)
        call = ToolCallBlock(tool_call_id="a", tool_name="weather", tool_kwargs={"city": "Oslo"})
        blocks = [TextBlock(text="Rain.")] if called else [call]
        message = ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)
        return one(message) if streaming else message

    async def one(message: ChatMessage) -> AsyncIterator[ChatMessage]:
        yield message

    def weather(city: str) -> str:
        """Return the weather in a city."""
        return f"rain in {city}"

    memory = long_memory(200)
    llm = MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
    agent = FunctionAgent(tools=[weather], llm=llm, streaming=streaming)

    async def run() -> str:
        return str(await agent.run("How is the weather?", memory=memory))

    assert asyncio.run(run()) == "Rain."
    assert [message.role.value for message in requests[1]][-3:] == ["user", "assistant", "tool"]
    assert all(sent_tokens(request) < 220 for request in requests)
    assert len(memory.get_all()) == 100 + 4
    assert [message.role.value for message in memory.get()][-4:] == ["user", "assistant", "tool", "assistant"]


def nodes() -> list[NodeWithScore]:
    scores = {"alpha": 0.2, "bravo": 0.9, "charlie": 0.5}
    return [NodeWithScore(node=TextNode(text=f"{word} " * 10), score=score) for word, score in scores.items()]


def test_nodes_are_chosen_by_score():
    postprocessor = BudgetPostprocessor(budget=20, policy=Pipeline(scorer=ReflexiveScorer()), counter=COUNTER)
    given = nodes()
    chosen = postprocessor.postprocess_nodes(given, query_str="which one?")
    assert len(chosen) == 1
    assert chosen[0] is given[1]
    assert asyncio.run(postprocessor.apostprocess_nodes(given, query_str="which one?")) == chosen


def test_the_best_nodes_are_at_the_ends():
    chosen = BudgetPostprocessor(budget=1000, counter=COUNTER).postprocess_nodes(nodes())
    assert [entry.score for entry in chosen] == [0.9, 0.2, 0.5]


def test_metadata_that_the_model_sees_is_counted():
    node = NodeWithScore(node=TextNode(text="short", metadata={"note": "x" * 400}), score=1.0)
    assert BudgetPostprocessor(budget=50, counter=COUNTER).postprocess_nodes([node]) == []


class TestLaws(FrameworkLaws):
    def fit(self, messages, budget, **options):
        return fit_messages(messages, budget, counter=COUNTER, **options)

    def user(self, text):
        return ChatMessage(text)

    def answer(self, text):
        return ChatMessage(text, role=MessageRole.ASSISTANT)

    def call(self, key, *, thinking=""):
        blocks = [ThinkingBlock(content=thinking, additional_information={"signature": "c2ln"})] if thinking else []
        called = ToolCallBlock(tool_call_id=key, tool_name="look", tool_kwargs={})
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[*blocks, called])

    def result(self, key, text, words=""):
        told = ChatMessage(text, role=MessageRole.TOOL, additional_kwargs={"tool_call_id": key})
        return [told, *([ChatMessage(words)] if words else [])]


def test_a_memory_names_what_the_next_request_must_contain_and_cannot():
    laws = TestLaws()
    told = [laws.user("And the log?"), laws.call("a"), *laws.result("a", "line " * 1000)]
    memory = SessionMemory.from_defaults(chat_history=told, budget=500, counter=COUNTER, forms=False)
    for ask in (memory.get, lambda: asyncio.run(memory.aget())):
        with pytest.raises(PinnedMessagesExceedBudgetError, match=r"messages\[1:3\]"):
            ask()
