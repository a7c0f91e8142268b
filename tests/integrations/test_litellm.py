"""Sessions before the calls of LiteLLM, against the real package."""

import asyncio
import copy
import json
import os
from typing import Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # the package would fetch a list of prices
pytest.importorskip("litellm")

import litellm
from litellm import CustomLLM, ModelResponse, Router
from litellm.types.utils import CallTypes, PromptTokensDetailsWrapper, Usage

from cupel import ConfigurationError
from cupel.integrations.litellm import SessionCallback
from tests.integrations.conversation_laws import (
    BUDGET,
    COUNTER,
    Application,
    ConversationLaws,
    Message,
    output,
    reply,
    weigh,
)
from tests.messages.provider_rules import violations

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}]


class Model(CustomLLM):
    """A provider that answers by a function of the messages."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    async def acompletion(self, *args: Any, **kwargs: Any) -> ModelResponse:
        return self.answer(kwargs["messages"])

    def completion(self, *args: Any, **kwargs: Any) -> ModelResponse:
        return self.answer(kwargs["messages"])

    async def astreaming(self, *args: Any, **kwargs: Any) -> Any:
        self.answer(kwargs["messages"])
        yield {
            "text": "Fine.",
            "is_finished": True,
            "finish_reason": "stop",
            "index": 0,
            "tool_use": None,
            "usage": None,
        }


def use(callback: SessionCallback | None, answer: Any) -> None:
    """Let LiteLLM call the model `test/model`, and the callback before it."""
    litellm.logging_callback_manager._reset_all_callbacks()
    litellm.callbacks = [] if callback is None else [callback]
    litellm.custom_provider_map = [{"provider": "test", "custom_handler": Model(answer)}]


def response(message: Message, sent: int = 0, cached: int = 0) -> ModelResponse:
    details = PromptTokensDetailsWrapper(cached_tokens=cached)
    usage = Usage(prompt_tokens=sent, completion_tokens=1, total_tokens=sent + 1, prompt_tokens_details=details)
    return ModelResponse(choices=[{"message": message, "index": 0, "finish_reason": "stop"}], usage=usage)


def call(part: str) -> Message:
    return {"id": part, "type": "function", "function": {"name": "read", "arguments": json.dumps({"part": part})}}


class Assistant(Application):
    """A tool loop, and each thread's messages in the order in which they were said."""

    def __init__(self, stored: Any, ratio: float, options: Any) -> None:
        super().__init__({"states": {}, "threads": {}} if stored is None else stored, ratio)
        self.callback = SessionCallback(BUDGET, counter=COUNTER, store=self.stored["states"], **options)

    def answer(self, messages: list[Message]) -> ModelResponse:
        sent, cached = self.sent(copy.deepcopy(messages))
        newest = messages[-1]
        action = reply(newest.get("tool_call_id") or newest["content"])
        if isinstance(action, str):
            return response({"role": "assistant", "content": action}, sent, cached)
        return response({"role": "assistant", "content": None, "tool_calls": [*map(call, action)]}, sent, cached)

    def plain(self, messages: list[Any]) -> list[Message]:
        return messages

    async def ask(self, thread: str, text: str, way: str) -> None:
        messages = [*copy.deepcopy(self.stored["threads"].get(thread, [])), {"role": "user", "content": text}]
        while True:
            answer = (await self.complete(messages, way)).choices[0].message
            messages.append(answer.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
            if not answer.tool_calls:
                break
            for one in answer.tool_calls:
                part = json.loads(one.function.arguments)["part"]
                messages.append({"role": "tool", "tool_call_id": one.id, "content": output(part)})
        self.stored["threads"][thread] = messages

    async def complete(self, messages: list[Message], way: str) -> Any:
        use(self.callback, self.answer)
        if way == "ainvoke":
            return await litellm.acompletion(model="test/model", messages=messages, tools=TOOLS)
        return await asyncio.to_thread(self.callback.completion, model="test/model", messages=messages, tools=TOOLS)

    def history(self, thread: str) -> list[Message]:
        return self.stored["threads"][thread]

    def states(self, thread: str) -> list[str]:
        return list(self.stored["states"].values())

    def overwrite_state(self, thread: str, state: str) -> None:
        for key, text in self.stored["states"].items():
            self.stored["states"][key] = json.dumps({**json.loads(text), "state": state})

    def forget(self, thread: str, count: int) -> None:
        del self.stored["threads"][thread][:count]


class TestSessionCallback(ConversationLaws):
    shortens_questions = True
    ways = ("ainvoke", "invoke")

    def application(self, stored: Any = None, *, ratio: float = 1.0, **options: Any) -> Assistant:
        return Assistant(stored, ratio, options)


def history(turns: int) -> list[Message]:
    """A conversation that waits for an answer."""
    messages: list[Message] = [{"role": "system", "content": "Be brief."}]
    for number in range(turns):
        messages += [
            {"role": "user", "content": f"ask {number}"},
            {"role": "assistant", "content": None, "tool_calls": [call(f"{number}.1b")]},
            {"role": "tool", "tool_call_id": f"{number}.1b", "content": output(str(number))},
            {"role": "assistant", "content": "Fine."},
        ]
    return [*messages, {"role": "user", "content": "And now?"}]


@pytest.fixture
def sent() -> list[list[Message]]:
    """The requests that the model received."""
    return []


@pytest.fixture
def answer(sent: list[list[Message]]) -> Any:
    def fine(messages: list[Message]) -> ModelResponse:
        sent.append(copy.deepcopy(messages))
        return response({"role": "assistant", "content": "Fine."})

    return fine


def test_the_callers_list_stays_as_it_is_and_the_model_gets_a_valid_part(sent: Any, answer: Any):
    use(SessionCallback(BUDGET, counter=COUNTER), answer)
    messages = history(8)
    before = copy.deepcopy(messages)
    asyncio.run(litellm.acompletion(model="test/model", messages=messages))
    assert messages == before
    assert violations("openai", sent[0]) == []
    assert weigh(sent[0]) < weigh(messages)


def test_unchanged_messages_are_the_same_objects():
    messages = history(8)
    kwargs = {"messages": messages, "model": "test/model", "temperature": 0}
    changed = asyncio.run(
        SessionCallback(BUDGET, counter=COUNTER).async_pre_call_deployment_hook(kwargs, CallTypes.acompletion)
    )
    assert changed is not None
    assert kwargs["messages"] is messages
    kept = [message for message in changed["messages"] if message in messages]
    assert len(kept) > 4
    assert all(any(message is one for one in messages) for message in kept)
    assert changed["temperature"] == 0


def test_a_streamed_answer_is_fitted_too(sent: Any, answer: Any):
    use(SessionCallback(BUDGET, counter=COUNTER), answer)

    async def ask() -> str:
        stream: Any = await litellm.acompletion(model="test/model", messages=history(8), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(ask()) == "Fine."
    assert weigh(sent[0]) < weigh(history(8))


def test_a_router_that_tries_again_sends_the_same_request(sent: Any, answer: Any):
    def unlucky(messages: list[Message]) -> ModelResponse:
        made = answer(messages)
        if len(sent) == 1:
            raise litellm.exceptions.InternalServerError("try again", "test", "model")
        return made

    use(SessionCallback(BUDGET, counter=COUNTER), unlucky)
    router = Router([{"model_name": "m", "litellm_params": {"model": "test/model"}}], num_retries=1, retry_after=0)
    asyncio.run(router.acompletion(model="m", messages=history(8)))
    assert len(sent) == 2
    assert sent[0] == sent[1]


def test_sdk_messages_in_the_history_are_sent_as_dicts(sent: Any, answer: Any):
    use(SessionCallback(BUDGET, counter=COUNTER), answer)

    async def talk() -> None:
        messages: list[Any] = [{"role": "user", "content": "Hello."}]
        for _ in range(2):
            messages.append((await litellm.acompletion(model="test/model", messages=messages)).choices[0].message)
            messages.append({"role": "user", "content": "And?"})

    asyncio.run(talk())
    assert [message["role"] for message in sent[1]] == ["user", "assistant", "user"]


@pytest.mark.parametrize("kind", [CallTypes.aembedding, CallTypes.aresponses, None])
def test_other_calls_are_left_alone(kind: Any):
    callback = SessionCallback(BUDGET)
    assert asyncio.run(callback.async_pre_call_deployment_hook({"input": ["text"]}, kind)) is None


def test_messages_that_litellm_hides_from_callbacks_are_asked_for_by_name(answer: Any):
    use(SessionCallback(BUDGET), answer)
    with pytest.raises(ConfigurationError, match="messages must be passed by name"):
        asyncio.run(litellm.acompletion("test/model", history(1)))


def test_requests_without_an_answer_are_forgotten():
    callback = SessionCallback(BUDGET, counter=COUNTER)

    async def ask() -> None:
        for number in range(1100):
            kwargs = {"messages": [{"role": "user", "content": "Hello."}], "litellm_call_id": str(number)}
            await callback.async_pre_call_deployment_hook(kwargs, CallTypes.acompletion)

    asyncio.run(ask())
    assert len(callback._unanswered) == 1024


def test_a_synchronous_call_can_stream_too():
    stream = SessionCallback(BUDGET, counter=COUNTER).completion(
        model="gpt-4o", messages=history(8), stream=True, mock_response="Fine."
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Fine."
