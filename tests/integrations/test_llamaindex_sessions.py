"""Sessions in LlamaIndex's memories, against the real package."""

import asyncio
import copy
import json
import pickle
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.bridge.pydantic import Field
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM, MockLLMWithChatMemoryOfLastCall
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.tools import FunctionTool

from cupel import ConfigurationError, Prices, SelectionError
from cupel.integrations.llamaindex import SessionMemory
from tests.integrations.conversation_laws import BUDGET, COUNTER, Application, ConversationLaws, Message, output, reply

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # LlamaIndex's own, of pydantic's old names


class WrittenStore(BaseChatStore):
    """A chat store that keeps what it is given as text, as those on a disk or in a database do."""

    texts: dict[str, list[str]] = Field(default_factory=dict)

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        self.texts[key] = [message.model_dump_json() for message in messages]

    def get_messages(self, key: str) -> list[ChatMessage]:
        return [ChatMessage.model_validate_json(text) for text in self.texts.get(key, [])]

    def add_message(self, key: str, message: ChatMessage) -> None:
        self.texts.setdefault(key, []).append(message.model_dump_json())

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        return [ChatMessage.model_validate_json(text) for text in self.texts.pop(key, [])]

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        return ChatMessage.model_validate_json(self.texts[key].pop(idx))

    def delete_last_message(self, key: str) -> ChatMessage | None:
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        return list(self.texts)


def plain(messages: Sequence[ChatMessage]) -> list[Message]:
    """The messages as chat-completions would have them."""
    return [plain_message(message) for message in messages]


def plain_call(call: ToolCallBlock) -> dict[str, Any]:
    function = {"name": call.tool_name, "arguments": json.dumps(call.tool_kwargs)}
    return {"id": call.tool_call_id, "type": "function", "function": function}


def plain_message(message: ChatMessage) -> Message:
    view: Message = {"role": message.role.value, "content": message.content}
    if calls := [block for block in message.blocks if isinstance(block, ToolCallBlock)]:
        view["tool_calls"] = [plain_call(call) for call in calls]
    if message.role == MessageRole.TOOL:
        view["tool_call_id"] = message.additional_kwargs["tool_call_id"]
    return view


def read(part: str) -> str:
    """Return a part."""
    return output(part)


class Assistant(Application):
    def __init__(self, stored: WrittenStore | None, ratio: float, options: Any) -> None:
        super().__init__(WrittenStore() if stored is None else stored, ratio)
        self.options = options
        self.memory("anna")

    def memory(self, thread: str) -> SessionMemory:
        return SessionMemory(
            budget=BUDGET,
            chat_store=self.stored,
            chat_store_key=thread,
            counter=COUNTER,
            system="Be brief.",
            tools=[FunctionTool.from_defaults(read)],
            **self.options,
        )

    def plain(self, messages: list[ChatMessage]) -> list[Message]:
        return plain(messages)

    async def ask(self, thread: str, text: str, way: str) -> None:
        usages: list[Message] = []

        def answer(messages: Sequence[ChatMessage], **_options: Any) -> Any:
            sent, cached = self.sent(plain(messages))
            usages.append({"prompt_tokens": sent, "prompt_tokens_details": {"cached_tokens": cached}})
            key = messages[-1].additional_kwargs.get("tool_call_id")
            action = reply(messages[-1].content if key is None else key)
            blocks = [TextBlock(text=action)] if isinstance(action, str) else [call(part) for part in action]
            message = ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)
            return one(message) if way == "astream" else message

        llm = MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
        agent = FunctionAgent(tools=[read], llm=llm, streaming=way == "astream", system_prompt="Be brief.")
        memory = self.memory(thread)
        await agent.run(text, memory=memory)
        if self.ratio:
            await memory.aobserve(usages[0])

    def history(self, thread: str) -> list[Message]:
        return plain(self.stored.get_messages(thread))

    def record(self, thread: str) -> dict[str, Any]:
        return json.loads(self.stored.get_messages(f"{thread}:cupel_session")[0].content or "")

    def states(self, thread: str) -> list[str]:
        record = self.record(thread)
        return [record["before"], record["after"]]

    def overwrite_state(self, thread: str, state: str) -> None:
        record = {**self.record(thread), "before": state, "after": state}
        self.stored.set_messages(f"{thread}:cupel_session", [ChatMessage(json.dumps(record))])

    def forget(self, thread: str, count: int) -> None:
        self.stored.set_messages(thread, self.stored.get_messages(thread)[count:])


def call(part: str) -> ToolCallBlock:
    return ToolCallBlock(tool_call_id=part, tool_name="read", tool_kwargs={"part": part})


async def one(message: ChatMessage) -> AsyncIterator[ChatMessage]:
    yield message


class TestSessionMemory(ConversationLaws):
    ways = ("ainvoke", "astream")
    sends_the_turn = False  # an agent sends the steps of its current turn behind what the memory hands out

    def application(self, stored: Any = None, *, ratio: float = 1.0, **options: Any) -> Assistant:
        return Assistant(stored, ratio, options)


LONG = "word " * 60


def talk(memory: SessionMemory, turns: range, way: str) -> list[list[str | None]]:
    """Ask a chat engine, and return the requests that it made."""
    llm, requests = MockLLMWithChatMemoryOfLastCall(), []

    async def ask(text: str) -> None:
        engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory, system_prompt="Be brief. " * 5)
        match way:
            case "chat":
                engine.chat(text)
            case "stream_chat":
                assert [*engine.stream_chat(text).response_gen]
            case "achat":
                await engine.achat(text)
            case _:
                answer = await engine.astream_chat(text)
                assert [token async for token in answer.async_response_gen()]
        requests.append([message.content for message in llm.last_chat_messages])

    for turn in turns:
        asyncio.run(ask(f"{turn} {LONG}"))
    return requests


@pytest.mark.parametrize("way", ["chat", "stream_chat", "achat", "astream_chat"])
def test_a_chat_engine_is_handed_what_the_session_chose_however_it_is_asked(way: str):
    turns: list[Any] = []

    def memory(store: BaseChatStore) -> SessionMemory:
        return SessionMemory(budget=700, chat_store=store, counter=COUNTER, on_turn=turns.append)

    store = WrittenStore()
    whole = talk(memory(store), range(8), way)
    assert all(turn.total_tokens <= 700 - COUNTER.count("Be brief. " * 5) for turn in turns)
    assert len(turns) == 8
    again = WrittenStore()
    assert [request for turn in range(8) for request in talk(memory(again), range(turn, turn + 1), way)] == whole
    assert len(store.get_messages("chat_history")) == 16 > len(whole[-1])


def test_asking_again_gives_the_same_request_and_counts_once():
    turns: list[Any] = []
    memory = SessionMemory(budget=300, counter=COUNTER, on_turn=turns.append)
    for turn in range(6):
        memory.put(ChatMessage(f"{turn} {LONG}"))
        first = memory.get()
        assert memory.get() == asyncio.run(memory.aget()) == memory.get("anything") == first
        memory.observe({"prompt_tokens": 90})
        assert memory.get() == first
        memory.put(ChatMessage("Fine.", role=MessageRole.ASSISTANT))
        assert memory.get()[-1].content == "Fine.", "looked at"
    assert len(turns) == 6


def test_engines_that_ask_before_they_put_the_question_are_requests_too():
    turns: list[Any] = []
    memory = SessionMemory(budget=300, counter=COUNTER, on_turn=turns.append)
    assert memory.get("A question") == []
    memory.set([ChatMessage("Hi"), ChatMessage("Hello.", role=MessageRole.ASSISTANT)])
    assert len(memory.get("And?")) == 2
    assert len(turns) == 1


def test_what_is_forgotten_takes_its_session_along():
    for reset in (SessionMemory.reset, lambda memory: asyncio.run(memory.areset())):
        memory = SessionMemory(budget=300, chat_store=SimpleChatStore(), chat_store_key="anna")
        memory.put(ChatMessage("Hi"))
        memory.get()
        assert memory.chat_store.get_keys() == ["anna", "anna:cupel_session"]
        reset(memory)
        assert memory.chat_store.get_keys() == []


def test_one_conversation_has_one_writer():
    class Slow(WrittenStore):
        async def aget_messages(self, key: str) -> list[ChatMessage]:
            await asyncio.sleep(0.01)
            return self.get_messages(key)

    memory = SessionMemory(budget=300, chat_store=Slow(), chat_store_key="anna")
    memory.put(ChatMessage("Hi"))

    async def both() -> list[Any]:
        return await asyncio.gather(memory.aget(), memory.aget(), return_exceptions=True)

    first, second = asyncio.run(both())
    assert [message.content for message in first] == ["Hi"]
    assert isinstance(second, SelectionError)
    assert "the conversation 'anna' is in use" in str(second)
    assert asyncio.run(memory.aget()) == first


class RemoteStore(WrittenStore):
    """A chat store that lets no event loop wait for it: there it is asked by its asynchronous methods."""

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        assert not on_a_loop()
        super().set_messages(key, messages)

    def get_messages(self, key: str) -> list[ChatMessage]:
        assert not on_a_loop()
        return super().get_messages(key)

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        assert not on_a_loop()
        return super().delete_messages(key)


def on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_no_loop_waits_for_a_store():
    async def talk() -> None:
        memory = SessionMemory(budget=300, chat_store=store)
        await memory.aput(ChatMessage("Hi"))
        assert [message.content for message in await memory.aget()] == ["Hi"]
        await memory.aobserve({"prompt_tokens": 9})
        await memory.areset()
        assert store.get_keys() == []

    store = RemoteStore()
    asyncio.run(talk())


def test_a_memory_is_asked_for_the_same_with_and_without_a_loop():
    said = ChatMessage("Fine.", role=MessageRole.ASSISTANT)
    spoken = [message for turn in range(6) for message in (ChatMessage(f"{turn} {LONG}"), said)]
    ways = ((), ("And?",), (None, 100), ("And?", 100))

    def asked(*arguments: Any, with_loop: bool) -> tuple[list[ChatMessage], dict[str, list[str]]]:
        memory = SessionMemory(budget=200, chat_store=WrittenStore(), counter=COUNTER)
        memory.set(spoken)
        handed = asyncio.run(memory.aget(*arguments)) if with_loop else memory.get(*arguments)
        return handed, memory.chat_store.texts

    answers = [asked(*arguments, with_loop=False) for arguments in ways]
    assert len({str(answer) for answer in answers}) == 4
    assert [asked(*arguments, with_loop=True) for arguments in ways] == answers


def test_a_message_of_others_under_the_key_of_the_session_is_refused():
    memory = SessionMemory(budget=300, chat_store_key="anna")
    memory.put(ChatMessage("Hi"))
    memory.chat_store.set_messages("anna:cupel_session", [ChatMessage("something else")])
    with pytest.raises(
        ConfigurationError, match=r"'…:cupel_session' must be a request that SessionMemory stored, got 'so"
    ):
        memory.get()


def test_a_memory_can_be_copied_and_pickled_after_use():
    memory = SessionMemory(budget=300, prices=Prices.automatic(), keep=0.7)
    memory.put(ChatMessage("Hi"))
    handed = memory.get()
    for again in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
        assert again.get() == handed
        assert (again.prices, again.keep) == (Prices.automatic(), 0.7)


def test_parts_of_what_a_tool_returned_are_shortened_one_by_one():
    memory = SessionMemory(budget=500, counter=COUNTER)
    blocks = [TextBlock(text=output("1")), TextBlock(text=""), TextBlock(text=output("2"))]
    memory.put(ChatMessage("Look."))
    memory.put(ChatMessage(role=MessageRole.ASSISTANT, blocks=[call("7")]))
    memory.put(ChatMessage(role=MessageRole.TOOL, blocks=blocks, additional_kwargs={"tool_call_id": "7"}))
    first, empty, other = memory.get()[-1].blocks
    assert 0 < len(first.text) < len(blocks[0].text)
    assert 0 < len(other.text) < len(blocks[2].text)
    assert empty.text == ""
    assert memory.get_all()[-1].blocks == blocks
