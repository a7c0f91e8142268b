"""Chat histories as they come, good and bad, in the three providers' formats."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from hypothesis import strategies as st

from cupel.messages import to_items

Message = dict[str, Any]

TEXTS = (
    "ok",
    "Look at the log, please.",
    "日本語のテキスト",
    "🚀 done",
    "x" * 400,
    "def f():\n    return 1\n",
    "word " * 60,
)
TEXT = st.sampled_from(TEXTS)
MAYBE_EMPTY = st.sampled_from((*TEXTS, "", " ", "ends in a space "))
IDS = st.sampled_from([f"call_{n}" for n in range(6)])
"""Few ids, so that calls collide and results find calls they were not meant for."""


def png(width: int, height: int) -> str:
    """The beginning of a PNG of this size, in base64."""
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", width, height)
    return base64.b64encode(head + b"\x08\x02\x00\x00\x00").decode()


IMAGE = png(640, 480)


@st.composite
def calls_and_results(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """The ids of a turn's calls and of the results after it; usually they match."""
    if draw(st.integers(0, 3)):
        calls = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
        return calls, draw(st.permutations(calls))
    return draw(st.lists(IDS, min_size=0, max_size=3)), draw(st.lists(IDS, max_size=3))


# --- OpenAI chat completions -------------------------------------------------------------------------------
def _tool_call(call: str, arguments: str) -> Message:
    return {"id": call, "type": "function", "function": {"name": "search", "arguments": arguments}}


@st.composite
def openai_exchange(draw: st.DrawFn) -> list[Message]:
    calls, results = draw(calls_and_results())
    content = draw(st.sampled_from((None, "", "Let me see.")))
    messages: list[Message] = [{"role": "assistant", "content": content}]
    if calls:
        messages[0]["tool_calls"] = [_tool_call(call, draw(TEXT)) for call in calls]
    messages += [{"role": "tool", "tool_call_id": result, "content": draw(MAYBE_EMPTY)} for result in results]
    if draw(st.integers(0, 9)) == 0:
        messages.insert(draw(st.integers(0, len(messages))), {"role": "user", "content": "in between"})
    return messages


def _function_exchange(answered: bool) -> list[Message]:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    return [call, {"role": "function", "name": "f", "content": "1"}] if answered else [call]


@st.composite
def openai_user(draw: st.DrawFn) -> list[Message]:
    text = draw(MAYBE_EMPTY)
    if draw(st.booleans()):
        return [{"role": "user", "content": text}]
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}", "detail": "high"}}
    parts = [{"type": "text", "text": text}, image]
    return [{"role": "user", "content": draw(st.sampled_from((parts, parts[:1], parts[1:], [])))}]


OPENAI = st.lists(
    st.one_of(
        openai_user(),
        openai_exchange(),
        openai_exchange(),
        MAYBE_EMPTY.map(lambda text: [{"role": "assistant", "content": text}]),
        st.sampled_from(("system", "developer")).flatmap(
            lambda role: MAYBE_EMPTY.map(lambda text: [{"role": role, "content": text}])
        ),
        st.booleans().map(_function_exchange),
        st.just([{"role": "assistant", "content": None, "refusal": "No."}]),
        st.just([{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]),
        st.just([{"role": "assistant", "content": None, "audio": {"id": "audio_1"}}]),
        TEXT.map(lambda text: [{"role": "assistant", "content": text, "tool_calls": []}]),
        IDS.map(lambda call: [{"role": "tool", "tool_call_id": call, "content": "orphan"}]),
    ),
    max_size=9,
).map(lambda groups: [message for group in groups for message in group])


# --- OpenAI Responses --------------------------------------------------------------------------------------
def _reasoning(number: int) -> Message:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [{"type": "summary_text", "text": "Hm."}]}


ITEM_IDS = st.integers(0, 40).map(lambda number: f"item_{number}")
"""Enough that they mostly differ, few enough that they sometimes do not."""


def _output_message(text: str, key: str) -> Message:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": key, "role": "assistant", "status": "completed", "content": [part]}


def _refused(key: str) -> list[Message]:
    part = {"type": "refusal", "refusal": "No."}
    return [{"type": "message", "id": key, "role": "assistant", "status": "completed", "content": [part]}]


@st.composite
def responses_program(draw: st.DrawFn) -> list[Message]:
    """A program and the calls it made in one or two rounds; now and then its output, or a part of it, is missing."""
    name = draw(st.sampled_from(("p1", "p2")))
    caller = {"type": "program", "caller_id": name}
    items: list[Message] = [_reasoning(draw(st.integers(300, 399)))] if draw(st.booleans()) else []
    items.append({"type": "program", "id": draw(ITEM_IDS), "call_id": name, "code": draw(TEXT), "fingerprint": "f"})
    for calls in draw(st.lists(st.lists(IDS, min_size=1, max_size=2, unique=True), min_size=1, max_size=2)):
        items += [
            {"type": "function_call", "call_id": c, "name": "f", "arguments": "{}", "caller": caller} for c in calls
        ]
        items += [{"type": "function_call_output", "call_id": c, "output": draw(TEXT), "caller": caller} for c in calls]
    if draw(st.integers(0, 2)):
        key = draw(ITEM_IDS)
        items.append(
            {"type": "program_output", "id": key, "call_id": name, "result": draw(TEXT), "status": "completed"}
        )
    if draw(st.integers(0, 5)) == 0:
        items.pop(draw(st.integers(0, len(items) - 1)))
    return items


@st.composite
def responses_turn(draw: st.DrawFn) -> list[Message]:
    calls, results = draw(calls_and_results())
    items: list[Message] = []
    if draw(st.booleans()):
        items.append(_reasoning(draw(st.integers(0, 99))))
    if draw(st.integers(0, 2)) == 0:
        items.append(_output_message(draw(TEXT), draw(ITEM_IDS)))
    items += [{"type": "function_call", "call_id": c, "name": "search", "arguments": draw(TEXT)} for c in calls]
    if draw(st.integers(0, 4)) == 0:
        items.append(_reasoning(draw(st.integers(100, 199))))
    if draw(st.integers(0, 6)) == 0:
        items.append({"role": "user", "content": "in between"})
    return items + [{"type": "function_call_output", "call_id": r, "output": draw(MAYBE_EMPTY)} for r in results]


def _responses_message(role: str, text: str, parts: bool) -> list[Message]:
    if not parts:
        return [{"role": role, "content": text}]
    image = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"}
    return [{"type": "message", "role": role, "content": [{"type": "input_text", "text": text}, image]}]


RESPONSES = st.lists(
    st.one_of(
        st.builds(_responses_message, st.just("user"), MAYBE_EMPTY, st.booleans()),
        responses_turn(),
        responses_turn(),
        st.builds(lambda text, key: [_output_message(text, key)], MAYBE_EMPTY, ITEM_IDS),
        ITEM_IDS.map(_refused),
        responses_program(),
        MAYBE_EMPTY.map(lambda text: [{"role": "assistant", "content": text}]),
        st.builds(_responses_message, st.sampled_from(("system", "developer")), MAYBE_EMPTY, st.just(False)),
        st.integers(200, 299).map(lambda n: [_reasoning(n)]),
        ITEM_IDS.map(
            lambda key: [{"type": "web_search_call", "id": key, "status": "completed", "action": {"type": "search"}}]
        ),
        IDS.map(lambda c: [{"type": "custom_tool_call", "call_id": c, "name": "shell", "input": "ls"}]),
        IDS.map(lambda c: [{"type": "custom_tool_call_output", "call_id": c, "output": "a.txt"}]),
    ),
    max_size=9,
).map(lambda groups: [item for group in groups for item in group])


# --- Anthropic messages ------------------------------------------------------------------------------------
THINKING = {"type": "thinking", "thinking": "First, the log.", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "b3BhcXVl"}


def _anthropic_result(call: str, text: str, parts: bool) -> Message:
    return {
        "type": "tool_result",
        "tool_use_id": call,
        "content": [{"type": "text", "text": text}] if parts else text,
    }


@st.composite
def anthropic_exchange(draw: st.DrawFn) -> list[Message]:
    calls, results = draw(calls_and_results())
    opening = draw(st.sampled_from(([], [], [THINKING], [REDACTED], [{"type": "text", "text": "Let me see."}])))
    said = [*opening, *({"type": "tool_use", "id": c, "name": "search", "input": {"q": draw(TEXT)}} for c in calls)]
    answer = [_anthropic_result(r, draw(MAYBE_EMPTY), draw(st.booleans())) for r in results]
    extra = draw(st.sampled_from(("none", "none", "none", "after", "before", "split")))
    messages: list[Message] = [{"role": "assistant", "content": said}]
    if extra == "after":
        answer.append({"type": "text", "text": "And hurry."})
    elif extra == "before":
        answer.insert(0, {"type": "text", "text": "Here:"})
    if extra == "split":
        return messages + [{"role": "user", "content": [block]} for block in answer]
    return [*messages, {"role": "user", "content": answer}] if answer else messages


@st.composite
def anthropic_user(draw: st.DrawFn) -> list[Message]:
    text = draw(MAYBE_EMPTY)
    if draw(st.booleans()):
        return [{"role": "user", "content": text}]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
    cached = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    return [{"role": "user", "content": draw(st.sampled_from(([image, cached], [cached], [image], [])))}]


@st.composite
def anthropic_loop(draw: st.DrawFn) -> list[Message]:
    """Tool steps of which the first thinks, the others sometimes; sometimes there are words beside a result."""
    messages: list[Message] = []
    first = draw(st.sampled_from((0, 0, 20, 40)))
    for step in range(draw(st.integers(1, 4))):
        call = f"loop_{first + step}"
        thought = [THINKING] if step == 0 or draw(st.integers(0, 3)) == 0 else []
        use = {"type": "tool_use", "id": call, "name": "search", "input": {}}
        answer = [_anthropic_result(call, draw(TEXT), False)]
        if draw(st.integers(0, 5)) == 0:
            answer.append({"type": "text", "text": "Stop that."})
        messages += [{"role": "assistant", "content": [*thought, use]}, {"role": "user", "content": answer}]
    return messages


@st.composite
def anthropic_server_tool(draw: st.DrawFn) -> list[Message]:
    """A search by the provider: in one message, over a pause, without its result, or the result alone."""
    key = draw(st.sampled_from(("srv_1", "srv_2", "srv_3")))
    use = {"type": "server_tool_use", "id": key, "name": "web_search", "input": {"query": draw(TEXT)}}
    found = {"type": "web_search_tool_result", "tool_use_id": key, "content": []}
    text = {"type": "text", "text": draw(TEXT)}
    messages = draw(st.sampled_from(([[use, found, text]], [[use], [found, text]], [[text, use]], [[found, text]])))
    return [{"role": "assistant", "content": content} for content in messages]


@st.composite
def anthropic_code(draw: st.DrawFn) -> list[Message]:
    """Code by the model that calls tools, in one or two rounds; now and then it goes on, or is broken."""
    key = draw(st.sampled_from(("code_1", "code_2")))
    use = {"type": "server_tool_use", "id": key, "name": "code_execution", "input": {"code": draw(TEXT)}}
    said: list[Message] = [*([THINKING] if draw(st.booleans()) else []), use]
    messages: list[Message] = []
    for calls in draw(st.lists(st.lists(IDS, min_size=1, max_size=2, unique=True), min_size=1, max_size=2)):
        caller = {"type": "code_execution_20260120", "tool_id": key}
        said += [{"type": "tool_use", "id": c, "name": "search", "input": {}, "caller": caller} for c in calls]
        answer = [_anthropic_result(c, draw(TEXT), False) for c in calls]
        if draw(st.integers(0, 7)) == 0:
            answer.append({"type": "text", "text": "Hurry."})
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": answer}]
        said = []
    if draw(st.integers(0, 2)):
        output = {"type": "code_execution_result", "stdout": draw(TEXT), "stderr": "", "return_code": 0, "content": []}
        done = {"type": "code_execution_tool_result", "tool_use_id": key, "content": output}
        messages.append({"role": "assistant", "content": [done, {"type": "text", "text": "Done."}]})
    return messages


COMPACTION = {"type": "compaction"}
"""The provider's summary of everything before it."""

ANTHROPIC = st.lists(
    st.one_of(
        anthropic_user(),
        anthropic_user(),
        anthropic_exchange(),
        anthropic_exchange(),
        anthropic_loop(),
        anthropic_loop(),
        anthropic_server_tool(),
        anthropic_code(),
        MAYBE_EMPTY.map(lambda text: [{"role": "assistant", "content": text}]),
        TEXT.map(lambda text: [{"role": "assistant", "content": [THINKING, {"type": "text", "text": text}]}]),
        st.just([{"role": "assistant", "content": [THINKING]}]),
        MAYBE_EMPTY.map(lambda text: [{"role": "system", "content": text}]),
        TEXT.map(lambda text: [{"role": "assistant", "content": [{**COMPACTION, "content": text}]}]),
        IDS.map(lambda call: [{"role": "user", "content": [_anthropic_result(call, "orphan", False)]}]),
    ),
    max_size=10,
).map(lambda groups: without_leading_system([message for group in groups for message in group]))


def without_leading_system(messages: list[Message]) -> list[Message]:
    """Anthropic's messages without system prompts in front, which are an error."""
    start = next((at for at, message in enumerate(messages) if message["role"] != "system"), len(messages))
    return messages[start:]


def _own_objects(messages: list[Message]) -> list[Message]:
    """The same history with no object in it twice, so that tests can tell messages apart by identity."""
    return json.loads(json.dumps(messages))


def _sendable(provider: str, histories: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Histories of which something can be sent; others are refused."""
    return histories.map(_own_objects).filter(lambda messages: to_items(messages, provider=provider))


BY_PROVIDER: dict[str, Any] = {
    "anthropic": _sendable("anthropic", ANTHROPIC),
    "openai": _sendable("openai", OPENAI),
    "openai-responses": _sendable("openai-responses", RESPONSES),
}
