"""Sessions in Google ADK's runners, against the real package."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import (
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateContentResponseUsageMetadata,
    Part,
)

from cupel import Prices
from cupel.integrations.google_adk import SessionPlugin
from tests.integrations.conversation_laws import BUDGET, COUNTER, Application, ConversationLaws, Message, output, reply

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")

APP, USER = "demo", "anna"


def gemini_violations(contents: list[Content]) -> list[str]:
    """What `generateContent` would object to, written down from its public rules and error messages."""
    found = ["the first content is not the user's"] if contents[0].role != "user" else []
    if contents[-1].role != "user":
        found.append("the last content is not the user's")
    waiting: list[str] = []
    for at, content in enumerate(contents):
        parts = content.parts or []
        calls = [part.function_call.name for part in parts if part.function_call]
        answers = [part.function_response.name for part in parts if part.function_response]
        if not parts or any(part == Part() for part in parts):
            found.append(f"{at}: an empty content or part")
        if calls and (content.role != "model" or (at and contents[at - 1].role != "user")):
            found.append(f"{at}: a call does not follow the user or an answer")
        if answers != waiting:
            found.append(f"{at}: {answers} do not answer {waiting}")
        waiting = calls
    return [*found, f"end: {waiting} are never answered"] if waiting else found


def plain(contents: list[Content]) -> list[Message]:
    """The contents as Anthropic would have them; a call is known by its argument."""
    parts_of_calls = [part.function_call.args["part"] for c in contents for part in c.parts if part.function_call]
    answered = iter(parts_of_calls)
    return [
        {
            "role": "assistant" if content.role == "model" else "user",
            "content": [block(part, answered) for part in content.parts or ()],
        }
        for content in contents
    ]


def block(part: Part, answered: Any) -> Message:
    if part.function_call:
        key = part.function_call.args["part"]
        return {"type": "tool_use", "id": key, "name": "read", "input": {"part": key}}
    if part.function_response:
        return {
            "type": "tool_result",
            "tool_use_id": next(answered),
            "content": "\n".join(part.function_response.response.values()),  # a note is a key before the result
        }
    return {"type": "text", "text": part.text}


def read(part: str) -> str:
    """Return a part."""
    return output(part)


class Model(BaseLlm):
    """A model that answers by a function of the request."""

    model: str = "test"
    answer: Any = None

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        response = self.answer(llm_request)
        if stream:
            yield LlmResponse(content=Content(role="model", parts=[Part(text="…")]), partial=True)
        yield response


def response(parts: list[Part], sent: int = 0, cached: int = 0) -> LlmResponse:
    usage = GenerateContentResponseUsageMetadata(prompt_token_count=sent, cached_content_token_count=cached)
    return LlmResponse(content=Content(role="model", parts=parts), usage_metadata=usage)


def said(text: str) -> Content:
    return Content(role="user", parts=[Part(text=text)])


class Assistant(Application):
    def __init__(self, stored: Any, ratio: float, options: Any) -> None:
        super().__init__(InMemorySessionService() if stored is None else stored, ratio)
        self.raw: list[list[Content]] = []
        plugin = SessionPlugin(BUDGET, counter=COUNTER, **{"prices": Prices.marked(), **options})
        agent = LlmAgent(name="reader", model=Model(answer=self.answer), tools=[read], instruction="Be brief.")
        self.runner = Runner(
            app=App(name=APP, root_agent=agent, plugins=[plugin]), session_service=self.stored, auto_create_session=True
        )

    def answer(self, request: LlmRequest) -> LlmResponse:
        self.raw.append(list(request.contents))
        view = plain(request.contents)
        sent, cached = self.sent(view)
        newest = view[-1]["content"][-1]
        action = reply(newest["tool_use_id"] if newest["type"] == "tool_result" else newest["text"])
        if isinstance(action, str):
            return response([Part(text=action)], sent, cached)
        calls = [Part(function_call=FunctionCall(name="read", args={"part": part})) for part in action]
        return response(calls, sent, cached)

    def plain(self, messages: list[Content]) -> list[Message]:
        return plain(messages)

    async def ask(self, thread: str, text: str, way: str) -> None:
        options: Any = {"user_id": USER, "session_id": thread, "new_message": said(text)}
        if way == "astream":
            options["run_config"] = RunConfig(streaming_mode=StreamingMode.SSE)
        try:
            if way == "invoke":
                await asyncio.to_thread(lambda: list(self.runner.run(**options)))
            else:
                assert [event async for event in self.runner.run_async(**options)]
        except RuntimeError as error:  # the runner names the plugin
            raise (error.__cause__ or error) from None

    def session(self, thread: str) -> Any:
        return self.stored.sessions[APP][USER][thread]

    def history(self, thread: str) -> list[Message]:
        return plain([event.content for event in self.session(thread).events if event.content])

    def states(self, thread: str) -> list[str]:
        return list(self.session(thread).state.values())

    def overwrite_state(self, thread: str, state: str) -> None:
        self.session(thread).state["cupel_session:reader"] = state

    def forget(self, thread: str, count: int) -> None:
        del self.session(thread).events[: count - 1]  # results of calls at once are one event here


class TestSessionPlugin(ConversationLaws):
    provider = "anthropic"
    ways = ("ainvoke", "invoke", "astream")
    shortens_questions = True

    def application(self, stored: Any = None, *, ratio: float = 1.0, **options: Any) -> Assistant:
        return Assistant(stored, ratio, options)


LAWS = TestSessionPlugin()


def test_every_request_is_one_that_gemini_takes():
    assistant = LAWS.talk(LAWS.application(), "anna", range(9))
    assert [gemini_violations(contents) for contents in assistant.raw] == [[]] * 21


def test_a_session_service_with_a_file_keeps_the_state_for_another_process(tmp_path: Path):
    turns: list[Any] = []
    for turn in range(4):
        service = SqliteSessionService(str(tmp_path / "sessions.db"))
        LAWS.talk(LAWS.application(service, on_turn=turns.append), "anna", range(turn, turn + 1))
    assert all(turn.bill.read > 0 for turn in turns[1:])
    assert max(turn.total_tokens for turn in turns) <= BUDGET


def run(plugin: SessionPlugin, request: LlmRequest) -> LlmRequest:
    """Let a runner with this plugin make a request whose contents are replaced by those given."""
    sent: list[LlmRequest] = []

    def answer(made: LlmRequest) -> LlmResponse:
        sent.append(made)
        return response([Part(text="Fine.")])

    class Replace(SessionPlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
            llm_request.contents = request.contents
            llm_request.previous_interaction_id = request.previous_interaction_id
            await plugin.before_model_callback(callback_context=callback_context, llm_request=llm_request)

    agent = LlmAgent(name="reader", model=Model(answer=answer))
    app = App(name=APP, root_agent=agent, plugins=[Replace(BUDGET)])

    async def main() -> None:
        runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
        async for _ in runner.run_async(user_id=USER, session_id="1", new_message=said("Hello.")):
            pass

    asyncio.run(main())
    return sent[0]


def turn(number: int, response: dict[str, Any] | None = None) -> list[Content]:
    """A question, two calls at once with a signature, their answers, and what the model says of them."""
    calls = [Part(function_call=FunctionCall(name="read", args={"part": f"{number}{side}"})) for side in "ab"]
    calls[0].thought_signature = b"\x00\xff signature"
    answer = FunctionResponse(name="read", response=response or {"result": output(str(number))})
    return [
        said(f"ask {number}"),
        Content(role="model", parts=calls),
        Content(role="user", parts=[Part(function_response=answer), Part(function_response=answer)]),
        Content(role="model", parts=[Part(text=f"Part {number} is fine.")]),
    ]


def test_unchanged_contents_are_the_same_objects_and_signatures_stay():
    contents = [*[content for number in range(8) for content in turn(number)], said("And now?")]
    before = [content.model_copy(deep=True) for content in contents]
    sent = run(SessionPlugin(BUDGET, counter=COUNTER), LlmRequest(contents=contents)).contents
    assert contents == before
    assert gemini_violations(sent) == []
    unchanged = [content for content in sent if content in before]
    assert len(unchanged) > len(sent) // 2
    assert all(any(content is one for one in contents) for content in unchanged)
    calls = [content for content in sent if content.parts[0].function_call]
    assert calls
    assert all(content.parts[0].thought_signature == b"\x00\xff signature" for content in calls)


def test_answers_that_are_objects_are_shortened_too():
    rows = {"rows": [{"name": f"row {number}", "size": number} for number in range(100)], "ok": True}
    contents = [*[content for number in range(4) for content in turn(number, rows)], said("And now?")]
    sent = run(SessionPlugin(BUDGET, counter=COUNTER), LlmRequest(contents=contents)).contents
    answers = [part.function_response for content in sent for part in content.parts if part.function_response]
    shorter = [answer.response for answer in answers if answer.response != rows]
    assert shorter
    assert all({*one} <= {"cupel", "output"} and "row" in one["output"] for one in shorter)


def test_images_code_and_empty_texts_are_read_and_sent_as_they_are():
    parts = [Part(text="", thought_signature=b"s"), Part(inline_data=Blob(data=b"\x00", mime_type="image/png"))]
    contents = [said("Hello."), Content(role="model", parts=parts), said("And?")]
    plugin = SessionPlugin(BUDGET, counter=COUNTER, image_tokens=10)
    assert all(
        one is other for one, other in zip(run(plugin, LlmRequest(contents=contents)).contents, contents, strict=True)
    )


def test_a_request_whose_history_the_provider_keeps_is_left_alone():
    request = LlmRequest(contents=turn(1)[2:3], previous_interaction_id="i1")
    assert run(SessionPlugin(BUDGET), request).contents == request.contents


def test_agents_of_one_conversation_have_sessions_of_their_own():
    def transfer(request: LlmRequest) -> LlmResponse:
        return response([Part(function_call=FunctionCall(name="transfer_to_agent", args={"agent_name": "second"}))])

    second = LlmAgent(name="second", model=Model(answer=lambda _: response([Part(text="Fine.")])))
    first = LlmAgent(name="first", model=Model(answer=transfer), sub_agents=[second])
    app = App(name=APP, root_agent=first, plugins=[SessionPlugin(BUDGET, counter=COUNTER)])
    service = InMemorySessionService()

    async def main() -> Any:
        runner = Runner(app=app, session_service=service, auto_create_session=True)
        async for _ in runner.run_async(user_id=USER, session_id="1", new_message=said("Hello.")):
            pass
        return await service.get_session(app_name=APP, user_id=USER, session_id="1")

    assert sorted(asyncio.run(main()).state) == ["cupel_session:first", "cupel_session:second"]


def test_the_usage_of_an_answer_that_stored_another_state_is_not_taken():
    from cupel.integrations.google_adk import _usage

    usage = GenerateContentResponseUsageMetadata(prompt_token_count=50)
    events = [Event(author="a", actions=EventActions(state_delta={"key": "old"}), usage_metadata=usage)]
    assert _usage(events, "key", "old") == usage
    assert _usage(events, "key", "new") is None
    assert _usage(events, "other", "old") is None


def test_an_agent_fetches_back_what_its_request_left_out() -> None:
    requests: list[LlmRequest] = []

    class Forgetful(BaseLlm):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
            requests.append(llm_request)
            seen = str([content.model_dump(exclude_none=True) for content in llm_request.contents])
            found, listed = re.search(r"key_0_17 = (\d+)", seen), re.search(r"#(\w+) look 0[;\]]", seen)
            part = Part(function_call=FunctionCall(name="look", args={"part": len(requests) - 1}))
            if len(requests) > 12 and found:
                part = Part(text=f"It is {found[1]}.")
            elif len(requests) > 12:
                arguments = {"id": listed[1]} if listed else {"text": "key_0_17"}
                part = Part(function_call=FunctionCall(name="recall", args=arguments))
            yield LlmResponse(content=Content(role="model", parts=[part]))

    def look(part: int) -> str:
        """Return a part."""
        return "\n".join(f"key_{part}_{line} = {1000 * part + line}" for line in range(60))

    async def run() -> list[Event]:
        agent = LlmAgent(name="helper", model=Forgetful(model="test"), tools=[look])
        plugin = SessionPlugin(2500, recall=True, on_turn=turns.append)
        runner = Runner(
            app=App(name=APP, root_agent=agent, plugins=[plugin]),
            session_service=InMemorySessionService(),
            auto_create_session=True,
        )
        message = Content(role="user", parts=[Part(text="Read all parts.")])
        return [event async for event in runner.run_async(user_id=USER, session_id="1", new_message=message)]

    turns: list[Any] = []
    *_, recalled, last = asyncio.run(run())
    assert all(sorted(request.tools_dict) == ["look", "recall"] for request in requests)
    assert last.content.parts[0].text == "It is 17."  # type: ignore[union-attr, index]
    response = recalled.content.parts[0].function_response  # type: ignore[union-attr, index]
    assert response is not None
    assert (response.name, "key_0_17 = 17" in str(response.response)) == ("recall", True)
    assert all(turn.total_tokens <= 2500 for turn in turns)
