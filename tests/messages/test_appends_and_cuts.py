"""Requests that append to the last one, requests that are cut, and sessions that another process goes on with."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cupel import (
    ContextItem,
    OverflowStrategy,
    Pipeline,
    RecencyScorer,
    ReuseScorer,
)
from cupel.errors import ConfigurationError
from cupel.messages import Framework, MessageSession, Prices, fit
from cupel.slicers import CountQuotaEntry, CountQuotaSlice, GreedySlice
from tests.messages.chat import COUNTER, OPTIONS, assistant, use, used, user, weigh
from tests.messages.generators import bedrock, gemini
from tests.messages.generators.chance import Chance
from tests.messages.provider_rules import is_models, violations
from tests.messages.request_checks import TOOLS
from tests.messages.simulated import Message, conversation, requests
from tests.messages.validators.bound import BoundThinking


def as_anthropic(messages: list[Message]) -> list[Message]:
    found: list[Message] = []
    for message in messages[1:]:
        if message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            found.append({"role": "user", "content": [block]})
        elif calls := message.get("tool_calls"):
            call = calls[0]
            use = {"type": "tool_use", "id": call["id"], "name": "read_file", "input": {"of": call["function"]}}
            found.append({"role": "assistant", "content": [use]})
        else:
            found.append(message)
    return found


def as_thinking(messages: list[Message]) -> list[Message]:
    """Anthropic's messages; some come after thinking, so some tool loops begin with it and others do not."""
    found: list[Message] = []
    for number, message in enumerate(as_anthropic(messages)):
        if message["role"] == "assistant" and number * number % 7 < 3:
            content = message["content"]
            blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
            thought = {"type": "thinking", "thinking": f"Thought {number}.", "signature": "s"}
            found.append({**message, "content": [thought, *blocks]})
        else:
            found.append(message)
    return found


def as_responses(messages: list[Message]) -> list[Message]:
    found: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            output = {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
            found.append(output)
        elif calls := message.get("tool_calls"):
            call = calls[0]
            found.append({"type": "function_call", "call_id": call["id"], **call["function"]})
        else:
            found.append(message)
    return found


Written = Callable[[list[Message]], list[Message]]
AS_CHAT = Framework[Message](
    dict, lambda history: history, dict, with_outputs=lambda one, to: {**one, "content": to[0]}
)
FORMATS: list[tuple[dict[str, Any], Written]] = [
    ({"provider": "openai"}, list),
    ({"provider": "openai", "alternate": True}, list),
    ({"provider": "openai", "gaps": False}, list),
    ({"provider": "openai", "forms": False}, list),
    ({"provider": "anthropic"}, as_anthropic),
    ({"provider": "anthropic"}, as_thinking),
    ({"provider": "anthropic", "thinking": "loop"}, as_thinking),
    ({"provider": "openai-responses"}, as_responses),
    ({"framework": AS_CHAT}, list),
    ({"provider": "openai", "note": lambda messages, previous: f"{previous or ''} {len(messages)} more"}, list),
]


def histories(written: Written, turns: int) -> list[list[Message]]:
    return [written(history) for history in requests(conversation(18, turns))]


def goes_on_alike(history: list[list[Message]], budget: int, **options: Any) -> None:
    """Another process that goes on after every fifth request sends what this one sends."""
    options = {"counter": COUNTER, **options}
    session = MessageSession[Message](budget, **options)
    cuts = 0
    for number, messages in enumerate(history):
        if number % 5:
            cuts += session.fit(messages).action == "cut"
            continue
        restarted = MessageSession[Message].from_json(session.to_json(), budget, **options)
        turn, again = session.fit(messages), restarted.fit(messages)
        assert again.messages == turn.messages
        assert (again.positions, again.notes, again.noted) == (turn.positions, turn.notes, turn.noted)
        assert (again.changes, again.bill, again.shortened) == (turn.changes, turn.bill, turn.shortened)
        assert (again.action, again.reason) == (turn.action, turn.reason)
        assert session.to_json() == restarted.to_json()
        if number % 20 == 0:
            left = [{at for unit in one.dropped for at in unit.positions} for one in (turn, again)]
            assert left[0] == left[1]
            assert len(turn.report.included) == len(again.report.included)
    assert cuts > 1, "or nothing was tested"


@pytest.mark.parametrize(("given", "written"), FORMATS)
def test_another_process_goes_on_as_this_one_would(given: dict[str, Any], written: Written) -> None:
    goes_on_alike(histories(written, 110), 900, **given)


@pytest.mark.parametrize(("provider", "history"), [("bedrock", bedrock.history), ("gemini", gemini.history)])
def test_another_process_goes_on_as_this_one_would_in_generated_histories(provider: Any, history: Any) -> None:
    messages = history(Chance(5), 30)
    asked = [messages[:end] for end in range(1, len(messages) + 1) if not is_models(provider, messages[end - 1])]
    whole = [one for one in asked if violations(provider, one) == []]
    goes_on_alike(whole, 4000, provider=provider, tools=TOOLS.get(provider))


def test_errors_name_positions_in_the_whole_history() -> None:
    session = MessageSession[Message](900, **OPTIONS)
    for history in histories(list, 80):
        session.fit(history)
    with pytest.raises(Exception, match=rf"messages\[{len(history)}\]"):
        session.fit([*history, {"role": "nobody", "content": "?"}])
    assert session.fit(history).messages


def cut_session(budget: int = 900, turns: int = 40, **options: Any) -> tuple[MessageSession[Message], list[Message]]:
    session = MessageSession[Message](budget, **{**OPTIONS, **options})
    for history in histories(list, turns):
        turn = session.fit(history)
    assert turn.dropped
    return session, history


# --- a history that fits, an append, a cut -----------------------------------------------------------------
def test_a_history_that_fits_is_the_request_and_one_that_fits_again_is_sent_whole() -> None:
    session, history = cut_session()
    small = session.to_json()
    large = MessageSession[Message].from_json(small, 10**6, **OPTIONS)
    turn = large.fit(history)
    assert turn.messages == history
    assert (turn.notes, turn.shortened, turn.dropped) == ((), (), [])
    assert {change.what for change in turn.changes} <= {"recalled", "restored"}


def test_a_user_who_goes_back_to_where_the_history_fits_sends_it_whole() -> None:
    session, history = cut_session()
    early = history[:6]
    assert weigh(early) <= 900
    assert session.fit(early).messages == early


def test_between_cuts_every_request_begins_with_the_whole_of_the_last_one() -> None:
    session = MessageSession[Message](3000, **OPTIONS)
    last: list[Message] = []
    actions: list[str] = []
    for history in histories(list, 100):
        turn = session.fit(history)
        if turn.action == "append":
            assert turn.messages[: len(last)] == last
        last = turn.messages
        actions.append(turn.action)
    assert 2 < actions.count("cut") < len(actions) / 3


def test_a_cut_leaves_room_for_the_next_turns_and_one_to_the_whole_budget_is_a_fit() -> None:
    history = histories(list, 60)[-1]
    fitted = fit(history, 900, **OPTIONS)
    assert fitted.total_tokens > 800
    for keep, least, most in ((1.0, fitted.total_tokens, fitted.total_tokens), (0.5, 500, 850)):
        assert least <= MessageSession[Message](900, keep=keep, **OPTIONS).fit(history).total_tokens <= most


@pytest.mark.parametrize(("given", "written"), [one for one in FORMATS if not {"gaps", "note"} & one[0].keys()])
def test_a_first_cut_with_keep_1_is_a_fit(given: dict[str, Any], written: Written) -> None:
    options = {"counter": COUNTER, **given}
    for history in histories(written, 60)[-3:]:
        turn = MessageSession[Message](900, keep=1.0, **options).fit(history)
        if "framework" in options:
            fitted = options["framework"].fit(history, 900, counter=COUNTER)
        else:
            fitted = fit(history, 900, **options)
        assert turn.messages == fitted.messages
        assert (turn.notes, turn.positions, turn.shortened) == (fitted.notes, fitted.positions, fitted.shortened)
        assert [one.positions for one in turn.dropped] == [one.positions for one in fitted.dropped]


@pytest.mark.parametrize(("idle", "action"), [(None, "append"), (299, "append"), (301, "cut")])
def test_a_request_that_is_nearly_full_is_cut_when_the_cache_is_cold(idle: float | None, action: str) -> None:
    session = MessageSession[Message](900, prices=Prices.marked(), **OPTIONS)
    for history in histories(list, 60):
        turn = session.copy().fit(history)
        if turn.action == "append" and turn.dropped and turn.total_tokens > 0.85 * 900:
            break
        session.fit(history)
    else:
        pytest.fail("no request was nearly full")
    assert session.fit(history, idle=idle).action == action


def test_a_request_with_room_is_not_cut_however_long_the_pause() -> None:
    session = MessageSession[Message](8000, prices=Prices.marked(), **OPTIONS)
    for history in histories(list, 200):
        turn = session.copy().fit(history)
        if turn.action == "append" and turn.dropped and turn.total_tokens < 0.75 * 8000:
            break
        session.fit(history)
    else:
        pytest.fail("no request had room")
    cold = session.fit(history, idle=10**6)
    assert cold.action == "append"
    assert cold.bill.read == 0


def test_a_sent_message_that_changed_in_place_is_noticed() -> None:
    session, history = cut_session()
    before = session.copy().fit([*history, assistant("So."), user("And?")])
    at = next(at for at in before.positions if at is not None and history[at]["role"] == "tool")
    history[at]["content"] = "something else"
    turn = session.fit([*history, assistant("So."), user("And?")])
    assert turn.action == "cut"
    assert "something else" in json.dumps(turn.messages)
    assert violations("openai", turn.messages) == []


def test_a_message_that_was_left_out_may_change_unnoticed() -> None:
    session, history = cut_session()
    gone = next(iter(session.copy().fit(history).dropped)).positions[-1]
    other = [*history[:gone], {**history[gone], "content": "other"}, *history[gone + 1 :]]
    assert session.copy().fit(other).messages == session.fit(history).messages


def test_a_state_of_the_first_version_is_refused_in_a_sentence() -> None:
    state = json.loads(cut_session()[0].to_json()) | {"version": 1}
    with pytest.raises(ConfigurationError) as caught:
        MessageSession.from_json(json.dumps(state), 900)
    assert str(caught.value) == "state is of version 1, this is version 2: begin a new session with the history"


# --- the caller's pipeline ---------------------------------------------------------------------------------
class Counting(RecencyScorer):
    """Counts the pools that it is given."""

    pools: list[int] = []  # noqa: RUF012

    def score_all(self, items: Sequence[ContextItem]) -> list[float]:
        self.pools.append(len(items))
        return super().score_all(items)


QUOTA = Pipeline(
    scorer=ReuseScorer(),
    slicer=CountQuotaSlice([CountQuotaEntry("ToolOutput", 0, 4)], GreedySlice()),
    overflow=OverflowStrategy.TRUNCATE,
)


def test_a_pipeline_with_quotas_works_in_a_fit_and_in_a_session_alike() -> None:
    messages = histories(list, 60)[-1]
    plain, fitted = fit(messages, 1500, **OPTIONS), fit(messages, 1500, QUOTA, **OPTIONS)

    def calls(sent: list[Message]) -> int:
        return sum(bool(message.get("tool_calls")) for message in sent)

    assert calls(fitted.messages) <= 4 + 3 < calls(plain.messages), "the three newest are held"
    turn = MessageSession[Message](1500, QUOTA, keep=1.0, **OPTIONS).fit(messages)
    assert turn.messages == fitted.messages
    session = MessageSession[Message](1500, QUOTA, **OPTIONS)
    for history in histories(list, 60):
        turn = session.fit(history)
        assert violations("openai", turn.messages) == []
        assert turn.action == "append" or calls(turn.messages) <= 7


def test_the_pipeline_runs_only_where_a_request_is_cut() -> None:
    Counting.pools.clear()
    session = MessageSession[Message](900, Pipeline(scorer=Counting()), **OPTIONS)
    for history in histories(list, 40):
        before = len(Counting.pools)
        turn = session.fit(history)
        assert (len(Counting.pools) > before) is (turn.action == "cut" or (turn.dropped != [] and before == 0))
    assert Counting.pools


def test_a_call_that_was_told_of_is_told_of_no_more_when_its_result_has_come() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    call = {"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}"}
    history = [
        said,
        call,
        user("In between."),
        {"type": "function_call_output", "call_id": "c", "output": "done " * 200},
    ]
    session = MessageSession[Message](100, provider="openai-responses", counter=COUNTER)
    assert session.fit(history[:3]).notes == ("[cupel: 1 earlier step omitted]",)
    turn = session.fit(history)
    assert (turn.omitted, turn.notes) == (0, ())


# --- thinking that is bound to what came before it ---------------------------------------------------------
def thinking(number: int) -> Message:
    return {"type": "thinking", "thinking": f"Thought {number}.", "signature": f"s{number}"}


def thoughtful(steps: int) -> list[Message]:
    history = [user("Look at everything.")]
    for number in range(steps):
        said = assistant([thinking(number), use(f"c{number}")])
        history += [said, user([used(f"c{number}", f"value_{number} " * 30)])]
    return history


def thoughts(messages: list[Message]) -> list[str]:
    blocks = [block for one in messages if isinstance(one["content"], list) for block in one["content"]]
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


def test_thinking_before_a_cut_is_gone_for_good_and_what_is_written_after_it_stays_until_the_next() -> None:
    session = MessageSession[Message](900, provider="anthropic", counter=COUNTER)
    model = BoundThinking("anthropic")
    history = thoughtful(40)
    last: list[Message] = []
    gone: set[str] = set()
    cuts = 0
    for end in range(1, len(history) + 1, 2):
        model.write(last, history[max(0, end - 2) : end])
        turn = session.fit(history[:end])
        assert model.refused(turn.messages) == model.refused(turn.marked()) == []
        now = {*thoughts(turn.messages)}
        assert gone.isdisjoint(now), "it does not come back"
        written = {*thoughts(history[:end])}
        if turn.action == "cut" and end > 1:
            cuts += 1
            assert now == set()
        elif cuts:
            assert f"s{end // 2 - 1}" in now, "written after the cut"
        gone |= written - now
        last = turn.messages
    assert cuts > 2


def test_a_request_that_begins_like_the_last_one_but_omits_new_steps_has_no_thinking_behind_them() -> None:
    session = MessageSession[Message](900, provider="anthropic", counter=COUNTER)
    history = thoughtful(20)
    session.fit(history[:1])
    model = BoundThinking("anthropic")
    model.write([], history)
    turn = session.fit(history)
    assert turn.action == "append"
    assert turn.omitted
    assert model.refused(turn.messages) == []
    assert thoughts(turn.messages) == []


def test_a_history_that_fits_again_is_sent_without_the_thinking_that_was_written_behind_a_cut() -> None:
    session = MessageSession[Message](900, provider="anthropic", counter=COUNTER)
    history = thoughtful(20)
    for end in range(1, len(history) + 1, 2):
        turn = session.fit(history[:end])
    assert turn.dropped
    large = MessageSession[Message].from_json(session.to_json(), 10**6, provider="anthropic", counter=COUNTER)
    again = large.fit(history)
    assert len(again.messages) == len(history)
    assert thoughts(again.messages) == []


@pytest.mark.parametrize("change", [{"system": "Be long."}, {"tools": [{"name": "g", "input_schema": {}}]}])
def test_another_system_prompt_or_other_tools_end_all_earlier_thinking(change: dict[str, Any]) -> None:
    opening: dict[str, Any] = {"system": "Be brief.", "tools": [{"name": "look", "input_schema": {}}]}
    options: dict[str, Any] = {"provider": "anthropic", "counter": COUNTER}
    session = MessageSession[Message](10**6, **options, **opening)
    history = thoughtful(3)
    assert len(thoughts(session.fit(history).messages)) == 3
    state = session.to_json()
    same = MessageSession[Message].from_json(state, 10**6, **options, **opening)
    assert len(thoughts(same.fit(history).messages)) == 3
    other = MessageSession[Message].from_json(state, 10**6, **options, **{**opening, **change})
    assert thoughts(other.fit(history).messages) == []


def test_a_fit_removes_thinking_from_its_first_change_on() -> None:
    history = thoughtful(12)
    history[1:1] = [assistant([thinking(99), {"type": "text", "text": "Well."}]), user("Go on.")]
    fitted = fit(history, 900, provider="anthropic", counter=COUNTER)
    model = BoundThinking("anthropic")
    model.write([], history)
    assert model.refused(fitted.messages) == []
    assert "s99" in thoughts(fitted.messages), "before the first change"
    assert "s11" not in thoughts(fitted.messages)
    whole = fit(history, 10**6, provider="anthropic", counter=COUNTER)
    assert whole.messages == history


@pytest.mark.parametrize(
    ("kind", "remains"), [("anthropic-claude-v1", False), ("openai-responses-v1", True), ("google-gemini-v1", True)]
)
def test_only_claudes_reasoning_details_are_removed_after_a_cut(kind: str, remains: bool) -> None:
    history: list[Any] = [{"role": "user", "content": "Look."}]
    for at in range(12):
        details = [{"type": "reasoning.encrypted", "data": "c2ln", "format": kind, "index": 0}]
        call = {"id": f"c{at}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        history += [
            {"role": "assistant", "content": "I look.", "tool_calls": [call], "reasoning_details": details},
            {"role": "tool", "tool_call_id": f"c{at}", "content": f"line of {at}\n" * 30},
        ]
    fitted = fit(history, 600, provider="openai")
    assert fitted.dropped
    kept = [message for message in fitted.messages if message["role"] == "assistant"]
    assert kept
    assert all(("reasoning_details" in message) is remains for message in kept)
