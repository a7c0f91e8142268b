"""The ruler of requests on conversations small enough to count by hand, and what downloaded recordings become."""

import gzip
import json

import pytest

from benchmarks import recordings
from benchmarks.recordings import chat, convert, generated, kinds, main, read
from benchmarks.ruler import answers, facts_of, is_valid, measure, requests, trail
from benchmarks.sessions import clear
from cupel.errors import SelectionError


def call(number, **arguments):
    function = {"name": "read_file", "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }


def result(number, text):
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


SYSTEM = {"role": "system", "content": "Be brief."}
TASK = {"role": "user", "content": "Find the fault in main_module."}
HISTORY = [
    SYSTEM,
    TASK,
    call(1, path="src/first.py"),
    result(1, "imports second_part and main_module " * 20),
    call(2, path="src/other.py", why="hunch-17"),
    result(2, "third_part is broken " * 20),
    call(3, path="second_part", note="hunch-17", mark="third_part"),
    result(3, "done"),
]


def everything(_recording, _budget):
    return list


def newest_step(_recording, _budget):
    def step(history):
        start = max((at for at, one in enumerate(history) if one["role"] == "assistant"), default=2)
        return [*history[:2], *history[start:]]

    return step


def test_sending_everything_keeps_everything_and_is_over_on_every_pressed_turn():
    found = measure([HISTORY], everything, 50)
    assert found["turns"] == found["over"] == 2
    assert found["whole"] == found["all"] == found["users"] == found["trail"] == 1.0
    assert found["talk"] is None
    assert found["invalid"] == found["unsent"] == found["early"] == 0


def test_what_left_the_request_is_missed():
    found = measure([HISTORY], newest_step, 50)
    assert found["turns"] == 2
    assert found["whole"] == found["all"] == 0  # the last call names second_part, which only the first result had
    assert found["trail"] == 0.75  # of one call one, and of two one
    assert found["steps"] == 1
    assert found["over"] == 2


def test_only_an_unchanged_beginning_is_read_from_the_cache():
    whole = measure([HISTORY], everything, 50)
    changed = measure(
        [HISTORY], lambda *_: lambda history: [{**history[0], "content": str(len(history))}, *history[1:]], 50
    )
    assert whole["hit"] > 0.3
    assert changed["hit"] == 0
    assert changed["price"] == pytest.approx(1.25 * changed["sent"], abs=1)


def test_a_history_that_fits_and_was_shortened_all_the_same_is_early():
    assert measure([HISTORY], newest_step, 10_000)["early"] == pytest.approx(1 / 3, abs=0.001)
    assert measure([HISTORY], everything, 10_000)["early"] == 0


def test_a_strategy_that_finds_no_request_is_charged_with_everything():
    def gives_up(_recording, _budget):
        def step(_):
            raise SelectionError("no room")

        return step

    found = measure([HISTORY], gives_up, 50)
    assert found["over"] == found["turns"] == 2
    assert found["price"] == measure([HISTORY], everything, 50)["price"]


def test_notes_show_a_call_but_keep_no_facts():
    note = "[cupel: 2 earlier steps omitted here: read_file src/first.py, second_part]\n"

    def noted(_recording, _budget):
        return lambda history: [
            *history[:2],
            *history[-2:-1],
            {**history[-1], "content": note + history[-1]["content"]},
        ]

    found = measure([HISTORY], noted, 50)
    assert found["trail"] == 1.0
    assert found["whole"] == 0.0


def test_facts_were_told_to_the_model_and_are_not_in_the_task():
    facts, own = facts_of(["main_module", "second_part", "third_part", "hunch-17", "new_word"], HISTORY[:6])
    assert facts == {"second_part", "third_part"}
    assert own == {"hunch-17"}


def test_calls_that_look_alike_count_as_often_as_they_are_shown():
    calls = [call(number, path="a.py")["tool_calls"][0] for number in range(4)]
    assert trail(calls, [call(9, path="a.py")]) == 0.25
    assert trail(calls, [{"role": "user", "content": "a.py " * 9}]) == 0


@pytest.mark.parametrize(
    "window",
    [
        [],
        [TASK, result(1, "without its call")],
        [TASK, call(1, path="a")],
        [TASK, call(1, path="a"), TASK, result(1, "late")],
        [TASK, call(1, path="a"), result(1, "once"), result(1, "twice")],
    ],
)
def test_a_request_that_breaks_a_pair_is_invalid(window):
    assert not is_valid(window)
    assert is_valid(HISTORY)


def test_answers_in_a_row_are_one_step():
    said = [TASK, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}, TASK]
    assert answers([*said, {"role": "assistant", "content": "c"}]) == [1, 4]
    assert [request.at for request in requests(HISTORY, everything, 50)] == [2, 4, 6]


def test_clearing_replaces_old_results_and_keeps_the_newest_three():
    messages = generated(1)
    *_, last = requests(messages, clear, 4_000)
    contents = [one["content"] for one in last.messages if one["role"] == "tool"]
    assert "[Old tool result content cleared]" in contents[:-3]
    assert "[Old tool result content cleared]" not in contents[-3:]


def test_a_chat_has_its_first_speaker_as_the_user():
    turns = [{"content": text} for text in ("Ada: Hello: you?", "Ben: Fine.", "Ada: Good.")]
    assert chat(turns) == [
        {"role": "user", "content": "Hello: you?"},
        {"role": "assistant", "content": "Fine."},
        {"role": "user", "content": "Good."},
    ]


DOWNLOADED = {
    "gpt-4o-airline.json": [
        {"task_id": 4, "traj": [SYSTEM, TASK, {**call(1, path="a.py"), "refusal": None}, result(1, "text")]}
    ],
    "locomo10.json": [
        {
            "sample_id": "conv-1",
            "conversation": {
                "speaker_a": "Ada",
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [
                    {"speaker": "Ada", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a kettle"},
                    {"speaker": "Ben", "dia_id": "D1:2", "text": "Nice."},
                ],
            },
            "qa": [
                {"question": "What did Ada show?", "evidence": ["D1:1", "D9:9"]},
                {"question": "Who else was there?", "evidence": []},
            ],
        }
    ],
    "django__1.traj.json": {
        "messages": [SYSTEM, TASK, call(1, path="a"), result(1, "b"), {"role": "exit", "content": ""}]
    },
    "dubbo__7.traj": {
        "history": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "An example.", "is_demo": True},
            {"role": "user", "content": [{"type": "text", "text": "Mend it."}]},
        ],
        "trajectory": [{"action": "ls", "observation": "a.java", "thought": "First, look."}],
    },
}


def test_downloaded_recordings_become_what_the_targets_read(tmp_path, monkeypatch, capsys):
    files = []
    for name, data in DOWNLOADED.items():
        files.append(tmp_path / name)
        files[-1].write_text(json.dumps(data), "utf-8")
    folder = tmp_path / "recordings"
    monkeypatch.setattr("sys.argv", ["recordings", str(folder), *map(str, files)])
    main()
    assert "tau-bench.jsonl.gz: 1" in capsys.readouterr().out
    found = {kind.title: kind for kind in kinds(folder=folder)}
    assert list(found) == ["coding", "airline", "Java", "chat"]
    assert "refusal" not in found["airline"].sessions[0][2]
    assert [one["role"] for one in found["coding"].sessions[0]] == ["system", "user", "assistant", "tool"]
    java = found["Java"].sessions[0]
    assert [one["content"] for one in java] == ["Be brief.", "Mend it.", "First, look.", "a.java"]
    assert is_valid(java)
    assert json.loads(java[2]["tool_calls"][0]["function"]["arguments"]) == {"command": "ls"}
    (talk,) = read(folder / recordings.EVIDENCE)
    assert talk["items"][0] == {
        "id": "D1:1",
        "content": "Ada: Look! [a kettle]",
        "timestamp": "2023-05-08T13:56:00Z",
        "session": 1,
    }
    assert talk["questions"] == [{"query": "What did Ada show?", "needed": ["D1:1"]}]


def test_a_file_of_something_else_is_refused_by_name(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("[1, 2]", "utf-8")
    with pytest.raises(ValueError, match=r"other\.json: expected a file of tau-bench"):
        list(convert(path))


def test_only_the_half_is_measured_that_no_setting_was_chosen_on(tmp_path):
    path = tmp_path / "sessions" / "own.jsonl.gz"
    path.parent.mkdir()
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for number in range(4):
            said = {"role": "user", "content": str(number)}
            file.write(json.dumps({"session": str(number), "source": "mine", "messages": [said]}) + "\n")
    (kind,) = kinds(folder=tmp_path)
    assert (kind.title, kind.names) == ("mine", ["2", "3"])
    assert kinds(folder=tmp_path / "nothing")[0].title == "generated"
