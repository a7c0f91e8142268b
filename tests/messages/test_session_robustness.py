"""Sessions with hostile usage, hostile states, broken items, and histories that hardly fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cupel import ConfigurationError
from cupel.messages import Bill, MessageSession, fit
from tests.messages.chat import COUNTER, OPTIONS, assistant, result, use, used, user, weigh
from tests.messages.provider_rules import violations
from tests.messages.simulated import Message
from tests.messages.test_window_rules import step, steps


@pytest.mark.parametrize("uncounted", [1500, 10_000])
def test_tokens_that_nobody_counted_are_an_overhead_and_not_a_ratio(uncounted: int) -> None:
    session = MessageSession[Message](100_000, **OPTIONS)
    history = [user("Hi")]
    session.observe({"prompt_tokens": session.fit(history).total_tokens + uncounted})
    history += [assistant("Hello!"), user("Look: " + "a word " * 45_000)]
    assert 75_000 < weigh(history) < 85_000
    assert session.fit(history).messages == history


def test_the_budget_is_kept_with_an_overhead_and_a_ratio() -> None:
    session = MessageSession[Message](6000, **OPTIONS)
    history = [user("Find the bug.")]
    for number in range(30):
        sent = session.fit(history).total_tokens
        counted = 1000 + round(1.3 * sent)
        assert counted <= 6000 or number < 2
        session.observe({"prompt_tokens": counted})
        history += step(number)


def test_a_cumulative_usage_does_not_stop_a_session() -> None:
    session = MessageSession[Message](3000, **OPTIONS)
    history = [user("Find the bug."), *steps(0, 6)]
    session.fit(history)
    session.observe({"prompt_tokens": 4_000_000})
    for number in range(6, 16):
        history += step(number)
        turn = session.fit(history)
        assert history[-1]["tool_call_id"] == turn.messages[-1]["tool_call_id"]
        session.observe({"prompt_tokens": turn.total_tokens})
    assert turn.total_tokens > 2000, "and is forgotten"


def test_words_beside_a_result_and_the_newest_result_stay_in_a_thinking_loop() -> None:
    def thinking(text: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": text, "signature": "s"}

    history: list[Message] = [
        user("Hello."),
        {"role": "system", "content": "Be brief."},
        assistant([thinking("Hm."), {"type": "text", "text": "Hello, how can I help?"}]),
        user("Which part is broken?"),
        assistant([thinking("Let me look."), use("a")]),
        user([used("a", "\n".join(f"line {number} of the log of part {number}" for number in range(200)))]),
        assistant([use("b")]),
        user([used("b"), {"type": "text", "text": "STOP: do not change anything."}]),
    ]
    session = MessageSession[Message](400, provider="anthropic", counter=COUNTER)
    before: list[Message] = []
    for end in (1, 4, 6, 8):
        turn = session.fit(history[:end])
        assert violations("anthropic", turn.messages, history[:end]) == []
        assert turn.messages != before
        before = turn.messages
    assert "STOP: do not change anything." in json.dumps(turn.messages)
    assert '"tool_use_id": "b"' in json.dumps(turn.messages)


@pytest.mark.parametrize("alternate", [False, True])
def test_a_cancelled_call_bars_only_itself(alternate: bool) -> None:
    history: list[Message] = [
        user("Look at both parts."),
        {"type": "function_call", "call_id": "1", "name": "read", "arguments": '{"path": "a"}'},
        {"type": "function_call", "call_id": "2", "name": "read", "arguments": '{"path": "b"}'},
        {"type": "function_call_output", "call_id": "1", "output": "fine"},
    ]
    options: dict[str, Any] = {"provider": "openai-responses", "counter": COUNTER, "alternate": alternate}
    turn = MessageSession[Message](1000, **options).fit(history)
    assert turn.messages == fit(history, 1000, **options).messages
    assert [message["call_id"] for message in turn.messages if "call_id" in message] == ["1", "1"]
    assert turn.notes == ("[cupel: 1 earlier step omitted here: read b]",)


def test_a_question_typed_while_a_tool_ran_stays() -> None:
    history: list[Message] = [
        user("Look at both parts."),
        {"type": "function_call", "call_id": "1", "name": "read", "arguments": '{"path": "a"}'},
        user("And hurry."),
        {"type": "function_call", "call_id": "2", "name": "read", "arguments": '{"path": "b"}'},
        {"type": "function_call_output", "call_id": "1", "output": "fine"},
    ]
    session = MessageSession[Message](1000, provider="openai-responses", counter=COUNTER)
    assert user("And hurry.") in session.fit(history).messages


CROWDED: dict[str, Any] = {"provider": "openai-responses", "counter": COUNTER, "forms": False}


def crowded() -> list[Message]:
    """A history of which 400 tokens hold no more than two of the three long messages of the user."""
    first, meanwhile, later = (user(words * 45) for words in ("Look closely. ", "And please hurry. ", "Mind the gap. "))
    call = {"type": "function_call", "call_id": "1", "name": "read", "arguments": '{"path": "a"}'}
    output = {"type": "function_call_output", "call_id": "1", "output": "fine"}
    return [first, call, meanwhile, output, assistant("Fine."), later, assistant("I see."), user("Go on.")]


def test_words_that_a_fit_keeps_are_not_lost_to_words_typed_while_a_tool_ran() -> None:
    history = crowded()
    session = MessageSession[Message](400, **CROWDED)
    session.fit(history[:1])
    sent = session.fit(history).messages
    assert history[5] in fit(history, 400, **CROWDED).messages
    assert history[5] in sent
    assert history[2] not in sent, "there is no room for both"


def test_new_messages_are_new_even_if_they_need_not_be_sent() -> None:
    history = crowded()
    session = MessageSession[Message](400, **CROWDED)
    session.fit(history[:1])
    turn = session.fit(history)
    assert history[6] in turn.messages
    sent = {at for at in turn.positions if at is not None}
    assert sent.isdisjoint(at for change in turn.changes for at in change.positions)


def test_new_messages_are_not_dropped_in_favour_of_old_ones() -> None:
    history = [user("The task. " * 180)]
    session = MessageSession[Message](1000, **OPTIONS)
    session.fit(history)
    history += [assistant("Which server?"), user("Never restart web-3."), assistant("I see."), user("Details: " * 170)]
    turn = session.fit(history)
    assert {"Never restart web-3.", history[-1]["content"]} <= {message["content"] for message in turn.messages}
    assert turn.bill.new > 0
    assert all(change.what != "recalled" for change in turn.changes)


def test_a_longer_history_never_gives_the_identical_request() -> None:
    history = [user("Find the bug."), *steps(0, 40)]
    session = MessageSession[Message](1200, **OPTIONS)
    before: list[Message] = []
    for end in range(1, len(history) + 1, 2):
        turn = session.fit(history[:end])
        assert turn.messages
        assert turn.messages != before
        before = turn.messages


def test_without_gaps_outputs_are_shortened_too() -> None:
    history = [user("Find the bug."), *steps(0, 3), *step(3, lines=900), *steps(4, 7)]
    turn = MessageSession[Message](3000, gaps=False, keep=0.5, **OPTIONS).fit(history)
    assert turn.total_tokens > 1500
    assert "c3" in json.dumps(turn.messages)


@pytest.mark.parametrize("form", ["9" * 5000, "-5", "1e3", "begun", "²"])
def test_a_state_with_a_hostile_form_is_no_more_than_a_request_that_does_not_match(form: str) -> None:
    history = [user("Find the bug."), *steps(0, 10)]
    session = MessageSession[Message](1000, **OPTIONS)
    session.fit(history)
    state = json.loads(session.to_json())
    state["last"] = [[key, form, tokens, *rest] for key, _, tokens, *rest in state["last"]]
    restored = MessageSession[Message].from_json(json.dumps(state), 1000, **OPTIONS)
    turn = restored.fit([*history, *step(10)])
    assert turn.total_tokens <= 1000
    assert violations("openai", turn.messages) == []


def test_a_bill_of_any_size_can_be_printed() -> None:
    assert "tokens sent" in str(Bill(sent=10**400, price=float("inf")))


@pytest.mark.parametrize("amount", ["1e400", "NaN", "-1", "1" + "0" * 400])
def test_a_state_with_impossible_amounts_is_refused(amount: str) -> None:
    with pytest.raises(ConfigurationError, match="to_json"):
        MessageSession.from_json(f'{{"version":2,"before":{{"price":{amount}}}}}', 1000)


def test_a_session_without_a_named_provider_goes_on_in_the_format_that_it_began_with() -> None:
    history = [user("Find the bug."), *steps(0, 12), assistant("Nothing."), user("Thanks.")]
    session = MessageSession[Message](600, counter=COUNTER)
    state = session.to_json()
    for end in range(1, len(history) + 1):
        restored = MessageSession[Message].from_json(state, 600, counter=COUNTER)
        one, other = session.fit(history[:end]), restored.fit(history[:end])
        assert one.messages == other.messages
        state = session.to_json()
        assert state == restored.to_json()
        assert end < 3 or one.provider == "openai"


def test_a_result_that_is_an_image_can_be_left_out_with_a_note() -> None:
    history: list[Message] = [user("Find the bug.")]
    for number in range(8):
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
        block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": [picture]}
        history += [assistant([use(f"t{number}")]), user([block])]
    session = MessageSession[Message](6000, provider="anthropic", counter=COUNTER)
    for end in range(1, len(history) + 1, 2):
        turn = session.fit(history[:end])
        assert violations("anthropic", turn.messages, history[:end]) == []
    assert "omitted here" in json.dumps(turn.messages)


def test_equal_results_are_told_apart() -> None:
    history = [user("Find the bug.")]
    for _ in range(20):
        history += [*step(0, lines=8)[:1], result("c0", "the same output\n" * 30)]
    turn = MessageSession[Message](900, **OPTIONS).fit(history)
    assert violations("openai", turn.messages, history) == []


def test_words_typed_while_a_tool_runs_stay_without_the_step_that_is_left_out() -> None:
    def call(key: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": key, "name": "read", "arguments": "{}"}

    def output(key: str, text: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": key, "output": text}

    typed = user("Never restart web-3.")
    history = [user("Go."), call("a"), typed, output("a", "x" * 4000)]
    for key in "bcd":
        history += [call(key), output(key, f"{key} " * 300)]
    history.append(user("And now?"))
    turn = MessageSession[Any](500, counter=COUNTER, forms=False, provider="openai-responses").fit(history)
    assert typed in turn.messages
    assert call("a") not in turn.messages


def test_a_step_that_grows_and_is_cut_has_a_bill_that_can_be_restored() -> None:
    caller = {"type": "program", "caller_id": "p"}
    history = [
        user("Go."),
        {"type": "program", "id": "prg_1", "call_id": "p", "code": "run()", "fingerprint": "f"},
        {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}", "caller": caller},
        {"type": "function_call_output", "call_id": "a", "output": "x = 1\n" * 530, "caller": caller},
    ]
    session = MessageSession[Any](900, counter=COUNTER, provider="openai-responses")
    assert session.fit(history).shortened == (), "all of it was sent"
    done = {"type": "program_output", "id": "po_1", "call_id": "p", "result": "y" * 400, "status": "completed"}
    turn = session.fit([*history, done])
    assert turn.shortened == (3,)
    assert min(turn.bill.read, turn.bill.rewritten, turn.bill.new) >= 0
    MessageSession[Any].from_json(session.to_json(), 900, counter=COUNTER, provider="openai-responses")
