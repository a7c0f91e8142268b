"""The logs of Claude Code and Codex: conversations, their cost, and why the cache was missed."""

import json
from itertools import pairwise

import pytest

from cupel.errors import ConfigurationWarning
from cupel.evaluation import EvaluationError, LoggedStrategy, SessionStrategy, TailStrategy, read_recordings, replay
from tests.evaluation.logs import ClaudeLog, CodexLog

IDLE, MODEL, OPENING = "idle beyond the time to live", "model switched", "instructions or tools changed"
COMPACTED, EDITED, TAIL = "compaction", "messages edited or rewound", "end of the last request not cached"
LOGS = [ClaudeLog, CodexLog]


def begun(make):
    log = make()
    log.prompt("Find the bug in the parser.", 6)
    log.prompt("Find more.", 6)
    return log


def idle(log):
    log.wait(1000)


def switch(log):
    log.model = "another-model"


def new_tool(log):
    log.tools = [*log.tools, log.tool("write")]


def another_prompt(log):
    log.instructions = "You are another agent, with more to obey. " * 140


def causes_of(recordings):
    found = {}
    for recording in recordings:
        for call in recording.calls:
            for cause, tokens in call.causes.items():
                found[cause] = found.get(cause, 0) + tokens
    return found


@pytest.mark.parametrize("make", LOGS)
@pytest.mark.parametrize(
    ("change", "cause"), [(idle, IDLE), (switch, MODEL), (new_tool, OPENING), (another_prompt, OPENING)]
)
def test_a_miss_is_attributed_to_its_cause(make, change, cause, tmp_path):
    log = begun(make)
    change(log)
    log.reason = cause
    log.prompt("And now?", 3)
    found = causes_of(read_recordings(log.save(tmp_path / "log.jsonl")))
    assert log.truth[cause] > 4_000
    assert is_near(found.pop(cause), log.truth[cause], cause)
    assert set(found) <= {TAIL}


def is_near(found, truth, cause):
    """Whether tokens are attributed: other instructions and tools are counted too, although they are new."""
    return 0.95 * truth < found < 1.05 * truth + (1_500 if cause == OPENING else 0)


@pytest.mark.parametrize("make", LOGS)
def test_nothing_is_missed_in_a_conversation_that_goes_on(make, tmp_path):
    log = begun(make)
    (recording,) = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert set(causes_of([recording])) <= {TAIL}
    assert sum(call.bill.rewritten for call in recording.calls) == sum(log.truth.values())
    assert all(call.bill.settled for call in recording.calls)
    assert [call.at for call in recording.calls] == [
        at
        for at, (before, message) in enumerate(pairwise(recording.messages), 1)
        if wrote(message) and not wrote(before)
    ]


def wrote(message):
    """Whether the model wrote a message."""
    return message.get("role") == "assistant" or message.get("type") in {"reasoning", "function_call"}


@pytest.mark.parametrize("make", LOGS)
def test_causes_are_kept_apart_in_one_conversation(make, tmp_path):
    log = begun(make)
    for change, cause in ((idle, IDLE), (switch, MODEL), (new_tool, OPENING), (idle, IDLE)):
        change(log)
        log.reason = cause
        log.prompt("And now?", 3)
    found = causes_of(read_recordings(log.save(tmp_path / "log.jsonl")))
    found.pop(TAIL, None)
    log.truth.pop("")
    assert found.keys() == log.truth.keys()
    assert all(is_near(found[cause], tokens, cause) for cause, tokens in log.truth.items())


def test_a_compaction_of_claude_code_begins_with_the_summary_and_the_lines_that_stay(tmp_path):
    log = begun(ClaudeLog)
    log.compact("They looked for a bug.", keep=3)
    log.reason = COMPACTED
    log.prompt("Go on.", 2)
    first, second = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert second.messages[0]["content"] == "They looked for a bug."
    assert second.messages[1:3] == first.messages[-2:]
    assert second.replay_from == second.calls[0].at == 4
    assert set(causes_of([second])) == {COMPACTED}
    assert second.calls[0].bill.read > 0  # the system prompt and the tools


def test_a_compaction_of_codex_costs_a_request_without_tools(tmp_path):
    log = begun(CodexLog)
    log.compact("They looked for a bug.")
    log.reason = COMPACTED
    log.prompt("Go on.")
    first, second = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert first.calls[-1].causes[COMPACTED] == pytest.approx(log.truth["compaction"], rel=0.05)
    assert second.messages[0]["content"][0]["text"] == "Find the bug in the parser."
    assert set(causes_of([second])) <= {COMPACTED, TAIL}


def test_going_back_in_claude_code_is_another_part(tmp_path):
    log = ClaudeLog()
    log.prompt("Find the bug in the parser.", 3)
    place, messages = log.prompt("What did you see?"), len(log.history)
    log.prompt("Do it.", 3)
    log.rewind(place, messages)
    log.prompt("Do something else.")
    first, second = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert second.messages[:messages] == first.messages[:messages]
    assert second.messages[messages]["content"] == "Do something else."
    assert len(second.calls) == 1
    assert set(causes_of([first, second])) <= {EDITED, TAIL}


@pytest.mark.parametrize("turns", [1, 2, 9])
def test_going_back_in_codex_drops_the_newest_prompts(turns, tmp_path):
    log = CodexLog()
    for prompt in ("One.", "Two.", "Three."):
        log.prompt(prompt, 1)
    log.line("event_msg", type="thread_rolled_back", num_turns=turns)
    prompts = [at for at, one in enumerate(log.history) if one.get("role") == "user"]
    del log.history[prompts[max(0, 3 - turns)] :]
    log.prompt("Other.")
    found = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert [plain(one) for one in found[-1].messages] == [plain(one) for one in log.history]


def plain(item):
    return {name: value for name, value in item.items() if name != "id"}


def test_a_file_of_codex_continues_another_one_from_one_of_its_lines(tmp_path):
    log = CodexLog(thread="one")
    log.prompt("One.", 2)
    at, messages = log.ordinal, len(log.history)
    log.prompt("Two.")
    log.save(tmp_path / "rollout-1.jsonl")
    log.lines.clear()
    del log.history[messages:]
    log.line("session_meta", id="one", history_base={"thread_id": "one", "end_ordinal_exclusive": at})
    log.prompt("Other.")
    log.save(tmp_path / "rollout-2.jsonl")
    first, second = read_recordings(tmp_path)
    assert first.where == second.where
    assert second.messages[:messages] == first.messages[:messages]
    assert len(second.messages) == messages + 2
    assert set(causes_of([second])) <= {EDITED, TAIL}


def test_agents_below_another_one_are_conversations_of_their_own(tmp_path):
    log = begun(ClaudeLog)
    main, history = log.last, log.history
    log.last, log.history, log.sidechain = None, [], True
    log.prompt("Look for the parser.", 2)
    log.last, log.history, log.sidechain = main, history, False
    log.prompt("Go on.")
    recordings = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert sorted(len(one.calls) for one in recordings) == [3, 15]
    assert len({one.where for one in recordings}) == 2
    assert set(causes_of(recordings)) <= {TAIL}


def test_a_copied_conversation_is_counted_once(tmp_path):
    log = begun(ClaudeLog)
    log.save(tmp_path / "first.jsonl")
    log.prompt("Go on.")
    log.save(tmp_path / "second.jsonl")
    recordings = read_recordings(tmp_path)
    assert sorted(len(one.calls) for one in recordings) == [1, 14]
    assert len(max(recordings, key=lambda one: len(one.messages)).messages) == len(log.history)


def test_lines_that_are_written_again_are_passed_over(tmp_path):
    log = begun(ClaudeLog)
    log.lines += log.lines[3:9]
    (recording,) = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert len(recording.messages) == len(log.history)


def test_the_blocks_of_an_answer_are_one_message_with_one_usage(tmp_path):
    log = ClaudeLog()
    log.prompt("Find the bug in the parser.")
    (recording,) = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert [block["type"] for block in recording.messages[-1]["content"]] == ["thinking", "text"]
    assert len(recording.calls) == 1


def test_what_claude_code_writes_itself_is_no_request(tmp_path):
    log = begun(ClaudeLog)
    log.line(
        "assistant",
        message={
            "id": "x",
            "role": "assistant",
            "model": "<synthetic>",
            "content": [{"type": "text", "text": "No response requested."}],
            "usage": {"input_tokens": 0, "output_tokens": 0},
        },
    )
    log.line("attachment", attachment={"type": "file", "content": {"text": "a file"}})
    log.history += [{"role": "assistant", "content": "No response requested."}, {"role": "user", "content": "a file"}]
    log.prompt("Go on.")
    (recording,) = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert len(recording.calls) == 15
    assert "a file" in recording.messages[-3]["content"]


def test_the_provider_says_itself_why_the_cache_was_missed(tmp_path):
    log = begun(ClaudeLog)
    switch(log)
    log.prompt("Go on.")
    told = {"cache_miss_reason": {"type": "messages_changed", "cache_missed_input_tokens": 9}}
    log.lines = [
        line.replace('"model": "another-model"', f'"diagnostics": {json.dumps(told)}, "model": "x"')
        for line in log.lines
    ]
    assert set(causes_of(read_recordings(log.save(tmp_path / "log.jsonl")))) == {EDITED}


def test_a_cache_of_an_hour_is_not_missed_sooner(tmp_path):
    log = begun(ClaudeLog)
    hour = '"cache_creation": {"ephemeral_1h_input_tokens": 5}, "cache_creation_input_tokens"'
    log.lines = [line.replace('"cache_creation_input_tokens"', hour) for line in log.lines]
    log.wait(1000)
    log.prompt("Go on.")
    (recording,) = read_recordings(log.save(tmp_path / "log.jsonl"))
    assert IDLE not in causes_of([recording])
    bill = recording.calls[0].bill
    assert bill.price == 2 * bill.sent


def test_a_miss_without_a_reason_in_the_log_is_called_that(tmp_path):
    log = begun(CodexLog)
    log.cache.expire()
    log.prompt("Go on.")
    found = causes_of(read_recordings(log.save(tmp_path / "log.jsonl")))
    assert found["no cause in the log"] > 5_000
    assert set(found) == {"no cause in the log", TAIL}


def test_instructions_do_not_change_in_the_middle_of_a_task(tmp_path):
    log = begun(ClaudeLog)
    log.user("Go on.")
    log.steps(3, 40)
    log.cache.expire()
    log.steps(3, 40)
    found = causes_of(read_recordings(log.save(tmp_path / "log.jsonl")))
    assert set(found) == {"no cause in the log"}


def test_lines_that_cannot_be_read_are_counted_and_named(tmp_path):
    log = begun(ClaudeLog)
    log.lines[3:3] = ["{", "not JSON", "[1]", "", '{"type": "weather", "sessionId": "s"}']
    log.line("assistant", message={"role": "assistant"})
    log.save(tmp_path / "a/log.jsonl")
    (tmp_path / "other.jsonl").write_text('{"messages": []}\n')
    with pytest.warns(ConfigurationWarning) as warned:
        (recording,) = read_recordings(tmp_path)
    assert len(recording.calls) == 14
    assert str(warned[0].message).startswith("5 lines of 1 log not read: 3 × no JSON object of a log (log.jsonl:4); ")
    assert "1 × of type 'weather' (log.jsonl:8)" in str(warned[0].message)
    assert "1 × of type 'assistant' without 'id' (log.jsonl:" in str(warned[0].message)


def test_a_folder_without_logs_says_where_it_looked(tmp_path):
    with pytest.raises(EvaluationError, match=r"no recording .* and no log of Claude Code or Codex .* in ") as raised:
        read_recordings(tmp_path)
    assert str(tmp_path.resolve()) in str(raised.value)


def test_logs_without_an_answer_are_an_error(tmp_path):
    log = ClaudeLog()
    log.user("Hello?")
    log.save(tmp_path / "log.jsonl")
    with pytest.raises(EvaluationError, match="1 log without an answer of a model"):
        read_recordings(tmp_path)


@pytest.mark.parametrize("make", LOGS)
def test_a_budget_is_compared_in_the_providers_tokens(make, tmp_path):
    log = begun(make)
    log.wait(1000)
    log.prompt("Go on.", 9)
    recordings = read_recordings(log.save(tmp_path / "log.jsonl"))
    largest = max(call.bill.sent for call in recordings[0].calls)
    strategies = {"logged": LoggedStrategy(), "tail": TailStrategy(), "session": SessionStrategy()}
    found = replay(recordings, strategies, round(0.7 * largest))
    logged, tail, session = (found.figures[name] for name in strategies)
    assert logged.over >= logged.turns - 1 > 3
    assert {turn.at: turn.price for turn in found.strategies["logged"]} == {
        call.at: call.bill.price for call in recordings[0].calls
    }
    assert tail.over == session.over == 0
    assert 0.5 * largest < session.sent < 0.7 * largest
    assert session.failed == 0


def test_a_request_that_the_log_does_not_price_has_no_figures(tmp_path):
    log = begun(CodexLog)
    log.message("user", "Hello?")
    log.message("assistant", "Yes.")
    (recording,) = read_recordings(log.save(tmp_path / "log.jsonl"))
    turns = replay(recording, {"logged": LoggedStrategy()}, 1).strategies["logged"]
    assert turns[-1].failure == "the log does not say what this request cost"
    assert all(turn.failure is None for turn in turns[:-1])
