"""Sessions in the OpenAI Agents SDK, against the real package."""

import asyncio
import copy
import json
import re
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool, set_tracing_disabled
from agents.run import CallModelData, ModelInputData
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses.response_usage import InputTokensDetails

from cupel import ConfigurationError, Prices
from cupel.integrations.openai_agents import SessionFilter
from tests.integrations.conversation_laws import BUDGET, COUNTER, Application, ConversationLaws, Message, output, reply
from tests.messages.provider_rules import violations

set_tracing_disabled(disabled=True)

STEPS = 4
"""More than the model takes for one question."""


def plain(items: list[Any]) -> list[Message]:
    """The items as chat-completions would have them: calls at once are one message."""
    found: list[Message] = []
    for item in items:
        match item.get("type", "message"):
            case "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                call = {"id": item["call_id"], "type": "function", "function": function}
                if not found or not found[-1].get("tool_calls"):
                    found.append({"role": "assistant", "content": None, "tool_calls": []})
                found[-1]["tool_calls"].append(call)
            case "function_call_output":
                found.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
            case _:
                content = item["content"]
                text = content if isinstance(content, str) else "".join(part["text"] for part in content)
                found.append({"role": item["role"], "content": text})
    return found


@function_tool
def read(part: str) -> str:
    """Return a part."""
    return output(part)


class Assistant(Application):
    """Keeps each thread's items itself, as `result.to_input_list()` returns them."""

    def __init__(self, stored: Any, ratio: float, options: Any) -> None:
        super().__init__({"states": {}, "threads": {}} if stored is None else stored, ratio)
        self.raw: list[list[Any]] = []
        self.filter = SessionFilter(BUDGET, counter=COUNTER, store=self.stored["states"], **options)

    def answer(self, call: ModelCall) -> ModelStep:
        self.raw.append(copy.deepcopy(call.input))
        sent, cached = self.sent(plain(call.input))
        newest = call.input[-1]
        action = reply(newest["call_id"] if newest.get("type") == "function_call_output" else newest["content"])
        calls = [] if isinstance(action, str) else action
        said = [function_call("read", {"part": part}, call_id=part) for part in calls]
        usage = Usage(input_tokens=sent, input_tokens_details=InputTokensDetails.model_construct(cached_tokens=cached))
        return ModelStep(said or [assistant_message(str(action), item_id=f"message {action}")], usage=usage)

    def plain(self, messages: list[Any]) -> list[Message]:
        return plain(messages)

    async def ask(self, thread: str, text: str, way: str) -> None:
        agent = Agent("a", instructions="Be brief.", tools=[read], model=ScriptedModel([self.answer_step()] * STEPS))
        items = [*copy.deepcopy(self.stored["threads"].get(thread, [])), {"role": "user", "content": text}]
        options: Any = {"hooks": self.filter, "run_config": RunConfig(call_model_input_filter=self.filter)}
        if way == "ainvoke":
            result: Any = await Runner.run(agent, items, **options)
        elif way == "invoke":
            result = await asyncio.to_thread(self.run_sync, agent, items, options)
        else:
            result = Runner.run_streamed(agent, items, **options)
            assert [event async for event in result.stream_events()]
        self.stored["threads"][thread] = json.loads(json.dumps(result.to_input_list()))

    def answer_step(self) -> ModelStep:
        return ModelStep.respond(self.answer)

    def run_sync(self, agent: Agent[Any], items: list[Any], options: Any) -> Any:
        """Run in a thread that has no loop yet, as a synchronous program's."""
        asyncio.set_event_loop(loop := asyncio.new_event_loop())
        try:
            return Runner.run_sync(agent, items, **options)
        finally:
            loop.close()
            asyncio.set_event_loop(None)

    def history(self, thread: str) -> list[Message]:
        return plain(self.stored["threads"][thread])

    def states(self, thread: str) -> list[str]:
        return list(self.stored["states"].values())

    def overwrite_state(self, thread: str, state: str) -> None:
        for key, text in self.stored["states"].items():
            self.stored["states"][key] = json.dumps({**json.loads(text), "state": state})

    def forget(self, thread: str, count: int) -> None:
        del self.stored["threads"][thread][:count]


class TestSessionFilter(ConversationLaws):
    shortens_questions = True
    ways = ("invoke", "ainvoke", "astream")

    def application(self, stored: Any = None, *, ratio: float = 1.0, **options: Any) -> Assistant:
        return Assistant(stored, ratio, options)


LAWS = TestSessionFilter()


def filtered(kept: SessionFilter, items: list[Any], agent: Agent[Any] | None = None) -> list[Any]:
    return asyncio.run(kept(data(items, agent))).input


def data(items: list[Any], agent: Agent[Any] | None = None) -> CallModelData[Any]:
    return CallModelData(ModelInputData(items, "Be brief."), agent or Agent("a"), None)


def turn(number: int) -> list[Any]:
    """A question, a call, its output and the answer, as items of the Responses API."""
    return [
        {"role": "user", "content": f"ask {number}"},
        {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"c{number}", "output": output(str(number))},
        {"type": "message", "role": "assistant", "content": f"Part {number} is fine."},
    ]


def test_every_request_is_one_that_the_responses_api_takes():
    assistant = LAWS.talk(LAWS.application(), "anna", range(9), "ainvoke")
    assert len(assistant.raw) == 21
    assert [violations("openai-responses", items) for items in assistant.raw] == [[]] * 21


def test_unchanged_items_are_the_same_objects():
    kept, items = SessionFilter(BUDGET, counter=COUNTER), [{"role": "user", "content": "Hello."}]
    assert filtered(kept, items) == items
    for number in range(6):
        items += turn(number)
    before = copy.deepcopy(items)
    sent = filtered(kept, [*items, {"role": "user", "content": "And now?"}])
    assert items == before
    unchanged = [item for item in sent if item in before]
    assert len(unchanged) >= len(sent) // 2
    assert all(any(item is one for one in items) for item in unchanged)


def test_a_session_of_the_sdk_keeps_everything_and_its_conversation_continues():
    turns: list[Any] = []

    async def talk() -> int:
        kept = SessionFilter(BUDGET, counter=COUNTER, prices=Prices.marked(), on_turn=turns.append)
        session = SQLiteSession("anna")
        for number in range(5):
            model = ScriptedModel(
                [[function_call("read", {"part": str(number)}, call_id=f"c{number}")], [assistant_message("Fine.")]]
            )
            agent = Agent("a", tools=[read], model=model)
            config = RunConfig(call_model_input_filter=kept)
            await Runner.run(agent, f"ask {number}", session=session, run_config=config)
        return len(await session.get_items())

    assert asyncio.run(talk()) == 20
    assert all(turn.bill.read > 0 for turn in turns[1:])
    assert len(turns[-1].messages) < 19


def test_a_handoff_continues_the_conversation_with_other_tools():
    turns: list[Any] = []
    kept = SessionFilter(BUDGET, counter=COUNTER, on_turn=turns.append)
    second = Agent("second", model=ScriptedModel([[assistant_message("Fine.")]]), tools=[read])
    leave = ModelStep([function_call("transfer_to_second", {}, call_id="h")])
    first = Agent("first", model=ScriptedModel([leave]), handoffs=[second])
    result = asyncio.run(Runner.run(first, "Hello.", run_config=RunConfig(call_model_input_filter=kept)))
    assert result.final_output == "Fine."
    assert [len(turn.messages) for turn in turns] == [1, 3]


def test_tools_handoffs_and_instructions_are_counted():
    turns: list[Any] = []
    kept = SessionFilter(BUDGET, counter=COUNTER, on_turn=turns.append)
    items = [{"role": "user", "content": "Hello."}]
    for agent in (Agent("a"), Agent("a", tools=[read]), Agent("a", tools=[read], handoffs=[Agent("b")])):
        filtered(kept, items, agent)
    none, tools, both = (turn.total_tokens for turn in turns)
    assert none > COUNTER.count("Be brief.Hello.")
    assert tools >= none + COUNTER.count(json.dumps(read.params_json_schema["properties"]))
    assert both >= tools + COUNTER.count("transfer_to_b")


def test_a_history_that_openai_keeps_is_refused_with_a_way_out():
    items = [{"type": "function_call_output", "call_id": "c1", "output": "42"}]
    with pytest.raises(ConfigurationError, match=r"'c1' without containing it.*previous_response_id.*session="):
        filtered(SessionFilter(BUDGET), items)


def test_usage_of_another_filter_or_of_no_request_changes_nothing():
    store: dict[str, str] = {}
    kept = SessionFilter(BUDGET, counter=COUNTER, store=store)
    response = ModelResponse([], Usage(input_tokens=50), None)

    async def run() -> None:
        await kept.on_llm_end(None, None, response)
        assert store == {}
        await kept(data([{"role": "user", "content": "Hello."}]))
        before = dict(store)
        await SessionFilter(BUDGET)(data([{"role": "user", "content": "Hello."}]))
        await kept.on_llm_end(None, None, response)
        assert store == before

    asyncio.run(run())


def test_a_summary_that_a_model_writes_fills_the_gaps():
    async def summarize(omitted: list[Any], previous: str | None) -> str:
        await asyncio.sleep(0)
        return f"a summary of {len(omitted)} items"

    kept = SessionFilter(BUDGET // 2, counter=COUNTER, note=summarize)
    items = [item for number in range(20) for item in turn(number)]
    sent = filtered(kept, [*items, {"role": "user", "content": "And now?"}])
    assert any("a summary of" in str(item) for item in sent)
    assert violations("openai-responses", sent) == []


def test_an_agent_fetches_back_what_its_request_left_out() -> None:
    @function_tool
    def look(part: int) -> str:
        """Return a part."""
        return "\n".join(f"key_{part}_{line} = {1000 * part + line}" for line in range(60))

    turns: list[Any] = []
    window = SessionFilter(2000, recall=True, on_turn=turns.append)
    steps: list[Any] = [[function_call("look", {"part": part}, call_id=f"c{part}")] for part in range(12)]
    steps += [
        [function_call("recall", {"text": "key_0_17"}, call_id="r1")],
        [function_call("recall", {"id": "the first"}, call_id="r2")],
        [assistant_message("Done.")],
    ]
    agent = Agent[Any]("reader", tools=[look, window.recall_tool], model=ScriptedModel(steps))
    config = RunConfig(call_model_input_filter=window)
    found = asyncio.run(Runner.run(agent, "Read all parts.", run_config=config, hooks=window, max_turns=20))
    answers = {item["call_id"]: item["output"] for item in found.to_input_list() if "output" in item}  # type: ignore[union-attr]
    assert re.match(r"\[#\w+, lines 15–20\]\n", answers["r1"])
    assert "key_0_17 = 17\n" in answers["r1"]
    assert answers["r2"].startswith("[nothing here has the id 'the first'. ")
    assert all(turn.total_tokens <= 2000 for turn in turns)
    assert any("#" in note for turn in turns for note in turn.notes)
    context: Any = None
    assert asyncio.run(SessionFilter(2000).recall_tool.on_invoke_tool(context, "{}")) == "[nothing was left out yet]"
