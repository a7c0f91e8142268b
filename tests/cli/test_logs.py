"""`cupel replay` and `cupel inspect` on the logs of agents."""

import json
import re

import pytest

from tests.evaluation.logs import ClaudeLog, CodexLog


@pytest.fixture
def claude(folder):
    log = ClaudeLog()
    log.prompt("Find the bug in the parser.", 8)
    log.wait(1000)
    log.prompt("Go on, please.", 8)
    log.compact("They looked for a bug.")
    log.prompt("Fix it.", 2)
    return log.save(folder / ".claude/projects/work/aaaa.jsonl")


@pytest.fixture
def codex(folder):
    log = CodexLog()
    log.prompt("Measure the notes.", 8)
    log.model = "another-model"
    log.prompt("Once more.", 4)
    return log.save(folder / ".codex/sessions/2026/01/02/rollout-bbbb.jsonl")


@pytest.fixture
def at_home(folder, monkeypatch, claude, codex):
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)


def test_without_arguments_it_tells_what_the_agents_of_this_user_cost(cupel, at_home):
    done = cupel("replay")
    assert done.code == 0
    first, _, *rows = done.out.split("\n\n")[0].splitlines()
    assert first == "2 conversations, 35 requests, by the provider's own count"
    assert [re.split(r"\s{2,}", row)[1] for row in rows[:2]] == ["claude-sonnet-5", "gpt-5.1, another-model"]
    causes = done.out.split("\n\n")[2]
    assert re.search(r"idle beyond the time to live +[\d,]+ +[\d,]+ +1 +[\d,]+ in request 10 of Find the bug", causes)
    assert re.search(r"model switched +[\d,]+ +[\d,]+ +1 +[\d,]+ in request 10 of Measure the notes", causes)
    assert "after 0:16:4" in causes


def test_the_folders_of_the_agents_can_be_elsewhere(cupel, at_home, folder, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(folder / "nowhere"))
    assert "1 conversation, 21 requests" in cupel("replay").out
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder / "nowhere"))
    done = cupel("replay")
    assert done.code == 2
    assert "SESSIONS is missing, and there are no logs in " in done.err
    assert "nowhere/projects or " in done.err


def test_an_agent_without_a_conversation_hides_no_other(cupel, at_home, codex, claude):
    codex.unlink()
    assert "1 conversation, 21 requests" in cupel("replay").out
    codex.write_text('{"type": "session_meta", "payload": {"id": "x"}, "timestamp": "2026-01-02T00:00:00Z"}\n')
    assert "1 conversation, 21 requests" in cupel("replay").out
    claude.unlink()
    done = cupel("replay")
    assert done.code == 2
    assert "projects: no recording (*.json) and no log of Claude Code or Codex" in done.err
    assert "1 log without an answer of a model" in done.err


def test_the_same_as_a_document(cupel, at_home):
    document = cupel("replay", ".claude/projects", ".codex/sessions", "--format", "json").json
    claude, codex = document["conversations"]
    assert claude["log"].endswith("aaaa.jsonl")
    causes = {one["cause"]: one for one in document["causes"]}
    assert codex["requests"][9]["causes"]["model switched"] == causes["model switched"]["tokens"]
    for one in (claude, codex):
        assert (
            one["sent"] == one["read"] + one["rewritten"] + one["new"] == sum(call["sent"] for call in one["requests"])
        )
        assert one["rewritten"] == sum(sum(call["causes"].values()) for call in one["requests"])
    assert causes["idle beyond the time to live"]["dearest"][0]["request"] == 10
    assert "strategies" not in document


def test_a_budget_is_replayed_beside_what_was(cupel, claude):
    done = cupel("replay", ".claude/projects", "--budget", "4k")
    assert done.code == 0
    assert "1 conversation, 10 turns over 4,000 tokens" in done.out
    table = done.out.split("turns over 4,000 tokens\n")[1].split("\n\n")[0].splitlines()
    assert [row.split()[0] for row in table] == ["strategy", "as", "session"]
    document = cupel("replay", ".claude/projects", "--budget", "4k", "--format", "json").json
    assert [one["name"] for one in document["strategies"]] == ["logged", "session"]
    assert len(document["conversations"]) == 1


def test_many_conversations_are_replayed_by_several_processes(cupel, folder, monkeypatch):
    monkeypatch.setattr("cupel.cli._measuring._FEW", 10)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    for number in range(3):
        log = ClaudeLog(session=f"{number}")
        log.prompt(f"Find bug {number} in the parser.", 8)
        log.save(folder / f"logs/{number}.jsonl")
    apart = cupel("replay", "logs", "--budget", "3k", "--page", "apart.html")
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    alone = cupel("replay", "logs", "--budget", "3k", "--page", "alone.html")
    assert apart.out == alone.out
    assert folder.joinpath("apart.html").read_text() == folder.joinpath("alone.html").read_text()


def test_a_conversation_that_cannot_be_replayed_is_named_and_left_out(cupel, claude, codex):
    codex.write_text(re.sub(r'"arguments": "(.*?[^\\\\])"', '"arguments": 1.5', codex.read_text()))
    done = cupel("replay", ".claude/projects", ".codex/sessions", "--budget", "4k")
    assert done.code == 0
    assert "cupel replay: left out .codex/sessions/2026/01/02/rollout-bbbb.jsonl, Measure the notes." in done.err
    done = cupel("replay", ".codex/sessions", "--budget", "4k")
    assert done.code == 2
    assert "no conversation can be replayed" in done.err


@pytest.mark.parametrize("budget", [[], ["--budget", "4k"]])
def test_a_page_shows_every_request_and_why_the_cache_was_missed(cupel, claude, folder, budget):
    done = cupel("replay", ".claude/projects", *budget, "--page", "page.html", "--quiet")
    assert done.err == "wrote page.html\n"
    text = folder.joinpath("page.html").read_text()
    turns = json.loads(re.search(r'id="payload">(.*?)</script>', text, re.DOTALL)[1])["turns"]
    assert turns["budget"] == (4_000 if budget else None)
    first, second = turns["conversations"]
    assert first["misses"][0]["cause"] == "idle beyond the time to live"
    assert first["strategies"][0][first["misses"][0]["turn"]]["reason"].endswith("idle beyond the time to live")
    assert second["name"].endswith(", part 2")
    assert not any(turn.get("over") for turn in first["strategies"][0]) or budget


def test_only_logs_can_do_without_a_budget(cupel, folder, claude):
    folder.joinpath("chat.json").write_text(
        '[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "?"}]'
    )
    done = cupel("replay", "chat.json")
    assert done.code == 2
    assert "--budget is missing: only the logs of Claude Code and Codex say what they cost" in done.err
    assert cupel("replay", "chat.json", ".claude/projects").code == 2


def test_lines_that_cannot_be_read_are_told_on_standard_error(cupel, claude):
    claude.write_text(claude.read_text() + "{\n")
    done = cupel("replay", ".claude/projects")
    assert done.code == 0
    assert done.err == "cupel replay: warning: 1 line of 1 log not read: 1 × no JSON object of a log (aaaa.jsonl:49)\n"


def test_a_conversation_of_a_log_is_inspected(cupel, codex, folder):
    done = cupel("inspect", codex, "--budget", "2000", "-o", "page.html")
    assert done.code == 0
    assert "Measure the notes." in folder.joinpath("page.html").read_text()


def test_of_several_conversations_one_is_chosen(cupel, claude):
    done = cupel("inspect", claude, "--budget", "2000", "-o", "page.html")
    assert done.code == 2
    assert "ITEMS has 2 conversations: choose one with --conversation" in done.err
    assert cupel("inspect", claude, "--budget", "2000", "--conversation", "2", "-o", "page.html").code == 0
