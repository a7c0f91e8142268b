"""The real SDKs as clients: all that works without the proxy works through it, looking and governing."""

import asyncio
import json

import pytest

from tests.messages.provider_rules import violations
from tests.watch.agent import FIELD, history
from tests.watch.provider import ARGUMENTS, Provider
from tests.watch.upstream import proxied, running

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

KEY = "sk-live-SECRET"
TOOL = {"name": "read", "description": "Read a file", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}
FLAT = {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}, "strict": False}


@pytest.fixture(params=[None, 3000], ids=["looking", "governing"])
def watched(request, tmp_path):
    provider = Provider()
    with (
        running(provider) as upstream,
        proxied(upstream.url, budget=request.param, folder=tmp_path / "windows") as proxy,
    ):
        yield provider, upstream, proxy
    written = b"".join(path.read_bytes() for path in (tmp_path / "windows").glob("*"))
    assert KEY.encode() not in written


def chat(url, messages, **more):
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=3) as client:
        return _chat(client, messages, **more)


def _chat(client, messages, **more):
    if not more.get("stream"):
        message = client.chat.completions.create(model="m", messages=messages, **more).choices[0].message
        calls = [call.function.arguments for call in message.tool_calls or ()]
        return message.content, calls
    text, arguments = "", ""
    for chunk in client.chat.completions.create(model="m", messages=messages, **more):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            arguments += "".join(call.function.arguments or "" for call in choice.delta.tool_calls or ())
    return text or None, [arguments] if arguments else []


def responses(url, messages, *, stream=False, **more):
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=3) as client:
        if stream:
            with client.responses.stream(model="m", input=messages, **more) as events:
                response = events.get_final_response()
        else:
            response = client.responses.create(model="m", input=messages, **more)
    return response.output_text or None, [item.arguments for item in response.output if item.type == "function_call"]


def claude(url, messages, *, stream=False, **more):
    options = {"model": "m", "max_tokens": 100, "messages": messages, **more}
    with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=3) as client:
        if stream:
            with client.messages.stream(**options) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**options)
    texts = [block.text for block in message.content if block.type == "text"]
    return "".join(texts) or None, [json.dumps(block.input) for block in message.content if block.type == "tool_use"]


CLIENTS = [("openai", chat, FUNCTION), ("openai-responses", responses, FLAT), ("anthropic", claude, TOOL)]


@pytest.mark.parametrize(("name", "ask", "tool"), CLIENTS)
@pytest.mark.parametrize("stream", [False, True])
def test_texts_and_tool_calls(watched, name, ask, tool, stream):
    _, _, proxy = watched
    question = [{"role": "user", "content": "Hello"}]
    assert ask(proxy.url, question, stream=stream) == ("Hello there.", [])
    assert ask(proxy.url, [{"role": "user", "content": "Read it"}], stream=stream, tools=[tool]) == (None, [ARGUMENTS])
    one, two = proxy.turns(2)
    assert [turn.status for turn in (one, two)] == [200, 200]
    assert one.notes == two.notes == []
    if not (name == "openai" and stream):  # without stream_options there is no usage
        assert one.bill.settled


@pytest.mark.parametrize(("name", "ask", "tool"), CLIENTS)
@pytest.mark.parametrize("stream", [False, True])
def test_busy_providers_are_tried_again(watched, name, ask, tool, stream):
    provider, upstream, proxy = watched
    provider.failures = [429, 500, 529]
    assert ask(proxy.url, history(name, 14), stream=stream, tools=[tool]) == ("Hello there.", [])
    assert len({request.body for request in upstream.received}) == 1
    assert [turn.status for turn in proxy.turns(4)] == [429, 500, 529, 200]


@pytest.mark.parametrize(("name", "ask", "tool"), CLIENTS)
def test_a_long_conversation_is_valid_on_every_turn(watched, name, ask, tool):
    _, upstream, proxy = watched
    for steps in range(14):
        ask(proxy.url, history(name, steps), stream=steps % 2 == 0, tools=[tool])
    proxy.turns(14)
    assert len(proxy.branches) == 1
    for number, request in enumerate(upstream.received):
        assert violations(name, request.json[FIELD[name]], history(name, number)) == []


def test_a_conversation_goes_on_with_the_sdks_own_objects(watched):
    _, _, proxy = watched
    messages = [{"role": "user", "content": "Read it"}]
    for _ in range(3):
        with anthropic.Anthropic(base_url=proxy.url, api_key=KEY) as client:
            answer = client.messages.create(model="m", max_tokens=9, messages=messages, tools=[TOOL])
        messages.append({"role": "assistant", "content": answer.content})
        used = [block for block in answer.content if block.type == "tool_use"]
        result = [{"type": "tool_result", "tool_use_id": block.id, "content": "x = 1"} for block in used]
        messages.append({"role": "user", "content": result or "And now?"})
    assert len(proxy.turns(3)) == 3
    assert len(proxy.branches) == 1


def test_tokens_are_counted_for_what_is_sent(watched):
    _, _, proxy = watched
    with anthropic.Anthropic(base_url=proxy.url, api_key=KEY) as client:
        counted = client.messages.count_tokens(model="m", messages=history("anthropic", 14)).input_tokens
    assert (counted < 6000) == (proxy.store.budget is not None)


def test_many_asynchronous_calls_at_once(watched):
    _, _, proxy = watched

    async def ask(client, number):
        messages = [{"role": "user", "content": f"question {number}"}]
        async with client.messages.stream(model="m", max_tokens=9, messages=messages) as events:
            return (await events.get_final_message()).content[0].text

    async def ask_all():
        async with anthropic.AsyncAnthropic(base_url=proxy.url, api_key=KEY) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(40)))

    assert asyncio.run(ask_all()) == ["Hello there."] * 40
    assert len(proxy.turns(40)) == len(proxy.branches) == 40


def test_other_calls_pass(watched):
    _, upstream, proxy = watched
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=KEY) as client:
        assert client.models.list().data == []
    assert upstream.received[0].header("authorization") == f"Bearer {KEY}"
