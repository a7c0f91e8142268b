"""Sessions in Haystack's pipelines and agents, against the real package."""

import asyncio
import json
from threading import get_ident
from typing import Any

import pytest

pytest.importorskip("haystack")

from haystack import Pipeline, component
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, TextContent, ToolCall
from haystack.tools import tool

from cupel import ContextBudget, Prices, presets
from cupel.integrations.haystack import SessionChatGenerator
from tests.integrations.conversation_laws import BUDGET, COUNTER, Application, ConversationLaws, Message, output, reply


@tool
def read(part: str) -> str:
    """Return a part."""
    return output(part)


def plain(messages: list[ChatMessage]) -> list[Message]:
    return [message.to_openai_dict_format() for message in messages]


class Assistant(Application):
    def __init__(self, stored: dict[str, str] | None, ratio: float, options: Any) -> None:
        super().__init__({} if stored is None else stored, ratio)
        generator = SessionChatGenerator(MockChatGenerator(response_fn=self.answer), BUDGET, counter=COUNTER, **options)
        self.agent = Agent(chat_generator=generator, tools=[read], system_prompt="Be brief.")

    def answer(self, messages: list[ChatMessage]) -> ChatMessage:
        result = messages[-1].tool_call_result
        sent, cached = self.sent(plain(messages))
        action = reply(messages[-1].text if result is None else result.origin.id)
        meta = {"usage": {"prompt_tokens": sent, "prompt_tokens_details": {"cached_tokens": cached}} if sent else {}}
        if isinstance(action, str):
            return ChatMessage.from_assistant(action, meta=meta)
        return ChatMessage.from_assistant(
            tool_calls=[ToolCall("read", {"part": part}, id=part) for part in action], meta=meta
        )

    def plain(self, messages: list[ChatMessage]) -> list[Message]:
        return plain(messages)

    def messages(self, thread: str) -> list[ChatMessage]:
        return [ChatMessage.from_dict(message) for message in json.loads(self.stored.get(thread, "[]"))]

    async def ask(self, thread: str, text: str, way: str) -> None:
        messages = [*self.messages(thread), ChatMessage.from_user(text)]
        chunks: list[Any] = []

        async def achunk(chunk: Any) -> None:
            chunks.append(chunk)

        match way:
            case "invoke":
                result = self.agent.run(messages)
            case "ainvoke":
                result = await self.agent.run_async(messages)
            case "stream":
                result = self.agent.run(messages, streaming_callback=chunks.append)
            case _:
                result = await self.agent.run_async(messages, streaming_callback=achunk)
        assert bool(chunks) == way.endswith("stream")
        spoken = [message for message in result["messages"] if not message.is_from("system")]
        self.store(thread, spoken)

    def store(self, thread: str, messages: list[ChatMessage]) -> None:
        self.stored[thread] = json.dumps([message.to_dict() for message in messages])

    def history(self, thread: str) -> list[Message]:
        return plain(self.messages(thread))

    def states(self, thread: str) -> list[str]:
        return [m.meta["cupel_session"] for m in self.messages(thread) if "cupel_session" in m.meta]

    def overwrite_state(self, thread: str, state: str) -> None:
        messages = self.messages(thread)
        for message in messages:
            message.meta.update({"cupel_session": state} if "cupel_session" in message.meta else {})
        self.store(thread, messages)

    def forget(self, thread: str, count: int) -> None:
        self.store(thread, self.messages(thread)[count:])


class TestSessionChatGenerator(ConversationLaws):
    def application(self, stored: Any = None, *, ratio: float = 1.0, **options: Any) -> Assistant:
        return Assistant(stored, ratio, options)


def is_first(message: ChatMessage) -> bool:
    return message.text == "first"


def shorter(text: str, limit: int) -> str:
    return text[:limit]


def note(turn: Any) -> None:
    del turn


def test_options_survive_yaml():
    options: Any = {"prices": Prices.automatic(), "keep": 0.7, "gaps": False, "query": "Why?"}
    functions: Any = {"pin": is_first, "forms": shorter, "on_turn": note}
    budget = ContextBudget(8000, 4000, output_reserve=1000)
    generator = SessionChatGenerator(MockChatGenerator("Yes."), budget, presets.chat(), **options, **functions)
    pipeline = Pipeline()
    pipeline.add_component("llm", generator)
    modules = ["cupel.integrations.haystack", "tests.integrations.test_haystack_sessions"]
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=modules).get_component("llm")
    assert again.to_dict() == generator.to_dict()
    assert again.budget == budget
    assert again.run([ChatMessage.from_user("Hi")])["replies"][0].text == "Yes."


@component
class Bare:
    """A generator that is not asynchronous and takes nothing but messages."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant(f"{len(messages)} messages")], "model": "bare"}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_it_replaces_a_generator_that_takes_only_messages_in_a_pipeline(asynchronous: bool):
    pipeline = Pipeline()
    pipeline.add_component("llm", SessionChatGenerator(Bare(), 500, counter=COUNTER))
    data = {"llm": {"messages": [ChatMessage.from_user("Hi")]}}
    result = asyncio.run(pipeline.run_async(data)) if asynchronous else pipeline.run(data)
    (said,) = result["llm"]["replies"]
    assert said.text == "1 messages"
    assert '"version":' in said.meta["cupel_session"]


@component
class Noting:
    """A generator that is not asynchronous, and notes what it is given and where it runs."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.threads: list[int] = []
        self.life: list[str] = []

    def answer(self, *given: Any) -> dict[str, Any]:
        self.given.append(given)
        self.threads.append(get_ident())
        return {"replies": [ChatMessage.from_assistant("Yes.")]}

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
    ) -> dict[str, Any]:
        return self.answer(messages, streaming_callback, generation_kwargs, tools)

    def warm_up(self) -> None:
        self.life.append("warm")
        self.threads.append(get_ident())

    def close(self) -> None:
        self.life.append("closed")
        self.threads.append(get_ident())


@component
class NotingOnALoop(Noting):
    """The same, asynchronous: what is not must not be called."""

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
    ) -> dict[str, Any]:
        raise NotImplementedError

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
    ) -> dict[str, Any]:
        return self.answer(messages, streaming_callback, generation_kwargs, tools)

    async def warm_up_async(self) -> None:
        Noting.warm_up(self)

    async def close_async(self) -> None:
        Noting.close(self)

    def warm_up(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def test_a_generator_is_given_what_the_component_is_given_wherever_it_runs():
    history = [ChatMessage.from_user(f"{turn} " + "word " * 60) for turn in range(9)]
    inputs: Any = {"streaming_callback": note, "generation_kwargs": {"temperature": 0}, "tools": [read]}
    plain, threaded, looped = Noting(), Noting(), NotingOnALoop()
    SessionChatGenerator(plain, 500, counter=COUNTER).run(history, **inputs)
    for generator in (threaded, looped):
        asyncio.run(SessionChatGenerator(generator, 500, counter=COUNTER).run_async(history, **inputs))
    assert plain.given == threaded.given == looped.given
    ((messages, *given),) = plain.given
    assert 0 < len(messages) < len(history)
    assert given == [*inputs.values()]
    assert plain.threads == looped.threads == [get_ident()] != threaded.threads


def test_the_generator_that_is_wrapped_is_warmed_up_and_closed():
    plain, threaded, looped = Noting(), Noting(), NotingOnALoop()
    wrapped = SessionChatGenerator(plain, 500)
    wrapped.warm_up()
    wrapped.close()

    async def live(generator: Noting) -> None:
        wrapped = SessionChatGenerator(generator, 500)
        await wrapped.warm_up_async()
        await wrapped.close_async()

    for generator in (threaded, looped):
        asyncio.run(live(generator))
    assert plain.life == threaded.life == looped.life == ["warm", "closed"]
    assert get_ident() not in threaded.threads
    assert set(plain.threads) == set(looped.threads) == {get_ident()}


@pytest.mark.parametrize("generator", [MockChatGenerator("Yes."), Bare()], ids=["without close", "without both"])
def test_a_generator_need_not_be_warmed_up_or_closed(generator: Any):
    wrapped = SessionChatGenerator(generator, 500)
    wrapped.warm_up()
    asyncio.run(wrapped.warm_up_async())
    wrapped.close()
    asyncio.run(wrapped.close_async())


def test_parts_of_what_a_tool_returned_are_shortened_one_by_one():
    call = ToolCall("read", {}, id="c")
    parts = [TextContent(output("1")), TextContent(""), TextContent(output("2"))]
    history = [
        ChatMessage.from_user("Look."),
        ChatMessage.from_assistant(tool_calls=[call]),
        ChatMessage.from_tool(parts, origin=call, meta={"kept": 1}),
    ]
    requests: list[list[ChatMessage]] = []

    def answer(messages: list[ChatMessage]) -> str:
        requests.append(messages)
        return "Fine."

    SessionChatGenerator(MockChatGenerator(response_fn=answer), 500, counter=COUNTER).run(history)
    sent = requests[0][-1]
    first, empty, other = sent.tool_call_result.result
    assert 0 < len(first.text) < len(parts[0].text)
    assert 0 < len(other.text) < len(parts[2].text)
    assert empty == parts[1]
    assert sent.meta == {"kept": 1}
    assert history[-1].tool_call_result.result == parts


def test_an_account_that_cannot_be_read_costs_nobody_the_answer(caplog: pytest.LogCaptureFixture):
    odd = ChatMessage.from_assistant("Yes.", meta={"usage": {"seconds": 3}})
    result = SessionChatGenerator(MockChatGenerator(odd), 500).run([ChatMessage.from_user("Hi")])
    assert result["replies"][0].text == "Yes."
    assert "the bill stays an estimate: usage must report" in caplog.text
