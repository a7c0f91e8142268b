"""Histories as candidates beside other items, and the selection as a request."""

from datetime import UTC, datetime, timedelta

import pytest

from cupel import (
    ConfigurationError,
    ContextItem,
    GreedySlice,
    InvalidItemError,
    Pipeline,
    RecencyScorer,
    ReflexiveScorer,
    UShapedPlacer,
    presets,
)
from cupel.messages import fit, from_items, to_items
from cupel.tokens import CharacterEstimate

COUNTER = CharacterEstimate(4.0)
NOW = datetime(2026, 3, 12, 9, tzinfo=UTC)
RECENT = Pipeline(scorer=RecencyScorer(), slicer=GreedySlice())


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def chat(turns):
    return [message for n in range(turns) for message in (user(f"question {n}"), assistant(f"answer {n}"))][:-1]


def memories(count, year=2019):
    when = datetime(year, 1, 1, tzinfo=UTC)
    return [ContextItem(f"memory {n}", 10, kind="Memory", timestamp=when + timedelta(days=n)) for n in range(count)]


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pipeline", [RECENT, presets.chat(), Pipeline(scorer=ReflexiveScorer(), placer=UShapedPlacer())]
)
@pytest.mark.parametrize("select", ["run", "select", "dry_run"])
def test_a_history_without_times_beside_dated_items_is_an_error_that_names_the_way_out(pipeline, select):
    items = [*memories(3), *to_items(chat(3), COUNTER)]
    with pytest.raises(
        InvalidItemError,
        match=r"'user: question 0' is a message without a time, and 'memory 0' has .*"
        r"2019-01-01.*to_items\(messages, timestamps=\[\.\.\.\]\)",
    ):
        getattr(pipeline, select)(items, 500)


def test_the_error_does_not_depend_on_the_budget():
    items = [*memories(3), *to_items(chat(3), COUNTER)]
    with pytest.raises(InvalidItemError, match="without a time"):
        RECENT.prepare(items)


def test_a_history_alone_and_beside_undated_items_needs_no_times():
    history = chat(4)
    note = ContextItem("a note", 3, kind="Memory")
    items = to_items(history, COUNTER)
    assert RECENT.run(items, 10_000) == items
    assert RECENT.run([note, *items], 10_000) == [*items, note]
    newest = RECENT.run(items, sum(item.tokens for item in items[-3:]))
    assert newest == items[-3:]


def test_with_times_messages_and_memories_compete_by_age():
    history = chat(21)
    times = [NOW + timedelta(minutes=at) for at in range(len(history))]
    items = [*memories(40), *to_items(history, COUNTER, timestamps=times)]
    selected = RECENT.run(items, 300)
    kept = [item for item in selected if item.kind != "Memory"]
    assert (
        from_items(selected, history, context=lambda items: "\n".join(item.content for item in items))[-1]
        == history[-1]
    )
    assert len(kept) > 20
    assert selected[-1].content == "user: question 20"


def test_a_message_without_a_time_has_that_of_its_neighbour():
    history = [{"role": "system", "content": "Be brief."}, *chat(3)]
    later = NOW + timedelta(hours=1)
    items = to_items(history, COUNTER, timestamps=[None, NOW, None, None, later, None])
    assert [item.timestamp for item in items] == [NOW, NOW, NOW, NOW, later, later]


def test_a_step_has_the_time_of_its_last_message():
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    step = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "fine"},
    ]
    times = [NOW + timedelta(minutes=at) for at in range(3)]
    assert [item.timestamp for item in to_items([user("Go."), *step], COUNTER, timestamps=times)] == [
        times[0],
        times[2],
    ]


@pytest.mark.parametrize(
    ("timestamps", "error", "message"),
    [
        ([NOW], ConfigurationError, "timestamps must hold one time for each of the 3 messages, got 1"),
        ([None, None, None], ConfigurationError, "timestamps must hold at least one time, got None for every message"),
        ([NOW, "today", None], TypeError, r"timestamps\[1\] must be an aware datetime, got str: 'today'"),
        ([NOW, None, NOW.replace(tzinfo=None)], InvalidItemError, r"timestamps\[2\] must carry a time zone"),
        (7, TypeError, "timestamps must be a list of datetimes, one for each message, got int: 7"),
    ],
)
def test_times_that_are_wrong_are_named(timestamps, error, message):
    with pytest.raises(error, match=message):
        to_items(chat(2), COUNTER, timestamps=timestamps)


def test_the_mark_is_not_on_the_items_of_fit():
    report = fit(chat(3), 10_000, counter=COUNTER).report
    assert all("cupel:untimed" not in entry.item.metadata for entry in report.included)


def test_the_mark_survives_a_document():
    items = [ContextItem.from_dict(item.to_dict()) for item in to_items(chat(3), COUNTER)]
    with pytest.raises(InvalidItemError, match="without a time"):
        RECENT.run([*items, *memories(1)], 100)


# --- a selection as a request -----------------------------------------------------------------------------------------

DOCUMENT = ContextItem("A document.", 5, kind="Document")


def told(items):
    return "\n".join(item.content for item in items)


def test_other_items_go_right_before_the_newest_message_of_the_user():
    history = chat(2)
    sent = from_items([*to_items(history, COUNTER), DOCUMENT], history, context=told)
    assert sent == [*history[:-1], user("A document."), history[-1]]


def test_other_items_go_before_the_question_of_a_running_loop():
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    history = [
        user("Go."),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "fine"},
    ]
    assert from_items([DOCUMENT, *to_items(history, COUNTER)], history, context=told) == [user("A document."), *history]


def test_without_a_question_the_text_is_the_last_message():
    assert from_items([DOCUMENT], [], provider="openai", context=told) == [user("A document.")]
    assert from_items([DOCUMENT], [], provider="gemini", context=told) == [
        {"role": "user", "parts": [{"text": "A document."}]}
    ]


def test_providers_that_refuse_neighbours_of_one_role_get_one_message():
    history = [{"role": "user", "content": [{"text": "Hello?"}]}]
    sent = from_items(
        [DOCUMENT, *to_items(history, COUNTER, provider="bedrock")], history, provider="bedrock", context=told
    )
    assert sent == [{"role": "user", "content": [{"text": "A document."}, {"text": "Hello?"}]}]
    sent = from_items([DOCUMENT, *to_items(chat(1), COUNTER)], chat(1), alternate=True, context=told)
    assert sent == [user("A document.\n\nquestion 0")]


STEPS = {
    "openai": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "fine"},
    ],
    "openai-responses": [
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "fine"},
    ],
    "anthropic": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "fine"}]},
    ],
    "bedrock": [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "fine"}]}}]},
    ],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "fine"}}}]},
    ],
}


def question(provider, text):
    if provider == "bedrock":
        return {"role": "user", "content": [{"text": text}]}
    return {"role": "user", "parts": [{"text": text}]} if provider == "gemini" else user(text)


def answer(provider, text):
    if provider == "bedrock":
        return {"role": "assistant", "content": [{"text": text}]}
    return {"role": "model", "parts": [{"text": text}]} if provider == "gemini" else assistant(text)


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("provider", STEPS)
def test_the_request_is_one_that_the_provider_accepts(provider, is_running):
    step = STEPS[provider]
    history = [question(provider, "Hello?"), answer(provider, "Hello!"), question(provider, "Go."), *step]
    if not is_running:
        history += [answer(provider, "It is fine."), question(provider, "Sure?")]
    items = to_items(history, COUNTER, provider=provider)
    sent = from_items([DOCUMENT, *items], history, provider=provider, context=told)
    fitted = fit(sent, 100_000, counter=COUNTER, provider=provider, tools=[{"name": "look"}])
    assert (fitted.messages, list(fitted.dropped)) == (sent, [])
    newest = "Go." if is_running else "Sure?"
    said = [str(message) for message in sent]
    assert max(at for at, text in enumerate(said) if "A document." in text) <= said.index(
        next(text for text in said if newest in text)
    )


def test_no_text_adds_no_message():
    history = chat(2)
    assert from_items([*to_items(history, COUNTER), DOCUMENT], history, context=lambda items: "") == history


def test_other_items_without_context_are_refused():
    with pytest.raises(
        InvalidItemError, match=r"items must come from to_items\(messages\).*pass context= to send others"
    ):
        from_items([DOCUMENT], chat(1))


def test_a_system_prompt_is_no_message_of_the_user():
    system = ContextItem("Be brief.", 3, kind="SystemPrompt", pinned=True)
    with pytest.raises(InvalidItemError, match=r"'Be brief\.' is a system prompt that is not of messages"):
        from_items([system], chat(1), context=told)


def test_a_context_that_is_no_text_is_named():
    with pytest.raises(TypeError, match="the result of context must be a string, got list"):
        from_items([DOCUMENT], chat(1), context=list)
