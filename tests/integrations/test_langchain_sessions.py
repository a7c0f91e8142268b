"""Sessions in LangGraph's and LangChain's agents, against the real packages."""

import asyncio
import json
import re
from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langgraph")

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from cupel.integrations.langchain import LANGCHAIN, SessionMiddleware
from cupel.messages import MessageSession
from tests.integrations.conversation_laws import BUDGET, COUNTER, Application, ConversationLaws, Message, output, reply
from tests.messages.provider_rules import violations


@tool
def read(part: str) -> str:
    """Return a part."""
    return output(part)


class Model(BaseChatModel):
    """Answers as `reply` says; streams its answers, too."""

    application: Any

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, **_options: Any) -> Any:
        del tools
        return self

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        newest = messages[-1]
        if "fail" in newest.text:
            raise ConnectionError
        sent, cached = self.application.sent(convert_to_openai_messages(messages))
        action = reply(newest.tool_call_id if isinstance(newest, ToolMessage) else newest.text)
        usage = {"input_tokens": sent, "output_tokens": 1, "total_tokens": sent + 1}
        usage["input_token_details"] = {"cache_read": cached}
        if isinstance(action, str):
            return AIMessage(action, usage_metadata=usage)
        calls = [{"name": "read", "args": {"part": part}, "id": part, "type": "tool_call"} for part in action]
        return AIMessage("", tool_calls=calls, usage_metadata=usage)

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    def _stream(self, messages: list[BaseMessage], *_args: Any, **_options: Any) -> Any:
        answer = self._answer(messages)
        chunks = [
            {"name": c["name"], "args": f'{{"part": "{c["id"]}"}}', "id": c["id"], "index": i}
            for i, c in enumerate(answer.tool_calls)
        ]
        yield ChatGenerationChunk(message=AIMessageChunk(answer.content, tool_call_chunks=chunks))
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=answer.usage_metadata))


class Agent(Application):
    def __init__(self, stored: InMemorySaver | None, ratio: float, options: Any) -> None:
        super().__init__(InMemorySaver() if stored is None else stored, ratio)
        model = Model(application=self)
        middleware = [SessionMiddleware(BUDGET, counter=COUNTER, **options)]
        self.graph = create_agent(
            model, [read], system_prompt="Be brief.", middleware=middleware, checkpointer=self.stored
        )

    def plain(self, messages: list[BaseMessage]) -> list[Message]:
        return convert_to_openai_messages(messages)

    async def ask(self, thread: str, text: str, way: str) -> None:
        given = {"messages": [HumanMessage(text)]}, config(thread)
        match way:
            case "invoke":
                self.graph.invoke(*given)
            case "ainvoke":
                await self.graph.ainvoke(*given)
            case "stream":
                assert [*self.graph.stream(*given, stream_mode="messages")]
            case _:
                assert [part async for part in self.graph.astream(*given, stream_mode="messages")]

    def values(self, thread: str) -> dict[str, Any]:
        return self.graph.get_state(config(thread)).values

    def history(self, thread: str) -> list[Message]:
        return convert_to_openai_messages(self.values(thread)["messages"])

    def states(self, thread: str) -> list[str]:
        return [self.values(thread)["cupel_session"]]

    def overwrite_state(self, thread: str, state: str) -> None:
        self.graph.update_state(config(thread), {"cupel_session": state}, as_node="model")

    def forget(self, thread: str, count: int) -> None:
        oldest = self.values(thread)["messages"][:count]
        gone = [RemoveMessage(message.id) for message in oldest]
        self.graph.update_state(config(thread), {"messages": gone}, as_node="model")


def config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


class TestMiddleware(ConversationLaws):
    def application(self, stored: Any = None, *, ratio: float = 1.0, **options: Any) -> Agent:
        return Agent(stored, ratio, options)


@pytest.fixture
def agent() -> Agent:
    return Agent(None, 1.0, {})


LAWS = TestMiddleware()


def test_a_thread_goes_on_from_an_earlier_checkpoint_as_it_did_then():
    agent = Agent(None, 0, {})  # what the provider has seen since must make no difference
    LAWS.talk(agent, "anna", range(5))
    then, before = agent.graph.get_state(config("anna")).config, len(agent.requests)
    LAWS.talk(agent, "anna", range(5, 7))
    expected = agent.requests[before:]
    LAWS.talk(agent, "anna", range(7, 9))
    agent.requests.clear()
    agent.graph.invoke({"messages": [HumanMessage("ask 125 for anna")]}, then)
    LAWS.talk(agent, "anna", range(6, 7))
    assert agent.requests == expected


def test_a_request_that_failed_is_not_settled_by_an_older_answer(agent: Agent):
    LAWS.talk(agent, "anna", range(1))
    with pytest.raises(ConnectionError):
        asyncio.run(agent.ask("anna", "ask 5 fail", "invoke"))
    LAWS.talk(agent, "anna", range(1, 2))
    (state,) = map(json.loads, agent.states("anna"))
    assert len(state["usage"]) == len(agent.requests) - (state["pending"] is not None)


def test_two_runs_of_a_thread_at_once_are_branches_that_are_legal(agent: Agent):
    LAWS.talk(agent, "anna", range(4))
    before = len(agent.requests)

    async def both() -> None:
        await asyncio.gather(
            agent.ask("anna", "ask 130 twice", "ainvoke"), agent.ask("anna", "ask 131 twice", "ainvoke")
        )

    asyncio.run(both())
    LAWS.talk(agent, "anna", range(6, 8))
    requests = agent.requests[before:]
    assert all(violations("openai", request) == [] for request in requests)
    assert not [request for request in requests[:4] if "ask 130" in str(request) and "ask 131" in str(request)]


def test_without_a_thread_the_checkpointer_says_so(agent: Agent):
    with pytest.raises(ValueError, match="thread_id"):
        agent.graph.invoke({"messages": [HumanMessage("ask 1")]})


def test_without_a_checkpointer_a_session_lasts_for_a_run():
    turns: list[Any] = []
    agent = Agent(False, 1.0, {"on_turn": turns.append})
    for turn in range(2):
        agent.graph.invoke({"messages": [HumanMessage(f"ask {120 + turn}")]})
    assert [turn.bill.read > 0 for turn in turns] == [False, True, True, False, True]


def test_what_the_agent_returns_has_no_session_in_it(agent: Agent):
    result = agent.graph.invoke({"messages": [HumanMessage("ask 1 for anna")]}, config("anna"))
    assert result.keys() == {"messages"}


def test_parts_of_what_a_tool_returned_are_shortened_one_by_one():
    text = output("7")
    parts = ["", text, {"type": "text", "text": ""}, {"type": "image", "url": "https://example.com/a.png"}]
    content = [*parts, {"type": "text", "text": text, "id": "b"}]
    call = {"name": "read", "args": {}, "id": "c", "type": "tool_call"}
    history = [HumanMessage("Look."), AIMessage("", tool_calls=[call]), ToolMessage(content, tool_call_id="c")]
    sent = MessageSession(600, counter=COUNTER, image_tokens=10, framework=LANGCHAIN).fit(history).messages
    first = sent[-1].content[1]
    assert 0 < len(first) < len(text)
    assert sent[-1].content == [parts[0], first, *parts[2:], {"type": "text", "text": first, "id": "b"}]
    assert history[-1].content == content


class Forgetful(BaseChatModel):
    """Reads twelve parts, and then needs a line of the first, which it fetches back if the request lacks it."""

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, **_options: Any) -> Any:
        assert [one.name for one in tools] == ["recall", "look"]
        return self

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_options: Any) -> ChatResult:
        seen = "\n".join(message.text for message in messages)
        last = next((message.tool_call_id for message in reversed(messages) if isinstance(message, ToolMessage)), "-1")
        call = {"name": "look", "args": {"part": int(last) + 1}, "id": str(int(last) + 1)}
        if int(last) >= 11:
            listed = re.search(r"#(\w+) look 0[;\]]", seen)
            call |= {"name": "recall", "args": {"id": listed[1]} if listed else {"text": "key_0_17"}}
        found = re.search(r"key_0_17 = (\d+)", seen)
        answer = AIMessage(f"It is {found[1]}.") if found and int(last) >= 11 else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
def look(part: int) -> str:
    """Return a part."""
    return "\n".join(f"key_{part}_{line} = {1000 * part + line}" for line in range(60))


@pytest.mark.parametrize("saver", [None, InMemorySaver()])
def test_an_agent_fetches_back_what_its_request_left_out(saver: Any) -> None:
    turns: list[Any] = []
    middleware = SessionMiddleware(2000, recall=True, on_turn=turns.append)
    agent = create_agent(Forgetful(), [look], middleware=[middleware], checkpointer=saver)
    found = agent.invoke({"messages": [HumanMessage("Read all parts.")]}, {**config("one"), "recursion_limit": 90})
    assert found["messages"][-1].text == "It is 17."
    recalled = found["messages"][-2]
    assert (recalled.name, "key_0_17 = 17" in recalled.text) == ("recall", True)
    assert all(turn.total_tokens <= 2000 for turn in turns)
    assert SessionMiddleware(2000).tools == []
