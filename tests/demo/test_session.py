"""The session that ships with the package."""

import json
from collections import Counter

import pytest

import cupel.policy
from cupel.cli._reading import read_items
from cupel.demo import conversation, session_items, session_policy, session_text
from cupel.tokens import default_counter


def test_it_is_what_the_command_reads(tmp_path):
    file = tmp_path / "session.jsonl"
    file.write_text(session_text(), encoding="utf-8")
    assert read_items([str(file)], default_counter()).items == session_items()


def test_it_shows_what_selections_are_about():
    items = session_items()
    kinds = {str(item.kind) for item in items}
    assert len(items) == 120
    assert kinds == {"SystemPrompt", "Message", "Document", "ToolOutput", "Memory"}
    assert sum(item.pinned for item in items) == 2
    assert len({item.content for item in items}) == 117
    assert any(item.tokens == 0 for item in items)
    assert any(item.tokens < 0 for item in items)


def test_its_counts_are_exact():
    tokens = pytest.importorskip("cupel.tokens")
    pytest.importorskip("tiktoken")
    counter = tokens.TiktokenCounter("o200k_base")
    for item in session_items():
        if item.tokens > 0:
            assert item.tokens == counter.count(item.content)


def test_its_policy_is_valid_and_named():
    assert session_policy().name == "coding-agent"
    assert json.loads(cupel.policy.dumps(session_policy()))["overflow"] == "truncate"


def test_as_a_conversation_documents_are_read_and_outputs_come_from_the_shell():
    calls = [call for message in conversation() for call in message.get("tool_calls") or ()]
    kinds = Counter(str(item.kind) for item in session_items())
    assert Counter(call["function"]["name"] for call in calls) == {
        "read_file": kinds["Document"],
        "shell": kinds["ToolOutput"],
    }
