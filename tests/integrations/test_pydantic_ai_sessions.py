"""Sessions in Pydantic AI's agents, against the real package."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic import BaseModel, Field
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import InMemoryConversationStore
from pydantic_ai.exceptions import RetryModelRequest
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from cupel import ConfigurationError
from cupel.integrations.pydantic_ai import SessionHistory
from tests.integrations.conversation_laws import BUDGET, COUNTER, Application, ConversationLaws, Message, output, reply


def plain(messages: list[ModelMessage]) -> list[Message]:
    """The messages as Anthropic would have them."""
    return [
        {"role": "user" if isinstance(message, ModelRequest) else "assistant", "content": [*map(block, message.parts)]}
        for message in messages
    ]


def block(part: Any) -> Message:
    match part:
        case ToolCallPart():
            return {"type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
        case ToolReturnPart():
            return {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.content}
        case _:
            return {"type": "text", "text": part.content}


def read(part: str) -> str:
    """Return a part."""
    return output(part)


class Assistant(Application):
    def __init__(self, stored: dict[str, bytes] | None, ratio: float, options: Any) -> None:
        super().__init__({} if stored is None else stored, ratio)
        model = FunctionModel(self.answer, stream_function=self.stream)
        history = SessionHistory(BUDGET, counter=COUNTER, **options)
        self.agent = Agent(model, tools=[read], instructions="Be brief.", capabilities=[history])

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        newest = messages[-1].parts[-1]
        sent, cached = self.sent(plain(messages))
        action = reply(newest.tool_call_id if isinstance(newest, ToolReturnPart) else newest.content)
        usage = RequestUsage(input_tokens=sent, cache_read_tokens=cached)
        parts = [TextPart(action)] if isinstance(action, str) else [call(part) for part in action]
        return ModelResponse(parts, usage=usage)

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for at, part in enumerate(self.answer(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {at: DeltaToolCall("read", part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            else:
                yield part.content

    def plain(self, messages: list[ModelMessage]) -> list[Message]:
        return plain(messages)

    def messages(self, thread: str) -> list[ModelMessage]:
        return ModelMessagesTypeAdapter.validate_json(self.stored.get(thread, b"[]"))

    async def ask(self, thread: str, text: str, way: str) -> None:
        history = self.messages(thread)
        if way == "ainvoke":
            result = await self.agent.run(text, message_history=history)
        elif way == "invoke":
            result = await asyncio.to_thread(self.run_sync, text, history)
        else:
            async with self.agent.run_stream(text, message_history=history) as result:
                assert [part async for part in result.stream_text()]
        self.stored[thread] = result.all_messages_json()

    def run_sync(self, text: str, history: list[ModelMessage]) -> Any:
        """Run in a thread that has no loop yet, as a synchronous program's."""
        asyncio.set_event_loop(loop := asyncio.new_event_loop())
        try:
            return self.agent.run_sync(text, message_history=history)
        finally:
            loop.close()
            asyncio.set_event_loop(None)

    def history(self, thread: str) -> list[Message]:
        return plain(self.messages(thread))

    def states(self, thread: str) -> list[str]:
        return [m.metadata["cupel_session"] for m in self.messages(thread) if m.metadata]

    def overwrite_state(self, thread: str, state: str) -> None:
        spoilt = [replace(m, metadata=m.metadata and {"cupel_session": state}) for m in self.messages(thread)]
        self.stored[thread] = ModelMessagesTypeAdapter.dump_json(spoilt)

    def forget(self, thread: str, count: int) -> None:
        messages = self.messages(thread)
        del messages[: count - 1]  # results of calls at once are one message here
        self.stored[thread] = ModelMessagesTypeAdapter.dump_json(messages)


def retry_of(key: str, text: str) -> RetryPromptPart:
    with pytest.warns(Warning, match="deprecated"):  # as in histories that were stored before
        return RetryPromptPart(text, tool_name="read", tool_call_id=key)


def call(part: str) -> ToolCallPart:
    return ToolCallPart("read", {"part": part}, tool_call_id=part)


class TestSessionHistory(ConversationLaws):
    provider = "anthropic"
    ways = ("invoke", "ainvoke", "astream")

    def application(self, stored: Any = None, *, ratio: float = 1.0, **options: Any) -> Assistant:
        return Assistant(stored, ratio, options)


LAWS = TestSessionHistory()


def test_a_conversation_store_keeps_the_session_with_the_conversation():
    expected = LAWS.talk(LAWS.application(), "anna", range(5), "ainvoke").requests
    assistant, store = LAWS.application(), InMemoryConversationStore()

    async def ask() -> None:
        for turn in range(5):
            conversation = await store.load("anna") or Conversation(conversation_id="anna")
            result = await assistant.agent.run(f"ask {120 + turn} for anna", conversation=conversation)
            await store.save(result)
        record = await store.read_record("anna")
        assert record is not None
        assert record.branches == [], "nothing that was stored has been changed"

    asyncio.run(ask())
    assert assistant.requests == expected


def test_a_run_leaves_two_states_however_long_it_is():
    assistant = LAWS.talk(LAWS.application(), "anna", range(1), "ainvoke")
    assert len(assistant.requests) == 3
    assert len(assistant.states("anna")) == 2


@pytest.mark.parametrize("attempts", [1, 2])
def test_another_attempt_at_a_request_starts_from_the_same_state(attempts: int):
    class TryAgain(AbstractCapability[Any]):
        async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
            del ctx
            if request_context.attempt < attempts:
                raise RetryModelRequest
            return request_context

    assistant = LAWS.application()
    inner = assistant.agent
    options: Any = {"capabilities": [TryAgain()]}
    history: list[ModelMessage] = []
    for turn in range(4):
        result = asyncio.run(inner.run(f"ask {120 + turn} for anna", message_history=history, **options))
        history = result.all_messages()
    assert assistant.requests == LAWS.talk(LAWS.application(), "anna", range(4), "ainvoke").requests


@pytest.mark.parametrize(("minutes", "cold"), [(1, False), (10, True)])
def test_the_times_of_requests_say_whether_the_cache_is_cold(minutes: int, cold: bool):
    turns: list[Any] = []
    assistant = LAWS.talk(LAWS.application(on_turn=turns.append), "anna", range(2), "ainvoke")
    history = assistant.messages("anna")
    for message in history:
        message.timestamp -= timedelta(minutes=minutes)
    asyncio.run(assistant.agent.run("ask 122 for anna", message_history=history))
    assert (turns[-2].bill.read == 0) == cold
    assert turns[-1].bill.read > 0


class Answer(BaseModel):
    """The answer, as the application wants it: one sentence that names what was looked for, and where it was found."""

    text: str = Field(description="One sentence, without an introduction, in the language of the question.")


def test_instructions_and_the_tools_of_an_answer_are_counted():
    def tokens(**options: Any) -> int:
        turns: list[Any] = []
        model = FunctionModel(
            lambda _messages, info: answer if info.output_tools else ModelResponse([TextPart("Yes.")])
        )
        answer = ModelResponse([ToolCallPart("final_result", {"text": "Yes."})])
        history = SessionHistory(BUDGET, counter=COUNTER, on_turn=turns.append)
        asyncio.run(Agent(model, capabilities=[history], **options).run("Where is it?"))
        return turns[0].total_tokens

    assert tokens(instructions="Be brief. " * 9) >= tokens() + COUNTER.count("Be brief. " * 9) - 1  # which is rounded
    assert tokens(output_type=Answer) >= tokens() + COUNTER.count(
        f"{Answer.__doc__}{Answer.model_fields['text'].description}"
    )


def test_what_another_capability_made_of_the_request_is_what_is_fitted():
    class Mask(AbstractCapability[Any]):
        async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
            del ctx
            return replace(request_context, messages=[ModelRequest([UserPromptPart("My name is ***.")])])

    sent: list[ModelMessage] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        sent.extend(messages)
        return ModelResponse([TextPart("Hello.")])

    agent = Agent(FunctionModel(answer), capabilities=[Mask(), SessionHistory(BUDGET, counter=COUNTER)])
    asyncio.run(agent.run("My name is Anna."))
    assert [part.content for message in sent for part in message.parts] == ["My name is ***."]


def test_a_version_that_would_never_ask_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(AbstractCapability, "prepare_model_request")
    with pytest.raises(ConfigurationError, match="prepare_model_request: install a newer one"):
        SessionHistory(8000)


def test_the_callers_own_messages_stay_as_they_are():
    assistant = LAWS.talk(LAWS.application(), "anna", range(3), "ainvoke")
    history = assistant.messages("anna")
    before = ModelMessagesTypeAdapter.dump_json(history)
    asyncio.run(assistant.agent.run("ask 7 for anna", message_history=history))
    assert ModelMessagesTypeAdapter.dump_json(history) == before


def test_files_stay_where_their_text_is_shortened_and_retries_are_shortened_too():
    image = BinaryContent(b"image", media_type="image/png")
    call_parts = [ToolCallPart("read", {}, tool_call_id=key) for key in "ab"]
    returned = ToolReturnPart("read", [output("1"), image], tool_call_id="a")
    history = [
        ModelRequest([UserPromptPart("Look.")]),
        ModelResponse(call_parts),
        ModelRequest([returned, retry_of("b", output("2"))]),
    ]
    sent: list[ModelMessage] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        sent.extend(messages)
        return ModelResponse([TextPart("Fine.")])

    agent = Agent(FunctionModel(answer), capabilities=[SessionHistory(500, counter=COUNTER, image_tokens=10)])
    asyncio.run(agent.run(message_history=history))
    shorter, retry = sent[-1].parts
    assert len(shorter.content[0]) < len(output("1"))
    assert shorter.content[1] == image
    assert len(retry.content) < len(output("2"))
    assert history[-1].parts[0] is returned


def test_an_agent_fetches_back_what_its_request_left_out() -> None:
    steps = 0

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal steps
        assert sorted(tool.name for tool in info.function_tools) == ["look", "recall"]
        seen = "\n".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
        steps += 1
        if steps <= 12:
            return ModelResponse([ToolCallPart("look", {"part": steps - 1})])
        if found := re.search(r"key_0_17 = (\d+)", seen):
            return ModelResponse([TextPart(f"It is {found[1]}.")])
        listed = re.search(r"#(\w+) look 0[;\]]", seen)
        return ModelResponse([ToolCallPart("recall", {"id": listed[1]} if listed else {"text": "key_0_17"})])

    def look(part: int) -> str:
        """Return a part."""
        return "\n".join(f"key_{part}_{line} = {1000 * part + line}" for line in range(60))

    turns: list[Any] = []
    session = SessionHistory(2000, recall=True, on_turn=turns.append)
    found = Agent(FunctionModel(model), tools=[look], capabilities=[session]).run_sync("Read all parts.")
    assert found.output == "It is 17."
    recalled = found.all_messages()[-2].parts[0]
    assert isinstance(recalled, ToolReturnPart)
    assert (recalled.tool_name, "key_0_17 = 17" in str(recalled.content)) == ("recall", True)
    assert all(turn.total_tokens <= 2000 for turn in turns)
    assert SessionHistory(2000).get_toolset() is None
