"""Long conversations: old messages are not read again, and everything is as if they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cupel.messages import Framework, MessageSession
from tests.messages.chat import COUNTER
from tests.messages.provider_rules import violations
from tests.sessions.simulated import Message, conversation, requests


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
    ({"provider": "anthropic"}, as_anthropic),
    ({"provider": "anthropic"}, as_thinking),
    ({"provider": "openai-responses"}, as_responses),
    ({"framework": AS_CHAT}, list),
]


def histories(written: Written, turns: int) -> list[list[Message]]:
    return [written(history) for history in requests(conversation(18, turns))]


@pytest.mark.parametrize(("given", "written"), FORMATS)
def test_a_session_that_archives_sends_the_requests_of_one_that_reads_everything(
    given: dict[str, Any], written: Written
) -> None:
    options: dict[str, Any] = {"counter": COUNTER, **given}
    session = MessageSession[Message](900, **options)
    for number, history in enumerate(histories(written, 110)):
        if number % 5:  # a restart reads everything
            session.fit(history)
            continue
        restarted = MessageSession[Message].from_json(session.to_json(), 900, **options)
        turn, again = session.fit(history), restarted.fit(history)
        assert again.messages == turn.messages
        assert again.positions == turn.positions
        assert (again.changes, again.bill, again.shortened) == (turn.changes, turn.bill, turn.shortened)
        assert session.to_json() == restarted.to_json()
        if number % 20 == 0:
            assert again.report.included == turn.report.included
            assert len(again.report.excluded) == len(turn.report.excluded)
            assert violations(given.get("provider", "openai"), turn.messages, history) == []
            gone = {at for unit in turn.dropped for at in unit.positions}
            assert gone | {at for at in turn.positions if at is not None} == set(range(len(history)))
    assert session._archive, "or nothing was tested"


def test_an_edit_of_an_archived_message_is_noticed() -> None:
    session = MessageSession[Message](900, provider="openai", counter=COUNTER)
    for history in histories(list, 80):
        session.fit(history)
    assert session._archive
    edited = [*history[:4], {**history[4], "content": "other"}, *history[5:]]
    state = session.to_json()
    restarted = MessageSession[Message].from_json(state, 900, provider="openai", counter=COUNTER)
    assert session.fit(edited).messages == restarted.fit(edited).messages
    shorter = history[:60]
    again = MessageSession[Message].from_json(session.to_json(), 900, provider="openai", counter=COUNTER)
    assert session.fit(shorter).messages == again.fit(shorter).messages


def test_errors_name_positions_in_the_whole_history() -> None:
    session = MessageSession[Message](900, provider="openai", counter=COUNTER)
    for history in histories(list, 80):
        session.fit(history)
    with pytest.raises(Exception, match=rf"messages\[{len(history)}\]"):
        session.fit([*history, {"role": "nobody", "content": "?"}])
    assert session.fit(history).messages
