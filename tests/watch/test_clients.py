"""Coding agents as they are installed, before the proxy; `make test-watch-node` installs them and says where they are.

They know no other address than the proxy's, and their provider is on loopback: no model is asked.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.messages.provider_rules import violations
from tests.watch.caching import CachingProvider
from tests.watch.provider import AgentProvider
from tests.watch.upstream import running

FOLDER = os.environ.get("CUPEL_NODE_SDKS", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="CUPEL_NODE_SDKS names no folder with the agents")

TASK = "Read every file of notes."
FILES = 14
KEY = "sk-live-SECRET-0123456789"
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}
PROVIDERS = {"claude": "anthropic", "codex": "openai-responses", "opencode": "anthropic"}
BUDGETS = {"claude": 30_000, "codex": 16_000, "opencode": 16_000}


def command(agent, tmp_path):
    """Return the command line of an agent."""
    program = str(Path(FOLDER).resolve() / "node_modules" / ".bin" / agent)
    if agent == "claude":
        return [program, "-p", TASK, "--allowedTools", "Read"]
    if agent == "codex":
        safe = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [program, "exec", "-m", "gpt-5.1", *safe, TASK]
    script = tmp_path / "agent.sh"  # which puts the proxy's address into opencode's configuration
    options = {"baseURL": "$ANTHROPIC_BASE_URL", "apiKey": "$ANTHROPIC_API_KEY"}
    config = {"autoupdate": False, "share": "disabled", "provider": {"anthropic": {"options": options}}}
    quoted = json.dumps(json.dumps(config))
    line = f'OPENCODE_CONFIG_CONTENT={quoted} exec "{program}" run -m anthropic/claude-sonnet-4-5 "{TASK}"'
    script.write_text(f"#!/bin/sh\n{line}\n")
    script.chmod(0o755)
    return [str(script)]


def run(agent, tmp_path, *options, arguments=(), **failures):
    """Let an agent read the files; return what arrived at the provider, and what the proxy said."""
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir(parents=True)
    home.mkdir()
    paths = [work / f"notes_{number}.txt" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_text("".join(f"note {number}.{line}: value_{number * line} was measured\n" for line in range(150)))
    provider = AgentProvider([str(path) for path in paths], CachingProvider(PROVIDERS[agent]), **failures)
    with running(provider) as upstream:
        program = [*command(agent, tmp_path), *arguments]
        names = ("HOME", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
        environment = {"PATH": os.environ["PATH"], **dict.fromkeys(names, str(home)), **QUIET}
        environment |= {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
        environment |= {"ANTHROPIC_BASE_URL": upstream.url, "OPENAI_BASE_URL": f"{upstream.url}/v1"}
        watch = [sys.executable, "-m", "cupel", "watch", "--record", str(tmp_path / "windows"), *options, "--"]
        done = subprocess.run(
            [*watch, *program],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "Hello there." in done.stdout
    return upstream.received, done.stderr.splitlines()


def main_turns(folder):
    """Return the branch of the task itself: agents also ask for titles and the like."""
    branches = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return max(branches, key=lambda branch: len(branch["turns"]))


@pytest.mark.parametrize("agent", BUDGETS)
def test_looking_changes_nothing_and_governing_breaks_nothing(agent, tmp_path):
    _, looked_lines = run(agent, tmp_path / "looking")
    assert looked_lines[-1].startswith("0 requests changed: 0 tokens saved")
    assert looked_lines[-1].endswith("; 0 calls not read")
    looked = main_turns(tmp_path / "looking" / "windows")
    assert len(looked["turns"]) == FILES + 1
    assert {turn["status"] for turn in looked["turns"]} == {200}

    received, lines = run(agent, tmp_path / "governing", "--budget", str(BUDGETS[agent]))
    assert lines[-1].endswith("; 0 calls not read")
    assert "not governed" not in "".join(lines)
    governed = main_turns(tmp_path / "governing" / "windows")
    assert len(governed["turns"]) == FILES + 1
    assert {turn["status"] for turn in governed["turns"]} == {200}
    assert [note for turn in governed["turns"] for note in turn["notes"]] == []
    assert any(turn["window"] is not None for turn in governed["turns"])
    field = "input" if agent == "codex" else "messages"
    full = governed["messages"]
    for one in received:
        if one.body and field in one.json:
            assert violations(governed["provider"], one.json[field], full) == []
    prices = [
        sum((turn["appended"] or turn["bill"])["price"] for turn in branch["turns"]) for branch in (looked, governed)
    ]
    assert prices[1] == pytest.approx(prices[0], rel=0.03)
    assert KEY not in "".join(path.read_text() for path in tmp_path.glob("*/windows/*"))


def parameters(received):
    """What each model call asks for beside its messages."""
    calls = [one.json for one in received if one.body and one.line.startswith("POST")]
    names = ("model", "max_tokens", "stream", "thinking", "tool_choice")
    return [{name: call.get(name) for name in names} | {"tools": len(call.get("tools") or ())} for call in calls]


@pytest.mark.parametrize("agent", BUDGETS)
def test_a_stream_that_is_cut_is_asked_for_again_as_without_a_budget(agent, tmp_path):
    looked, _ = run(agent, tmp_path / "looking", cut=10)
    governed, lines = run(agent, tmp_path / "governing", "--budget", str(BUDGETS[agent]), cut=10)
    assert "not governed" not in "".join(lines)
    assert changed(lines) > 1
    # opencode asks for a title beside the task: its call may come before another or after it
    assert sorted(parameters(governed), key=repr) == sorted(parameters(looked), key=repr)


def test_an_answer_that_is_not_streamed_in_place_of_an_empty_stream(tmp_path):
    looked, _ = run("claude", tmp_path / "looking", cut=10, left=0)
    governed, lines = run("claude", tmp_path / "governing", "--budget", str(BUDGETS["claude"]), cut=10, left=0)
    assert changed(lines) > 1
    assert {call["stream"] for call in parameters(looked)} == {True, None}
    assert parameters(governed) == parameters(looked)


def test_a_fallback_to_another_model_has_its_own_parameters(tmp_path):
    options = {"arguments": ["--model", "claude-opus-4-8", "--fallback-model", "claude-haiku-4-5"], "busy": 10}
    looked, _ = run("claude", tmp_path / "looking", **options)
    governed, lines = run("claude", tmp_path / "governing", "--budget", str(BUDGETS["claude"]), **options)
    assert changed(lines) > 1
    opus, haiku = each_kind(looked)
    assert opus["model"] != haiku["model"]
    assert opus["max_tokens"] != haiku["max_tokens"]
    assert each_kind(governed) == [opus, haiku]


def changed(lines):
    """How many requests were changed, as the last line says."""
    return int(lines[-1].split()[0].replace(",", ""))


def each_kind(received):
    """Every set of parameters once, in the order of their first requests."""
    found = parameters(received)
    return [one for at, one in enumerate(found) if one not in found[:at]]
