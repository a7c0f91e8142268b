"""Replays: the same figures in every format, and nothing hidden."""

import json
import re
from types import SimpleNamespace

import pytest

from cupel import Prices
from cupel.errors import SelectionError
from cupel.evaluation import (
    EvaluationError,
    EverythingStrategy,
    FitStrategy,
    Recording,
    SessionStrategy,
    TailStrategy,
    read_recordings,
    replay,
)
from cupel.evaluation._reader import Reader
from cupel.evaluation._retention import retention
from cupel.messages import Message, recall, within_reach

from . import recordings

STRATEGIES = {"everything": EverythingStrategy(), "tail": TailStrategy(), "fit": FitStrategy()}
BUDGET = 900


def figures(recording, strategies=STRATEGIES, **options):
    return replay(recording, strategies, BUDGET, **options).figures


def written(folder, document, name="sessions.json"):
    path = folder / name
    path.write_text(json.dumps(document))
    return read_recordings(path)


@pytest.mark.parametrize("convert", [recordings.anthropic, recordings.responses])
def test_every_format_keeps_the_same_facts(tmp_path, convert):
    history = recordings.chat()
    plain, other = figures(Recording(history)), figures(written(tmp_path, convert(history)))
    for name, one in plain.items():
        assert (other[name].facts, other[name].whole, other[name].context) == (one.facts, one.whole, one.context)
        assert (other[name].invalid, other[name].failed) == (0, 0)
        assert other[name].sent == pytest.approx(one.sent, rel=0.2)


@pytest.mark.parametrize("convert", [recordings.bedrock, recordings.gemini])
def test_requests_of_bedrock_and_gemini_are_replayed(tmp_path, convert):
    history = recordings.chat()
    found = figures(written(tmp_path, convert(history)), {**STRATEGIES, "session": SessionStrategy()})
    assert found["everything"].facts == found["everything"].whole == 1.0
    for name in ("fit", "session"):
        assert found[name].facts > 0.5
        assert found[name].over == found[name].invalid == found[name].unsent == found[name].failed == 0


@pytest.mark.parametrize("convert", [lambda history: history, recordings.anthropic, recordings.gemini])
def test_with_ids_every_fact_is_within_reach(tmp_path, convert):
    sessions = {f"{recall}": SessionStrategy(options={"recall": recall}) for recall in (False, True)}
    found = figures(written(tmp_path, convert(recordings.chat())), sessions)
    assert found["False"].reach == found["False"].whole < 1.0
    assert found["True"].reach == 1.0 > found["True"].whole


def test_an_id_that_an_output_forges_reaches_nothing():
    history = [{"role": "user", "content": "Read."}, {"role": "assistant", "content": "the key is secret_17"}]
    name = re.search(r"#(\w+)", recall({"text": "secret_17"}, history))[1]
    assert within_reach(f"#{name}", history, "openai") == within_reach("#0000", history, "openai") == ""
    assert "secret_17" in within_reach(f"[cupel: 1 earlier step omitted, #{name}]", history, "openai")


def test_old_messages_are_lost_by_the_tail_and_never_by_appending():
    found = figures(Recording(recordings.chat()))
    assert found["everything"].facts == found["everything"].whole == found["everything"].context == 1.0
    assert found["everything"].over == found["everything"].turns > 5
    assert found["tail"].facts < 1.0
    assert found["tail"].over == found["tail"].invalid == found["tail"].unsent == 0
    assert found["everything"].hit > found["tail"].hit > found["fit"].hit


@pytest.mark.parametrize("convert", [recordings.otlp, recordings.span_events])
def test_traces_are_read_as_the_history_they_tell(tmp_path, convert):
    history = recordings.chat()
    (found,) = written(tmp_path, convert(history))
    assert figures(found)["fit"].facts == figures(Recording(history))["fit"].facts
    assert [message["role"] for message in found.messages] == [message["role"] for message in history[:-1]]


def test_files_hold_one_conversation_or_many_in_any_form(tmp_path):
    history = recordings.chat(3)
    row = {"session": "s", "messages": history, "usage": [None]}
    assert [one.name for one in written(tmp_path, [row, history, {"id": 7, "messages": history}])] == [
        "s",
        f"{tmp_path}/sessions.json[1]",
        "7",
    ]
    assert len(written(tmp_path, history)) == 1
    lines = tmp_path / "sessions.jsonl"
    lines.write_text(f"{json.dumps(row)}\n\n{json.dumps(history)}\n")
    assert [one.name for one in read_recordings(lines)] == ["s", f"{lines}:3"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"turns": []}, "a conversation is a list of messages"),
        ([], "there is no conversation in it"),
        ([5], r"sessions.json\[0\]: a conversation"),
        ({"messages": [5]}, r"messages\[0\] must be"),
        ({"resourceSpans": []}, "no span in it holds messages"),
    ],
)
def test_files_without_conversations_say_so(tmp_path, document, message):
    with pytest.raises(EvaluationError, match=message):
        written(tmp_path, document)


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "assistant", "tool_calls": [5]}]},
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use"}, "x"]}]},
        {"messages": [{"role": "assistant", "tool_calls": 5}]},
        {"messages": [{"role": "user", "content": "x"}], "provider": "mine"},
        {"messages": [{"role": "user", "content": "x"}], "provider": 5},
        {"resourceSpans": [5]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [5]}]}]}]},
        {"attributes": {"gen_ai.input.messages": [5, {"parts": 7}]}, "events": [5]},
        {"attributes": {"gen_ai.input.messages": "not JSON"}, "events": []},
    ],
)
def test_hostile_files_end_in_errors_of_ours(tmp_path, row):
    with pytest.raises(EvaluationError):
        replay(written(tmp_path, row), STRATEGIES, 10)


def test_histories_without_answers_are_refused():
    with pytest.raises(EvaluationError, match="no step to replay: in 1 recording the model answers no message"):
        replay(Recording([{"role": "user", "content": "Hello"}]), STRATEGIES, 10)


def test_a_way_that_cannot_fit_is_counted_and_has_lost_everything():
    def refusing(_recording, _budget):
        def fill(history):
            if len(history) > 20:
                msg = "too long for me"
                raise SelectionError(msg)
            return history

        return fill

    result = replay(Recording(recordings.chat(), name="parcels"), {"refusing": refusing}, BUDGET)
    found = result.figures["refusing"]
    failed = [turn for turn in result.strategies["refusing"] if turn.failure]
    assert found.failed == len(failed) > 0
    assert {turn.failure for turn in failed} == {"too long for me"}
    assert all(turn.retention.kept == 0 for turn in failed if turn.retention)
    assert found.facts < 1.0


def test_errors_that_are_no_refusals_pass():
    def broken(_recording, _budget):
        return lambda _history: 1 / 0

    with pytest.raises(ZeroDivisionError):
        replay(Recording(recordings.chat()), {"broken": broken}, BUDGET)


def test_only_the_common_beginning_is_served_from_the_cache():
    def flipping(_recording, _budget):
        turn = iter(range(100))
        return lambda history: history if next(turn) % 2 else history[1:]

    found = replay(Recording(recordings.chat()), {"flipping": flipping}, BUDGET, prices=Prices.marked())
    turns = found.strategies["flipping"]
    assert all(turn.hit == 0 and turn.price == pytest.approx(1.25 * turn.sent) for turn in turns)


def test_every_looks_at_fewer_turns():
    every, third = figures(Recording(recordings.chat())), figures(Recording(recordings.chat()), every=3)
    assert every["fit"].turns == third["fit"].turns
    assert 0 < third["fit"].steps < every["fit"].steps


def test_facts_are_words_that_were_found_and_not_given():
    history = [
        Message("system", texts=["Ship with carrier-9."]),
        Message("user", texts=["Find customer-77."]),
        Message("tool", texts=["parcel PX-1001 in Hamburg"]),
    ]
    arguments = [{"a": "PX-1001", "b": ["customer-77", "carrier-9"], "c": {"d": "Hamburg", "e": "unseen-5"}, "f": 1}]
    kept = retention(arguments, history, history)
    assert (kept.facts, kept.kept, kept.names, kept.in_context) == (2, 2, 1, True)
    lost = retention(arguments, history, history[:2])
    assert (lost.kept, lost.whole, lost.in_context) == (0, False, False)
    assert retention([{"a": "unseen-5"}], history, history) is None


def test_a_bag_of_words_keeps_facts_but_not_their_context():
    history = [Message("user", texts=["Find it."]), Message("tool", texts=["parcel PX-1001 in Hamburg"])]
    bag = [Message("tool", texts=["Hamburg PX-1001 parcel"])]
    found = retention(["PX-1001"], history, bag)
    assert (found.whole, found.in_context) == (True, False)


def test_json_may_be_reformatted_if_the_key_stays_with_its_value():
    history = [
        Message("user", texts=["Find it."]),
        Message("tool", texts=['{"parcel": "PX-1001", "depot": "Hamburg", "n": 3}']),
    ]
    assert retention(["PX-1001"], history, [Message("tool", texts=["parcel: PX-1001"])]).in_context
    assert not retention(["PX-1001"], history, [Message("tool", texts=["code: PX-1001 x"])]).in_context


def test_sdk_objects_are_read_as_what_they_dump():
    message = SimpleNamespace(model_dump=lambda **_: {"role": "developer", "content": [{"type": "text", "text": "Hi"}]})
    (found,) = Reader(Recording([message], provider="openai")).messages
    assert (found.role, found.text) == ("system", "Hi")


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"role": "user", "content": [1]}, r"messages\[0\]\.content\[0\] must be an object, got int"),
        ({"role": "nobody", "content": "Hi"}, r"messages\[0\]\.role must be one of"),
        ({"role": "assistant", "tool_calls": 7}, r"messages\[0\]\.tool_calls must be a list of objects"),
    ],
)
def test_a_message_that_cannot_be_read_is_named_with_its_recording(message, says):
    with pytest.raises(EvaluationError, match=f"^monday: cannot be read as openai: {says}"):
        replay(Recording([message], provider="openai", name="monday"), STRATEGIES, BUDGET)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"budget": 0}, EvaluationError),
        ({"budget": "1"}, TypeError),
        ({"every": 0}, EvaluationError),
        ({"strategies": {}}, EvaluationError),
        ({"strategies": {"a": 5}}, TypeError),
        ({"strategies": {5: EverythingStrategy()}}, TypeError),
        ({"strategies": [EverythingStrategy()]}, TypeError),
        ({"strategies": {"strategies": lambda _recording, _budget: None}}, TypeError),
        ({"strategies": {"a strategy": lambda _recording, _budget: lambda _history: None}}, TypeError),
        ({"recordings": [[]]}, TypeError),
        ({"on_progress": 5}, TypeError),
    ],
)
def test_arguments_are_checked(options, error):
    given = {"recordings": Recording(recordings.chat()), "strategies": STRATEGIES, "budget": BUDGET, **options}
    (named,) = options
    named = (
        next(iter(options["strategies"]), named)
        if named == "strategies" and "a strategy" in options["strategies"]
        else named
    )
    with pytest.raises(error, match=named):
        replay(given.pop("recordings"), given.pop("strategies"), given.pop("budget"), **given)


def test_a_recording_shows_itself_in_a_line():
    assert repr(Recording([{"role": "user", "content": "x" * 10_000}], name="long")) == (
        "Recording(provider='anthropic', name='long')"
    )


def test_the_tail_is_cut_only_beyond_the_budget():
    history = recordings.chat()
    everything = Reader(Recording(history)).sizes[-1]
    assert list(TailStrategy()(Recording(history), everything)(history).messages) == history
    assert len(TailStrategy()(Recording(history), everything - 1)(history).messages) < len(history)


@pytest.mark.parametrize("convert", [None, recordings.anthropic, recordings.responses])
def test_the_tail_cuts_a_long_output_in_its_middle_and_keeps_the_newest_step(tmp_path, convert):
    history = recordings.chat()
    (newest,) = (at for at, message in enumerate(history) if message["role"] == "tool" and at >= len(history) - 2)
    history[newest]["content"] = f"begins {'and goes on ' * 900} ends"
    document = history[: newest + 1] if convert is None else convert(history[: newest + 1])
    (recording,) = written(tmp_path, document)
    reader = Reader(recording)
    request = TailStrategy()(recording, BUDGET)(list(recording.messages))
    said = [reader.read(message) for message in request.messages]
    output = next(text for text in said[-1].texts if "begins" in text)
    assert output.startswith("begins and goes on")
    assert output.endswith("goes on  ends")
    assert BUDGET // 5 < reader.cost(said[-1]) <= BUDGET // 4 + 3  # where texts meet, tokens may
    assert set(said[-1].results) <= {call for message in said for call in message.calls}
    assert request.positions[-1] == len(recording.messages) - 1
    assert sum(map(reader.cost, said)) + reader.opening_tokens <= BUDGET


def test_the_tail_keeps_the_newest_step_even_beyond_the_share_that_it_keeps():
    """Four outputs of a quarter each fill the window: nothing of the step is left out."""
    names = [f"page-{number}" for number in range(4)]
    calls = [
        {"id": name, "type": "function", "function": {"name": "look", "arguments": f'{{"page": "{name}"}}'}}
        for name in names
    ]
    history = [
        {"role": "user", "content": "Compare the pages."},
        {"role": "assistant", "content": "Gladly. " * 40},
        {"role": "user", "content": "Now."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": name, "content": f"{name} says little. " * 90} for name in names),
    ]
    request = TailStrategy()(Recording(history), BUDGET)(history)
    assert request.positions == (0, 3, 4, 5, 6, 7)


TOOLS = [
    {
        "type": "function",
        "function": {"name": "look", "parameters": {"type": "object", "properties": {"page": {"type": "string"}}}},
    }
]


@pytest.mark.parametrize("strategy", [SessionStrategy(), FitStrategy()], ids=["session", "fit"])
@pytest.mark.parametrize("tools", [None, TOOLS], ids=["messages alone", "with tools"])
def test_a_request_is_counted_as_the_strategy_counts_it(strategy, tools):
    counted = []

    def noting(recording, budget):
        fill = strategy(recording, budget)

        def filled(history):
            counted.append(fill(history))
            return counted[-1]

        return filled

    found = replay(Recording(recordings.chat(), tools=tools), {"noting": noting}, BUDGET)
    assert any(one.notes for one in counted)
    assert [turn.sent for turn in found.strategies["noting"]] == [one.total_tokens for one in counted]


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
def test_messages_in_a_row_that_the_model_wrote_are_one_answer(provider):
    said = [{"role": role, "content": "Hi."} for role in ("user", "assistant", "assistant", "user", "assistant")]
    assert [step.at for step in Reader(Recording(said, provider=provider)).steps] == [1, 4]
