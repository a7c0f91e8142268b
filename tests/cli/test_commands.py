"""What each command prints, and that its JSON says the same as the library."""

import json
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest

from cupel import ContextBudget, KnapsackSlice, Pipeline, presets
from cupel import policy as policies
from cupel.analytics import find_min_budget_for, get_marginal_items
from cupel.cli._main import COMMANDS
from cupel.demo import session_items, session_policy
from cupel.tokens import CharacterEstimate

BUDGET = ContextBudget(4000, 4000)


def contents(rows) -> list[str]:
    return [row["content"] for row in rows]


class TestSelect:
    def test_text_is_the_context_and_the_summary_goes_elsewhere(self, cupel, session):
        outcome = cupel("select", session, "--budget", "4000")
        selected = presets.chat().run(session_items(), BUDGET)
        assert outcome.code == 0
        assert outcome.out == "\n\n".join(item.content for item in selected) + "\n"
        assert outcome.err.startswith(f"chat: {len(selected)} of 120 items in, ")

    def test_json_and_jsonl_can_be_read_again(self, cupel, session, folder):
        cupel("select", session, "--budget", "4000", "--format", "json", "-o", "once.json")
        cupel("select", session, "--budget", "4000", "--format", "jsonl", "-o", "once.jsonl")
        expected = [item.content for item in presets.chat().run(session_items(), BUDGET)]
        for name in ("once.json", "once.jsonl"):
            again = cupel("select", name, "--budget", "999999", "--format", "json")
            assert contents(again.json["items"]) == expected

    def test_budget_options_are_those_of_a_context_budget(self, cupel, session):
        outcome = cupel(
            "select",
            session,
            "--budget",
            "3000",
            "--max",
            "4000",
            "--reserve",
            "1500",
            "--margin",
            "5",
            "--format",
            "json",
        )
        budget = ContextBudget(4000, 3000, output_reserve=1500, estimation_safety_margin_percent=5)
        expected = presets.chat().select(session_items(), budget)
        assert contents(outcome.json["items"]) == [item.content for item in expected.items]
        assert outcome.json["total_tokens"] == expected.total_tokens
        assert outcome.json["budget"] == {
            "maxTokens": 4000, "targetTokens": 3000, "outputReserve": 1500, "estimationSafetyMarginPercent": 5.0,
        }  # fmt: skip

    def test_a_policy_file_and_overrides(self, cupel, session, folder):
        (folder / "mine.toml").write_text(policies.dumps(session_policy(), format="toml"))
        outcome = cupel(
            "select", session, "--budget", "4000", "--policy", "mine.toml",
            "--set", "slicer=knapsack", "--set", "slicer.bucket_size=10", "--format", "json",
        )  # fmt: skip
        policy = session_policy()
        changed = Pipeline(scorer=policy.scorer, slicer=KnapsackSlice(10), overflow=policy.overflow)
        assert contents(outcome.json["items"]) == [i.content for i in changed.run(session_items(), BUDGET)]
        assert outcome.json["policy"] == "coding-agent (slicer=knapsack, slicer.bucket_size=10)"

    def test_markdown_fences_cannot_be_closed_by_an_item(self, cupel, folder):
        (folder / "a.jsonl").write_text(json.dumps({"content": "x\n````\ny", "tokens": 1}))
        out = cupel("select", "a.jsonl", "--budget", "9", "--format", "markdown").out
        assert out == "### 1. Message, 1 token\n\n`````text\nx\n````\ny\n`````\n"

    def test_tokens_are_counted_as_asked(self, cupel, folder):
        (folder / "a.jsonl").write_text('{"content": "hello world"}')
        chars = cupel("select", "a.jsonl", "--budget", "9", "--tokens", "chars", "--format", "jsonl")
        assert json.loads(chars.out)["tokens"] == 3
        assert "counted the tokens of 1 item with chars" in chars.err
        pytest.importorskip("tiktoken")
        exact = cupel("select", "a.jsonl", "--budget", "9", "--tokens", "tiktoken:o200k_base", "--format", "jsonl")
        assert json.loads(exact.out)["tokens"] == 2

    def test_without_a_tokenizer_the_estimate_is_used_and_named(self, cupel, folder, monkeypatch):
        monkeypatch.setattr("cupel.tokens.default_counter", CharacterEstimate)
        (folder / "a.jsonl").write_text('{"content": "hello world"}')
        outcome = cupel("select", "a.jsonl", "--budget", "9", "--format", "jsonl")
        assert json.loads(outcome.out)["tokens"] == 3
        assert "counted the tokens of 1 item with chars, an estimate" in outcome.err

    def test_quiet_says_nothing(self, cupel, session):
        assert cupel("select", session, "--budget", "4000", "-q").err == ""

    def test_nothing_selected_prints_nothing(self, cupel, folder):
        (folder / "a.jsonl").write_text('{"content": "too long", "tokens": 50}')
        assert cupel("select", "a.jsonl", "--budget", "9").out == ""


class TestExplain:
    def test_every_item_has_a_row(self, cupel, session):
        outcome = cupel("explain", session, "--budget", "4000")
        rows = outcome.out.splitlines()[1:]
        report = presets.chat().dry_run(session_items(), BUDGET)
        assert len(rows) == 120
        assert sum(row.split()[1] == "in" for row in rows) == len(report.included)
        assert "needs 2,891, " in outcome.out
        assert "same text as another item" in outcome.out
        assert "token count is -1" in outcome.out

    def test_only_one_side(self, cupel, session):
        assert all(
            row.split()[1] == "out"
            for row in cupel("explain", session, "--budget", "4000", "--only", "out").out.splitlines()[1:]
        )
        assert all(
            row.split()[1] == "in"
            for row in cupel("explain", session, "--budget", "4000", "--only", "in").out.splitlines()[1:]
        )

    def test_json_is_the_report_with_positions(self, cupel, session):
        document = cupel("explain", session, "--budget", "4000", "--format", "json", "--counterfactual").json
        items = session_items()
        report = presets.chat().dry_run(items, BUDGET)
        assert [row["position"] for row in document["included"]] == [
            next(n for n, item in enumerate(items) if item is entry.item) for entry in report.included
        ]
        assert document["total_candidates"] == 120
        assert [event["stage"] for event in document["events"]] == [
            "Classify",
            "Score",
            "Deduplicate",
            "Slice",
            "Place",
        ]
        prepared = presets.chat().prepare(items)
        for row in document["excluded"][:12]:
            item = items[row["position"]]
            if row["reason"]["reason"] != "BudgetExceeded":
                assert row["extra_tokens"] is None
                continue
            found = 4000 + row["extra_tokens"]
            assert any(one is item for one in prepared.included(ContextBudget(found, found)))
            assert not any(
                one is item for budget in range(4001, found) for one in prepared.included(ContextBudget(budget, budget))
            )

    def test_shortfalls_are_told(self, cupel, session, folder):
        policy = {
            "scorer": "recency",
            "slicer": {"type": "count_quota", "entries": [{"kind": "Image", "require_count": 2, "cap_count": 3}]},
        }
        (folder / "p.json").write_text(json.dumps(policy))
        assert (
            "short of Image: 0 of 2 required items"
            in cupel("explain", session, "--budget", "4000", "--policy", "p.json").err
        )


class TestCompare:
    def test_names_the_items_on_which_policies_disagree(self, cupel, session):
        outcome = cupel("compare", session, "--budget", "4000", "--policy", "chat", "--policy", "rag")
        assert outcome.code == 0
        document = cupel(
            "compare", session, "--budget", "4000", "--policy", "chat", "--policy", "rag", "--format", "json"
        ).json
        assert f"{len(document['diffs'])} items that some policies include and others exclude" in outcome.out
        chosen = {
            name: {item.content for item in preset.run(session_items(), BUDGET)}
            for name, preset in (("chat", presets.chat()), ("rag", presets.rag()))
        }
        assert set(contents(document["diffs"])) == chosen["chat"] ^ chosen["rag"]
        for diff in document["diffs"]:
            for status in diff["statuses"]:
                assert (status["status"] == "Included") == (diff["content"] in chosen[status["policy"]])

    def test_without_policies_it_compares_the_presets(self, cupel, session):
        document = cupel("compare", session, "--budget", "4000", "--format", "json").json
        assert [variant["policy"] for variant in document["variants"]] == [
            name.replace("_", "-") for name in presets.__all__
        ]

    def test_agreement_is_said(self, cupel, folder):
        (folder / "a.jsonl").write_text('{"content": "x", "tokens": 1}')
        assert (
            "All policies select the same items."
            in cupel("compare", "a.jsonl", "--budget", "9", "--policy", "chat", "--policy", "rag").out
        )


class TestSimulate:
    def test_answers_are_those_of_the_analytics(self, cupel, session):
        document = cupel(
            "simulate",
            session,
            "--budget",
            "4000",
            "--slack",
            "500",
            "--item",
            "# inkstand/ledger",
            "--steps",
            "5",
            "--format",
            "json",
        ).json
        items, pipeline = session_items(), presets.chat()
        target = next(item for item in items if item.content.startswith("# inkstand/ledger"))
        assert document["item"]["min_budget"] == find_min_budget_for(pipeline, items, target, 99_999, exact=True)
        assert contents(document["marginal"]) == [i.content for i in get_marginal_items(pipeline, items, BUDGET, 500)]
        assert 4000 in [row["budget"] for row in document["sweep"]]
        prepared = pipeline.prepare(items)
        for row in document["sweep"]:
            selected = prepared.run(ContextBudget(row["budget"], row["budget"]))
            assert (row["items"], row["tokens"]) == (len(selected), sum(item.tokens for item in selected))

    def test_draws_a_chart(self, cupel, session):
        out = cupel("simulate", session, "--budget", "4000", "--steps", "4").out
        assert out.startswith("What each budget selects\n")
        assert "█" in out
        assert "would go if the budget were 400 tokens smaller than 4,000" in out

    def test_a_budget_the_pins_exceed_is_a_row_with_the_reason(self, cupel, session):
        document = cupel(
            "simulate", session, "--budget", "4000", "--to", "400", "--steps", "4", "--format", "json"
        ).json
        assert document["sweep"][0]["error"].startswith("Pinned items require 350 tokens")

    def test_a_quota_policy_is_simulated_too(self, cupel, session, folder):
        policy = {"scorer": "recency", "slicer": {"type": "quota", "quotas": [{"kind": "ToolOutput", "cap": 30}]}}
        (folder / "quota.json").write_text(json.dumps(policy))
        outcome = cupel("simulate", session, "--budget", "4000", "--policy", "quota.json", "--format", "json")
        assert outcome.code == 0
        prepared = policies.from_dict(policy).prepare(session_items())
        less = {item.content for item in prepared.run(ContextBudget(3600, 3600))}
        assert contents(outcome.json["marginal"]) == [
            item.content for item in prepared.run(BUDGET) if item.content not in less
        ]

    def test_a_slack_that_leaves_no_selection_says_so(self, cupel, session):
        arguments = ("simulate", session, "--budget", "400", "--slack", "100")
        assert "With 100 tokens less there is no selection: Pinned items require 350" in cupel(*arguments).out
        assert cupel(*arguments, "--format", "json").json["marginal_error"].startswith("Pinned items require 350")
        assert cupel("simulate", session, "--budget", "400", "--slack", "401").code == 2

    @pytest.mark.parametrize("rich", [True, False])
    @pytest.mark.parametrize(
        ("command", "figures"),
        [("simulate", ["4,000", "28", "3,996"]), ("explain", ["2,891", "0.213"]), ("compare", ["3,994", "99.8 %"])],
    )
    def test_forty_columns_show_the_numbers(self, cupel, session, command, figures, rich, monkeypatch):
        monkeypatch.setenv("COLUMNS", "40")
        monkeypatch.setenv("TERM", "xterm" if rich else "dumb")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        out = re.sub("\x1b\\[[0-9;]*m", "", cupel(command, session, "--budget", "4000", "--policy", "chat").out)
        table = out.split("\n\n")[0]
        assert max(len(line.rstrip()) for line in table.splitlines()) <= 40
        assert all(figure in table for figure in figures)

    def test_items_by_number(self, cupel, session):
        assert (
            cupel("simulate", session, "--budget", "4000", "--item", "#1", "--format", "json").json["item"][
                "min_budget"
            ]
            == 350
        )
        assert "numbered from #1" in cupel("simulate", session, "--budget", "4000", "--item", "#121").err
        assert "no item starts with this text" in cupel("simulate", session, "--budget", "4000", "--item", "absent").err


class TestInspect:
    def test_a_terminal_is_spared_the_page(self, cupel, session, monkeypatch):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        outcome = cupel("inspect", session, "--budget", "4000")
        assert (outcome.code, outcome.out) == (2, "")
        assert "write the page to a file: -o page.html" in outcome.err
        assert cupel("inspect", session, "--budget", "4000", "--format", "json").code == 0

    def test_writes_a_page(self, cupel, session, folder):
        outcome = cupel("inspect", session, "--budget", "4000", "-o", "page.html")
        assert outcome.err == "wrote page.html\n"
        html = (folder / "page.html").read_text(encoding="utf-8")
        assert html.startswith("<!doctype html>")
        assert "http://" not in html.replace("http://www.w3.org/2000/svg", "").split('id="payload"')[0]

    def test_offers_the_presets_or_just_what_is_named(self, cupel, session):
        def names(*arguments):
            page = cupel("inspect", session, "--budget", "4000", "--format", "json", *arguments).json
            return [policy["name"] for policy in page["policies"]]

        assert names()[:2] == ["chat", "agent"]
        assert sorted(names()) == [name.replace("_", "-") for name in presets.__all__]
        assert names("--policy", "rag")[0] == "rag"
        assert names("--policy", "rag", "--policy", "chat") == ["rag", "chat"]

    def test_progress_is_told_for_each_policy(self, cupel, session, monkeypatch):
        told = []

        @contextmanager
        def bar(doing, unit):
            yield lambda *counts: told.append((doing, unit, *counts))

        monkeypatch.setattr("cupel.cli._pages.progress_bar", bar)
        cupel("inspect", session, "--budget", "4000", "--policy", "rag", "--policy", "chat", "-o", "page.html")
        assert told == [("computing", "policies", 1, 2), ("computing", "policies", 2, 2)]

    def test_open_needs_a_file(self, cupel, session):
        assert cupel("inspect", session, "--budget", "4000", "--open").code == 2

    def test_open_opens_the_file(self, cupel, session, monkeypatch, folder):
        opened = []
        monkeypatch.setattr("webbrowser.open", opened.append)
        cupel("inspect", session, "--budget", "4000", "-o", "page.html", "--open")
        assert opened == [(folder / "page.html").as_uri()]


class TestPolicy:
    @pytest.mark.parametrize("name", [name.replace("_", "-") for name in presets.__all__])
    def test_show_round_trips(self, cupel, name, folder):
        policy = getattr(presets, name.replace("-", "_"))()
        assert policies.loads(cupel("policy", "show", name).out) == policy
        assert policies.loads(cupel("policy", "show", name, "--format", "toml").out, format="toml") == policy

    def test_show_with_changes(self, cupel):
        shown = cupel("policy", "show", "rag", "--set", "scorer.scorers.0.weight=9", "--set", "deduplication=false").out
        assert json.loads(shown)["scorer"]["scorers"][0] == {"scorer": "reflexive", "weight": 9.0}
        assert json.loads(shown)["deduplication"] is False

    def test_validate_names_each_file(self, cupel, folder):
        (folder / "good.toml").write_text('scorer = "recency"\n')
        (folder / "bad.json").write_text('{"scorer": "recncy"}')
        outcome = cupel("policy", "validate", "good.toml", "bad.json")
        assert outcome.code == 1
        assert outcome.out.splitlines()[0] == "good.toml: ok"
        assert "did you mean 'recency'?" in outcome.out
        document = cupel("policy", "validate", "good.toml", "bad.json", "--format", "json").json
        assert [row["valid"] for row in document] == [True, False]

    def test_schema_accepts_the_presets(self, cupel):
        jsonschema = pytest.importorskip("jsonschema")
        schema = cupel("policy", "schema").json
        for name in presets.__all__:
            jsonschema.validate(policies.to_dict(getattr(presets, name)()), schema)


def test_presets_are_listed_with_their_purpose(cupel):
    out = cupel("presets").out
    assert "For retrieval:" in out
    assert "It hurts when" in out
    rows = cupel("presets", "--format", "json").json
    assert [row["name"] for row in rows] == [name.replace("_", "-") for name in presets.__all__]
    assert policies.from_dict(rows[1]["policy"]) == presets.chat()


class TestDemo:
    def test_prints_and_writes(self, cupel, folder):
        outcome = cupel("demo")
        assert outcome.code == 0
        assert "coding-agent: " in outcome.out
        prices = {line.split("  ")[0]: line.split()[-3] for line in outcome.out.splitlines() if line.endswith(" 0")}
        session, fit = (float(prices[way].replace(",", "")) for way in ("a session", "a new selection every turn"))
        assert session < fit
        assert "cupel-demo/page.html" in outcome.out
        assert sorted(file.name for file in (folder / "cupel-demo").iterdir()) == [
            "conversation.json",
            "page.html",
            "policy.toml",
            "session.jsonl",
        ]

    def test_the_commands_it_suggests_work(self, cupel):
        suggested = ("replay", "explain", "compare")
        commands = [
            line.split()
            for line in cupel("demo").out.splitlines()
            if "cupel " in line and {*line.split()} & {*suggested}
        ]
        assert len(commands) == 3
        for command, name in zip(commands, suggested, strict=True):
            assert cupel(*command[command.index(name) :]).code == 0

    @pytest.mark.parametrize(
        ("found", "called", "command"),
        [
            ("/usr/bin/cupel", ".venv/bin/cupel", "cupel"),
            (None, ".venv/bin/cupel", ".venv/bin/cupel"),
            (None, "site-packages/cupel/__main__.py", "python -m cupel"),
        ],
    )
    def test_it_suggests_commands_the_shell_can_find(self, cupel, monkeypatch, found, called, command):
        monkeypatch.setattr("cupel.cli._pages.which", {"cupel": found}.get)
        monkeypatch.setattr("sys.argv", [called, "demo"])
        assert f"Try also:  {command} explain cupel-demo/session.jsonl " in cupel("demo").out

    def test_what_was_edited_is_kept_and_used(self, cupel, folder):
        cupel("demo")
        policy, session = folder / "cupel-demo/policy.toml", folder / "cupel-demo/session.jsonl"
        policy.write_text('name = "mine"\nscorer = "recency"\n')
        outcome = cupel("demo")
        assert outcome.code == 0
        assert policy.read_text() == 'name = "mine"\nscorer = "recency"\n'
        assert "kept cupel-demo/policy.toml, which was edited" in outcome.err
        assert "session.jsonl" not in outcome.err
        assert "mine: " in outcome.out
        session.write_text('{"content": "only this", "tokens": 3}\n')
        outcome = cupel("demo")
        assert session.read_text() == '{"content": "only this", "tokens": 3}\n'
        assert "mine: 1 of 1 item in" in outcome.out
        policy.unlink()
        session.unlink()
        assert cupel("demo").err == ""

    def test_json(self, cupel):
        document = cupel("demo", "--budget", "2500", "-o", "elsewhere", "--format", "json").json
        report = session_policy().dry_run(session_items(), ContextBudget(2500, 2500))
        assert document["included"] == len(report.included)
        assert document["page"] == "elsewhere/page.html"


class TestCompletion:
    def test_scripts_name_every_command(self, cupel):
        for shell in ("bash", "zsh", "fish"):
            script = cupel("completion", shell).out
            assert all(name in script for name in COMMANDS)
            assert "--skip-bad" in script or "-l skip-bad" in script

    def test_bash_completes(self, cupel, folder):
        (folder / "complete.sh").write_text(
            cupel("completion", "bash").out
            + 'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_cupel; echo "${COMPREPLY[@]}"; }\n'
            "try cupel exp\ntry cupel select --form\ntry cupel select --policy ra\ntry cupel completion z\n"
        )
        answer = subprocess.run(["bash", "complete.sh"], capture_output=True, text=True, check=True, cwd=folder)
        assert answer.stdout.splitlines() == ["explain", "--format", "rag", "zsh"]
        assert answer.stderr == ""


def test_every_command_has_a_help_that_names_the_exit_codes(cupel):
    for name in COMMANDS:
        outcome = cupel(name, "--help")
        assert outcome.code == 0
        assert outcome.out.startswith(f"usage: cupel {name}")
        assert "exit codes:" in outcome.out


def test_a_terminal_gets_tables_and_no_escape_sequences_of_an_item(folder, session):
    """Under a pseudo-terminal the output is drawn with rich, and an item cannot drive the terminal."""
    pty = pytest.importorskip("pty")
    (folder / "evil.jsonl").write_text(json.dumps({"content": "\x1b[2Jgone \u202e", "tokens": 1}))
    seen = b""

    def keep(descriptor):
        import os

        nonlocal seen
        data = os.read(descriptor, 4096)
        seen += data
        return b""

    for command in (["select", "evil.jsonl", "--budget", "9"], ["explain", "evil.jsonl", "--budget", "9"]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TERM", "xterm")
            patch.setenv("COLUMNS", "100")
            pty.spawn([sys.executable, "-c", f"from cupel.cli import main; main({command!r})"], keep)
    assert b"\x1b[2J" not in seen
    assert b"<U+001B>[2Jgone <U+202E>" in seen
    assert b"\x1b[1m" in seen  # rich's own: bold headings


def test_query_reaches_every_command_that_selects(cupel, tmp_path):
    """One option for all; without it a policy that needs one says which."""
    items = tmp_path / "items.jsonl"
    items.write_text('{"content": "The parser is slow.", "tokens": 5}\n{"content": "Lunch is at noon.", "tokens": 5}\n')
    policy = tmp_path / "policy.toml"
    policy.write_text('scorer = "relevance"\nslicer = "best_first"\n')
    given = [str(items), "--policy", str(policy), "--budget", "5"]
    assert "Lunch is at noon." in cupel("select", *given, "--query", "when is lunch?").out
    assert "relevance" in cupel("inspect", *given, "--policy", "chat", "--query", "lunch", "--format", "json").out
    for command in ("explain", "simulate", "compare"):
        more = ["--policy", "chat"] if command == "compare" else []
        assert cupel(command, *given, *more, "--query", "lunch").code == 0
    failed = cupel("select", *given)
    assert failed.code == 2
    assert "RelevanceScorer needs a query: pass query=... to the run, or --query to the command" in failed.err


def test_explain_takes_scores_apart(cupel, session):
    plain = cupel("explain", session, "--budget", "6000", "--format", "json").json
    assert "breakdown" not in plain["included"][0]
    found = cupel("explain", session, "--budget", "6000", "--format", "json", "--breakdown").json
    entry = found["excluded"][0]
    assert entry["breakdown"]["score"] == entry["score"]
    assert sum(part["share"] for part in entry["breakdown"]["parts"]) == pytest.approx(entry["score"])
    assert " a token" in cupel("explain", session, "--budget", "6000", "--breakdown").out
