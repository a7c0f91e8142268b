"""The turns of sessions on the current span."""

import pytest

from cupel.integrations.opentelemetry import TurnRecorder
from cupel.messages import MessageSession
from cupel.tokens import CharacterEstimate


def exchange(number: int, size: int) -> list[dict]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"Question {number}?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"secret line {number}\n" * size},
        {"role": "assistant", "content": f"Answer {number}."},
    ]


@pytest.fixture
def recorded(provider, exporter):
    """The turns of a conversation that outgrows its window, and the spans they were recorded on."""
    session, recorder = MessageSession(900, provider="openai", counter=CharacterEstimate(4.0)), TurnRecorder()
    history, turns = [], []
    for number in range(12):
        history += exchange(number, 40)
        with provider.get_tracer("test").start_as_current_span("answer"):
            turns.append(session.fit([*history, {"role": "user", "content": "And now?"}]))
            recorder.record(turns[-1])
    with provider.get_tracer("test").start_as_current_span("answer"):
        turns.append(session.fit([*history, *exchange(12, 400)[:3]]))
        recorder.record(turns[-1])
    return turns, exporter.get_finished_spans()


def test_every_change_is_an_event_with_its_tokens_and_positions(recorded):
    turns, spans = recorded
    assert any(turn.changes for turn in turns)
    for turn, span in zip(turns, spans, strict=True):
        expected = [(f"cupel.session.{change.what}", change.tokens, change.positions) for change in turn.changes]
        found = [
            (event.name, event.attributes["cupel.change.tokens"], event.attributes["cupel.change.positions"])
            for event in span.events
        ]
        assert found == expected


def test_every_kind_of_change_has_a_name(recorded):
    names = {event.name for span in recorded[1] for event in span.events}
    changes = ("evicted", "recalled", "restored", "shortened")
    assert names <= {f"cupel.session.{change}" for change in changes}
    assert {"cupel.session.evicted", "cupel.session.shortened"} <= names


def test_omitted_and_shortened_messages_are_counted(recorded):
    turns, spans = recorded
    counted = [(s.attributes["cupel.turn.omitted"], s.attributes["cupel.turn.shortened"]) for s in spans]
    assert counted == [(turn.omitted, len(turn.shortened)) for turn in turns]
    assert counted[-1] == (22, 1)


def test_no_content_is_recorded(recorded):
    assert not any("secret" in span.to_json() or "Question" in span.to_json() for span in recorded[1])
