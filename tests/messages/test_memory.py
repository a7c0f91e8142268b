"""Messages that come back in another wording are recognised, and only new ones are parsed."""

from typing import Any

import pytest

from cupel.messages._formats import FORMATS
from cupel.messages._formats.media import ImageRule
from cupel.messages._memory import Memory, ParsedMessage
from cupel.messages._notes import note_text, with_note
from tests.messages.chat import COUNTER, assistant, calling, result, user

DUMPED = {"refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None}


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (assistant("Yes."), {**assistant("Yes."), **DUMPED}),
        (calling("a"), {**DUMPED, **calling("a")}),
        (user("Hi"), user([{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}])),
        (assistant("Yes."), {"id": "m", "type": "message", "model": "x", "usage": {}, **assistant("Yes.")}),
        (result("a", "fine"), with_note(result("a", "fine"), note_text(2, "look; look"), FORMATS["openai"])),
    ],
)
def test_a_message_is_recognised_however_it_was_stored(first: Any, later: Any) -> None:
    assert parsed(first).digest == parsed(later).digest


def parsed(message: Any) -> ParsedMessage:
    """A message as the memory of a session reads it."""
    one = Memory().recall([message], [message])[0]
    one.read("message", FORMATS["openai"], ImageRule(None), COUNTER)
    return one


def test_other_messages_are_told_apart() -> None:
    messages = [user("Hi"), user("Hi."), assistant("Hi"), calling("a"), calling("b"), result("a"), result("b")]
    assert len({parsed(message).digest for message in messages}) == len(messages)


def test_a_grown_history_is_parsed_from_where_it_grew() -> None:
    memory = Memory()
    history = [user("Hi"), assistant("Yes.")]
    before = memory.recall(history, history)
    grown = [*[dict(message) for message in history], user("And?")]
    after = memory.recall(grown, grown)
    assert [one is other for one, other in zip(before, after, strict=False)] == [True, True]
    assert after[2].view == user("And?")


def test_a_message_that_was_changed_in_place_is_parsed_again() -> None:
    memory = Memory()
    history = [user("Hi"), assistant([{"type": "text", "text": "Yes."}])]
    memory.recall(history, history)
    history[1]["content"][0]["text"] = "No."
    assert memory.recall(history, history)[1].view == assistant([{"type": "text", "text": "No."}])
