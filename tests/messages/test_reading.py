"""Messages that come back in another wording are recognised, and only new ones are read."""

from dataclasses import dataclass
from typing import Any

import pytest

from cupel.messages._formats import FORMATS
from cupel.messages._notes import note_text, signatures, with_note
from cupel.messages._reading import HistoryReader, Options
from cupel.messages._units import Message
from tests.messages.chat import COUNTER, assistant, calling, result, user

DUMPED = {"refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None}


def reader(**options: Any) -> HistoryReader:
    return HistoryReader(Options(counter=COUNTER, **options))


def read(*messages: Any) -> list[Message]:
    return reader(provider="openai").read(messages, range(len(messages)))


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (assistant("Yes."), {**assistant("Yes."), **DUMPED}),
        (calling("a"), {**DUMPED, **calling("a")}),
        (user("Hi"), user([{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}])),
        (assistant("Yes."), {"id": "m", "type": "message", "model": "x", "usage": {}, **assistant("Yes.")}),
    ],
)
def test_a_message_is_recognised_however_it_was_stored(first: Any, later: Any) -> None:
    one, other = (reader().read([message], [0])[0] for message in (first, later))
    assert one.digest == other.digest


def test_a_message_is_recognised_with_a_note_that_was_written_into_it() -> None:
    own, noted = result("a", "fine"), with_note(result("a", "fine"), note_text(2, "look; look"), FORMATS["openai"])
    one, other = reader(), reader()
    other.recognise(signatures(noted, FORMATS["openai"]), (), 1)
    assert one.read([own], [0])[0].digest == other.read([noted], [0])[0].digest
    assert one.read([noted], [0])[0].digest != other.read([noted], [0])[0].digest, "it looks like one, no more"


def test_other_messages_are_told_apart() -> None:
    messages = [user("Hi"), user("Hi."), assistant("Hi"), calling("a"), calling("b"), result("a"), result("b")]
    assert len({one.digest for one in read(*messages)}) == len(messages)


def test_a_grown_history_is_read_from_where_it_grew() -> None:
    one = reader(provider="openai")
    history = [user("Hi"), assistant("Yes.")]
    before = one.read(history, range(2))
    grown = [*[dict(message) for message in history], user("And?")]
    after = one.read(grown, range(3))
    assert after[:2] == before
    assert after[0].source is grown[0]
    assert after[2].view == user("And?")


def test_a_message_that_was_changed_in_place_is_read_again() -> None:
    one = reader(provider="openai")
    history = [user("Hi"), assistant([{"type": "text", "text": "Yes."}])]
    before = one.read(history, range(2))
    history[1]["content"][0]["text"] = "No."
    after = one.read(history, range(2))
    assert after[0] is before[0]
    assert after[1].view == assistant([{"type": "text", "text": "No."}])
    assert after[1].digest != before[1].digest


@dataclass
class Sdk:
    """An object of a provider's library."""

    role: str
    content: str

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"role": self.role, "content": self.content}


def test_an_object_that_is_the_same_or_reads_the_same_is_not_read_again() -> None:
    one = reader(provider="openai")
    given = Sdk("user", "Hi")
    (before,) = one.read([given], [0])
    assert one.read([given], [0]) == [before]
    assert one.read([Sdk("user", "Hi")], [0]) == [before]
    assert one.read([Sdk("user", "Hi!")], [0]) != [before]


def test_what_is_not_kept_is_forgotten() -> None:
    one = reader(provider="openai")
    history = [user("Hi"), assistant("Yes."), user("And?")]
    before = one.read(history, range(3))
    one.keep({0, 2})
    after = one.read(history, range(3))
    assert [now is then for now, then in zip(after, before, strict=True)] == [True, False, True]


def test_messages_of_another_format_are_all_read_again() -> None:
    one = reader()
    history: list[Any] = [user("Hi"), assistant("Yes.")]
    before = one.read(history, range(2))
    assert one.format is not None
    assert one.format.name == "anthropic"
    history.append(calling("a"))
    after = one.read(history, range(3))
    assert one.format.name == "openai"
    assert after[0] is not before[0]


def test_only_the_wanted_positions_are_read() -> None:
    one = reader(provider="openai")
    history: list[Any] = [object(), user("Hi"), object(), user("And?")]
    assert [message.at for message in one.read(history, [1, 3])] == [1, 3]
    with pytest.raises(Exception, match=r"messages\[2\]"):
        one.read(history, [1, 2])
