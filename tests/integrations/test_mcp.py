"""The MCP server, through a real client."""

import asyncio
import json
import os
import re
import sys
from dataclasses import fields
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

from cupel import ContextItem
from cupel._internal.documents import ITEM
from cupel.integrations.mcp import Candidate, server
from cupel.messages import fit

ITEMS = [
    {"content": "Answer in one sentence.", "kind": "SystemPrompt", "pinned": True, "tokens": 5},
    {"content": "a long story " * 40, "tokens": 160, "timestamp": "2026-01-01T10:00:00Z"},
    {"content": "How is the weather?", "timestamp": "2026-01-01T11:00:00Z", "tokens": 5},
]


def ask(tool: str, arguments: dict[str, Any], target: Any = None) -> Any:
    async def run() -> Any:
        async with Client(target or server()) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(run())


def test_a_candidate_has_the_fields_of_every_other_form_of_an_item():
    assert [field.name for field in fields(Candidate)] == [field.name for field in ITEM.fields]
    assert Candidate("a", 1).item() == ContextItem("a", 1)


def test_both_tools_are_offered_with_their_arguments():
    async def run() -> Any:
        async with Client(server()) as client:
            return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in asyncio.run(run())}
    assert set(tools) == {"explain", "select"}
    assert set(tools["select"].input_schema["required"]) == {"items", "max_tokens"}
    assert "preset" in tools["select"].description
    for tool in tools.values():
        assert tool.input_schema["additionalProperties"] is False
        assert tool.input_schema["$defs"]["Candidate"]["additionalProperties"] is False


def test_select_gives_the_items_in_order():
    result = ask("select", {"items": ITEMS, "max_tokens": 50})
    assert not result.is_error
    assert [entry["position"] for entry in result.structured_content["selected"]] == [0, 2]
    assert result.structured_content["total_tokens"] == 10
    assert result.structured_content["left_out"] == 1


def test_explain_gives_every_item_a_reason():
    decisions = ask("explain", {"items": ITEMS, "max_tokens": 50}).structured_content["decisions"]
    assert [(entry["selected"], entry["reason"]) for entry in decisions] == [
        (True, "Pinned"),
        (False, "BudgetExceeded"),
        (True, "Scored"),
    ]


def test_a_policy_document_is_taken_as_well_as_a_name():
    newest = {"scorer": "recency", "overflow": "truncate"}
    for policy in (newest, "rag"):
        assert not ask("select", {"items": ITEMS, "max_tokens": 500, "policy": policy}).is_error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "chatty"}, "policy must be a policy document or one of agent, chat, code-review"),
        ({"policy": {"scorer": "nonsense"}}, "nonsense"),
        ({"max_tokens": -1}, "max_tokens must be >= 0"),
        ({"items": [{"content": "a"}, {"content": ""}]}, "items[1].content must not be empty"),
        (
            {"items": [{"content": "a", "tokens": -1}]},
            "items[0].tokens must be >= 0, or left out to be counted, got -1",
        ),
        ({"items": [{"content": "a", "priorty": 1}]}, "items.0.priorty"),
        ({"max_token": 100}, "max_token\n"),
        ({"output_reserve": -1}, "output_reserve must be >= 0"),
        ({"max_tokens": 4}, "Pinned items require 5 tokens, but only 4 are available"),
    ],
)
@pytest.mark.parametrize("tool", ["explain", "select"])
def test_a_bad_request_is_answered_with_the_error(tool: str, change: dict[str, Any], message: str):
    result = ask(tool, {"items": ITEMS, "max_tokens": 50, **change})
    assert result.is_error
    assert message in result.content[0].text


def test_the_module_serves_standard_input_and_output():
    command = StdioServerParameters(command=sys.executable, args=["-m", "cupel.integrations.mcp"])
    result = ask("select", {"items": ITEMS, "max_tokens": 50}, stdio_client(command))
    assert result.structured_content["total_tokens"] == 10


def recorded(folder, name, count, at):
    """Write a recording of a conversation that was cut, as `cupel watch --recall` does; return its history."""
    history: list[Any] = [{"role": "user", "content": f"{name}: read all parts."}]
    for number in range(count):
        function = {"name": "read_file", "arguments": f'{{"path": "{name}_{number}.txt"}}'}
        call = {"id": f"c{number}", "type": "function", "function": function}
        history.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = "\n".join(f"{name} {number}.{line}" for line in range(40))
        history.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    sent = fit(history, 1200, provider="openai", recall=True)
    forms = [(at, one) for at, one in zip(sent.positions, sent.messages, strict=True) if one not in history]
    answer = {"role": "assistant", "content": "I look."}
    document = {"provider": "openai", "messages": [*history, answer], "answered": 1, "forms": forms, "turns": []}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    os.utime(path, (at, at))
    return history, forms


def test_recall_answers_from_the_newest_recording_that_shows_an_id(tmp_path):
    _, old = recorded(tmp_path, "old", 20, 1)
    history, shown = recorded(tmp_path, "new", 12, 2)
    (tmp_path / "other.json").write_text('{"#": "018a9 is no recording, #018a9"}')
    at, name = next((at, found[1]) for at, one in shown if (found := re.search(r", #(\w+)\]", one["content"])))

    def said(**arguments):
        result = ask("recall", arguments, server(tmp_path))
        assert not result.is_error
        return result.content[0].text

    assert said(id=name) == history[at]["content"]
    assert said(id=f"#{name}", line=40) == history[at]["content"].splitlines()[-1]
    assert "new 2.7" in said(text="2.7")
    older = set(re.findall(r"#(\w+)", json.dumps(old))) - set(re.findall(r"#(\w+)", json.dumps(shown)))
    assert "old" in said(id=min(older))


def test_recall_says_what_it_takes_where_nothing_has_an_id(tmp_path):
    for arguments in ({"id": "abcde"}, {}):
        told = ask("recall", arguments, server(tmp_path)).content[0].text
        assert f"no conversation in {tmp_path} shows" in told
    assert ask("recall", {"id": 7}, server(tmp_path)).is_error
