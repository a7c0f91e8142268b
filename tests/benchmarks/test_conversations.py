"""Conversations of every format can be timed, and what peers send of a conversation can be told from it."""

import json

import pytest

from benchmarks import conversation_peers as peers
from benchmarks import conversation_speed as speed
from benchmarks.conversation_peers import PEERS, calls_of, changed, paired
from benchmarks.recordings import generated
from benchmarks.ruler import is_valid
from cupel import MessageSession


@pytest.mark.parametrize("name", sorted(speed.FORMATS))
def test_every_format_is_one_that_a_session_takes(name):
    messages = list(speed.FORMATS[name](speed.turns(40, 1)))
    session = MessageSession(2_000, provider=name, tools=speed.TOOLS.get(name))
    turn = session.fit(messages)
    assert len(messages) == 81
    assert 1 < len(turn.messages) < len(messages)
    assert turn.total_tokens <= 2_000


def test_no_two_conversations_that_are_timed_share_a_text():
    texts = [result for seed in range(3) for _, _, result in speed.turns(30, seed)]
    assert len(texts) == len(set(texts))
    assert list(speed.turns(5, 2)) == list(speed.turns(5, 2))


def test_a_session_is_timed_in_all_its_steps(monkeypatch):
    monkeypatch.setattr(speed, "BUDGET", 2_000)
    monkeypatch.setattr(speed, "FOLLOWED", 30)
    rows = speed.measure_conversations((40, 60), 1, ("openai", "gemini"))
    assert [(row["format"], row["turns"]) for row in rows] == [
        (name, length) for length in (40, 60) for name in ("openai", "gemini", "beside")
    ]
    for row in rows[:2]:
        assert all(row[step] > 0 for step in ("append", "cut", "first turn", "restore", "fit"))
    shown = speed.table({"sessions": rows, "starts": {"a start": 12.3}})
    assert "| `gemini` | 60 |" in shown
    assert "| growth from 40 to 60 turns |" in shown
    assert "| a start | 12 |" in shown


def test_call_ids_that_a_recording_repeats_become_unique_and_stay_paired():
    messages = [*generated(1)[:6], *generated(1)[2:6]]
    found = paired(messages)
    ids = [key for message in found for key, _, _ in calls_of(message)]
    assert len(ids) == len(set(ids)) == 4
    assert is_valid(found)
    assert [one.get("content") for one in found] == [one.get("content") for one in messages]


def test_arguments_that_are_no_object_are_still_arguments():
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "[broken"}}
    assert calls_of({"role": "assistant", "tool_calls": [call]}) == [("c", "run", {"arguments": "[broken"})]


def test_an_unchanged_message_is_itself():
    message = {"role": "assistant", "content": None}
    assert changed(message, "") is message
    assert changed(message, "cleared") == {"role": "assistant", "content": "cleared"}


def test_a_peer_without_an_environment_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.recordings.RECORDINGS", tmp_path)
    monkeypatch.setattr("benchmarks.recordings.TURNS", 30)
    found = peers.measure_conversation_peers(1, tmp_path)
    assert found["missing"] == list(PEERS)
    shown = peers.table(found)
    assert shown.endswith("Not installed: " + ", ".join(PEERS) + ".")
    assert "| everything | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 100 % | 0 % |" in shown


def test_every_peer_has_an_environment_in_the_project(request):
    text = (request.config.rootpath / "pyproject.toml").read_text("utf-8")
    for name, (package, _) in PEERS.items():
        assert f'peer-{name} = ["{package}>=' in text
    made = (request.config.rootpath / "Makefile").read_text("utf-8")
    assert f"PEERS := {' '.join(sorted(PEERS))}\n" in made


def test_messages_of_other_packages_become_the_same_messages_again():
    """Without a package, its functions are not tested here; `make bench PARTS=conversation-peers` runs them."""
    messages = paired(generated(1)[:8])
    items = [item for message in messages for item in peers._responses(message)]
    assert [item.get("call_id") for item in items if "call_id" in item] == [
        key
        for message in messages
        for key in (message.get("tool_call_id"), *(one[0] for one in calls_of(message)))
        if key
    ]
    told = list(peers._strands(messages, 0))
    assert peers._from_strands(told, messages) == messages
    assert json.dumps(told)
