"""What the adapters of all frameworks share: sessions by their stored states."""

import copy
import pickle
from dataclasses import dataclass
from threading import Thread
from typing import Any

import pytest

from cupel import ConfigurationError, SelectionError
from cupel.integrations._sessions import _KEPT, OpenSession, Sessions
from cupel.messages import Framework, MessageSession
from cupel.tokens import CharacterEstimate


@dataclass
class Line:
    who: str
    words: str


LINES: Framework[Line] = Framework(Line, lambda lines: [{"role": one.who, "content": one.words} for one in lines], dict)
OPTIONS: Any = {"counter": CharacterEstimate()}


def sessions(**options: Any) -> Sessions[Line]:
    return Sessions(LINES, "the state", 100, **OPTIONS, **options)


def history(name: str, turns: int) -> list[Line]:
    said = [
        (Line("user", f"{name} {turn} " + "word " * 10), Line("assistant", f"Yes, {name}.")) for turn in range(turns)
    ]
    return [line for pair in said for line in pair][:-1]


def turn(shared: Sessions[Line], state: str | None, lines: list[Line], **beside: Any) -> tuple[list[Line], str]:
    conversation = shared.open(state, **beside)
    return conversation.fit(lines), shared.close(conversation)


def test_more_conversations_than_are_kept_go_on_as_if_each_were_alone():
    shared, names = sessions(), [f"user-{number}" for number in range(_KEPT + 20)]
    states: dict[str, str | None] = dict.fromkeys(names)
    for turns in range(1, 7):
        for name in names:
            _, states[name] = turn(shared, states[name], history(name, turns))
    assert len(shared._kept) == _KEPT
    for name in (names[0], names[-1]):
        alone: str | None = None
        for turns in range(1, 7):
            _, alone = turn(sessions(), alone, history(name, turns))
        assert states[name] == alone


def test_a_conversation_that_is_in_use_is_nobody_elses():
    shared = sessions()
    _, state = turn(shared, None, history("anna", 1))
    one, other = shared.open(state), shared.open(state)
    assert one.session is not other.session
    assert one.fit(history("anna", 3)) == other.fit(history("anna", 3))
    assert shared.close(one) == shared.close(other)


def test_a_session_is_kept_for_its_state_and_its_options():
    shared = sessions()
    opened = shared.open(None, system="Be brief.")
    opened.fit(history("anna", 1))
    state = shared.close(opened)
    assert shared.open(state, system="Be brief.") is opened
    shared.close(opened)
    for beside in ({"system": "Be long."}, {"system": "Be brief.", "tools": [{"name": "f"}]}, {"budget": 90}):
        assert shared.open(state, **beside) is not opened


def test_a_smaller_budget_holds_for_one_turn():
    shared = sessions()
    chosen, state = turn(shared, None, history("anna", 6), budget=50)
    assert len(chosen) < len(turn(shared, state, history("anna", 7))[0])


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        (7, TypeError, "the state must be"),
        ("", ConfigurationError, "the state: state must be the text that to_json returned"),
        ('{"version": 9}', ConfigurationError, "the state: state is of version 9"),
    ],
)
def test_what_is_no_state_is_refused_by_the_name_of_its_place(state: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        sessions().open(state)


def test_a_turn_must_end_before_the_next_of_its_conversation():
    shared, errors = sessions(), list[Exception]()

    def intrude() -> None:
        try:
            with shared.alone("anna"):
                pass
        except SelectionError as error:
            errors.append(error)

    with shared.alone("anna"), shared.alone("ben"):
        thread = Thread(target=intrude)
        thread.start()
        thread.join()
    assert [str(error) for error in errors] == [
        "the conversation 'anna' is in use: it has one writer, and a turn must end before the next"
    ]
    with shared.alone("anna"):
        pass


def test_copies_of_what_holds_sessions_leave_them_behind():
    assert copy.deepcopy([sessions()]) == [None]
    assert pickle.loads(pickle.dumps([sessions()])) == [None]


def test_usage_that_says_nothing_changes_nothing(caplog: pytest.LogCaptureFixture):
    shared = sessions()
    conversation: OpenSession[Line] = shared.open(None)
    conversation.fit(history("anna", 1))
    before = conversation.session.to_json()
    for usage in (None, {}):
        conversation.observe(usage)
    assert not caplog.records
    conversation.observe({"seconds": 3})
    assert "the bill stays an estimate: usage must report the prompt's tokens" in caplog.text
    assert conversation.session.to_json() == before
    conversation.observe({"prompt_tokens": 40})
    assert conversation.session.total.settled


@pytest.mark.parametrize("count", [1, 3])
def test_a_framework_translates_every_message(count: int) -> None:
    wrong: Framework[Line] = Framework(Line, lambda _: [{"role": "user", "content": "Hi"}] * count, dict)
    lines = [Line("user", "Hi"), Line("user", "Well?")]
    expected = f"views must translate every message, got {count} for 2 messages"
    with pytest.raises(ConfigurationError, match=expected):
        wrong.fit(lines, 100)
    with pytest.raises(ConfigurationError, match=expected):
        MessageSession(100, framework=wrong).fit(lines)
