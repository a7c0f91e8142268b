"""A line may hold a conversation: what is selected are the messages that `fit` keeps."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cupel import ContextBudget
from cupel.batch import BatchError, run_batch
from cupel.cli import main
from cupel.messages import POSITIONS_KEY, fit
from tests.batch.requests import POLICY

LONG = "It went on and on. " * 40
CALL = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CONVERSATIONS = {
    "openai": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": LONG},
        {"role": "user", "content": "Read the file."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "contents"},
    ],
    "anthropic": [
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": LONG}]},
        {"role": "assistant", "content": "Seen."},
        {"role": "user", "content": "And now?"},
    ],
    "openai-responses": [
        {"type": "message", "role": "user", "content": LONG},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "seen"},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": LONG}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "seen"}}}]},
    ],
}
NAMES = list(CONVERSATIONS)


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path, requests):
    path.write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")
    return path


@pytest.mark.parametrize("bare", [True, False])
def test_every_format_is_fitted_as_fit_does_it(tmp_path, bare):
    requests = [
        messages if bare else {"id": name, "messages": messages, "budget": 300}
        for name, messages in CONVERSATIONS.items()
    ]
    path = write(tmp_path / "chats.jsonl", requests)
    done = run_batch(path, tmp_path / "out.jsonl", POLICY, budget=ContextBudget(300, 300), workers=1)
    assert (done.written, done.errors) == (4, 0)
    for name, answer in zip(NAMES, lines_of(tmp_path / "out.jsonl"), strict=True):
        messages = CONVERSATIONS[name]
        fitted = fit(messages, 300, POLICY, forms=False, notes=False)
        assert answer["messages"] == fitted.messages == [messages[place] for place in answer["selected"]]
        assert answer["total_tokens"] == fitted.total_tokens
        assert answer["total_candidates"] == len(messages)
        assert answer.get("id") == (None if bare else name)
        assert "items" not in answer
    assert lines_of(tmp_path / "out.jsonl")[0]["selected"] == [0, 1, 3, 4, 5]  # the call and its result


def test_requests_of_gemini_and_bedrock_have_their_own_names(tmp_path):
    contents = CONVERSATIONS["gemini"]
    messages = [
        {"role": "user", "content": [{"text": "Look."}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "seen"}]}}]},
    ]
    config = {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {}}}}]}
    path = write(tmp_path / "chats.jsonl", [{"contents": contents}, {"messages": messages, "toolConfig": config}])
    run_batch(path, tmp_path / "out.jsonl", POLICY, budget=ContextBudget(2000, 2000), workers=1)
    first, second = lines_of(tmp_path / "out.jsonl")
    assert first["contents"] == contents
    assert (second["messages"], second["toolConfig"]) == (messages, config)


def test_tools_and_system_are_counted_and_come_along(tmp_path):
    tools = [{"name": "f", "description": LONG, "input_schema": {"type": "object", "properties": {}}}]
    plain = {"messages": CONVERSATIONS["anthropic"], "budget": 2000}
    path = write(tmp_path / "chats.jsonl", [plain, {**plain, "tools": tools, "system": LONG}])
    run_batch(path, tmp_path / "out.jsonl", POLICY, workers=1)
    without, with_both = lines_of(tmp_path / "out.jsonl")
    fitted = fit(CONVERSATIONS["anthropic"], 2000, POLICY, tools=tools, system=LONG)
    assert with_both["total_tokens"] == fitted.total_tokens > without["total_tokens"]
    assert (with_both["tools"], with_both["system"]) == (tools, LONG)


BAD = {
    "unknown role": ({"messages": [{"role": "narrator", "content": "x"}]}, "narrator"),
    "no list": ({"messages": {"role": "user"}}, "messages must be a list, got dict"),
    "null": ({"messages": None}, "messages must be a list, got NoneType"),
    "both": ({"messages": [], "items": []}, "items or messages, not both"),
    "no messages": ([1, 2], "messages\\[0\\]"),
    "too little room": ({"messages": CONVERSATIONS["openai"], "budget": 3}, "the pinned messages need"),
    "no object": (7, "a request must be an object, or a list of messages, got int"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_conversation_is_a_bad_row_that_can_be_run_again(tmp_path, name):
    request, message = BAD[name]
    path = write(tmp_path / "chats.jsonl", [request, CONVERSATIONS["openai"]])
    done = run_batch(path, tmp_path / "out.jsonl", POLICY, budget=ContextBudget(300, 300), workers=1)
    assert (done.written, done.errors) == (1, 1)
    (fault,) = lines_of(done.errors_file)
    assert fault["request"] == request
    assert re.search(message, fault["error"])
    again = run_batch(done.errors_file, tmp_path / "again.jsonl", POLICY, budget=ContextBudget(300, 300), workers=1)
    assert lines_of(again.errors_file)[0]["request"] == request


def test_a_bare_list_among_the_errors_is_run_again_with_room(tmp_path):
    path = write(tmp_path / "chats.jsonl", [CONVERSATIONS["openai"]])
    done = run_batch(path, tmp_path / "out.jsonl", POLICY, budget=ContextBudget(3, 3), workers=1)
    again = run_batch(done.errors_file, tmp_path / "again.jsonl", POLICY, budget=ContextBudget(300, 300), workers=1)
    assert (done.errors, again.written) == (1, 1)


def test_messages_have_no_columns(tmp_path):
    path = write(tmp_path / "chats.jsonl", [CONVERSATIONS["openai"]])
    done = run_batch(path, tmp_path / "out.parquet", POLICY, budget=ContextBudget(300, 300), workers=1)
    assert "name an output that ends in .jsonl" in lines_of(done.errors_file)[0]["error"]
    pq.write_table(pa.table({"messages": [["x"]]}), tmp_path / "chats.parquet")
    with pytest.raises(BatchError, match="conversations are read from JSON lines"):
        run_batch(tmp_path / "chats.parquet", tmp_path / "out.jsonl", POLICY, workers=1)


def test_reports_and_the_command(tmp_path, capsys):
    path = write(tmp_path / "chats.jsonl", CONVERSATIONS.values())
    out = tmp_path / "out.jsonl"
    assert main(["batch", str(path), "-o", str(out), "--budget", "300", "--report", "--workers", "1"]) == 0
    assert "4 selections written" in capsys.readouterr().err
    first = lines_of(out)[0]["report"]
    positions = [entry["item"].get("metadata", {}).get(POSITIONS_KEY, []) for entry in first["included"]]
    assert sorted(position for unit in positions for position in unit) == lines_of(out)[0]["selected"]


def test_a_request_of_responses_has_its_own_names(tmp_path):
    request = {"input": CONVERSATIONS["openai-responses"], "instructions": LONG, "budget": 2000}
    rows = [request, {**request, "instructions": "Be brief."}, {"items": [], "input": "a question", "budget": 9}]
    run_batch(write(tmp_path / "chats.jsonl", rows), tmp_path / "out.jsonl", POLICY, workers=1)
    long, short, items = lines_of(tmp_path / "out.jsonl")
    assert long["input"] == short["input"] == CONVERSATIONS["openai-responses"]
    assert long["total_tokens"] > short["total_tokens"]
    assert items["input"] == "a question"  # a field like any other beside items
