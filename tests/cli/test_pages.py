"""`inspect` and `demo` write pages."""

import sys
from contextlib import contextmanager

import pytest

from cupel import ContextBudget, presets
from cupel.demo import session_items, session_policy


class TestInspect:
    def test_a_terminal_is_spared_the_page(self, cupel, session, monkeypatch):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        outcome = cupel("inspect", session, "--budget", "4000")
        assert (outcome.code, outcome.out) == (2, "")
        assert "write the page to a file: -o page.html" in outcome.err

    def test_a_terminal_may_have_the_data(self, cupel, session, monkeypatch):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert cupel("inspect", session, "--budget", "4000", "--format", "json").code == 0

    def test_the_page_is_written_and_named(self, cupel, session, folder):
        outcome = cupel("inspect", session, "--budget", "4000", "-o", "page.html")
        assert outcome.err == "wrote page.html\n"
        assert (folder / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")

    def test_the_page_asks_the_network_for_nothing(self, cupel, session):
        html = cupel("inspect", session, "--budget", "4000").out
        assert "http://" not in html.replace("http://www.w3.org/2000/svg", "").split('id="payload"')[0]

    @pytest.fixture
    def names(self, cupel, session):
        def named(*arguments):
            page = cupel("inspect", session, "--budget", "4000", "--format", "json", *arguments).json
            return [policy["name"] for policy in page["policies"]]

        return named

    def test_the_presets_are_offered(self, names):
        assert sorted(names()) == [name.replace("_", "-") for name in presets.__all__]

    def test_the_named_policy_comes_first(self, names):
        assert names("--policy", "rag")[0] == "rag"

    def test_several_named_policies_are_all_there_is(self, names):
        assert names("--policy", "rag", "--policy", "chat") == ["rag", "chat"]

    def test_progress_is_shown_for_each_policy(self, cupel, session, monkeypatch):
        shown = []

        @contextmanager
        def bar(doing, unit):
            yield lambda *counts: shown.append((doing, unit, *counts))

        monkeypatch.setattr("cupel.cli._pages.progress_bar", bar)
        cupel("inspect", session, "--budget", "4000", "--policy", "rag", "--policy", "chat", "-o", "page.html")
        assert shown == [("computing", "policies", 1, 2), ("computing", "policies", 2, 2)]

    def test_open_needs_a_file(self, cupel, session):
        assert cupel("inspect", session, "--budget", "4000", "--open").code == 2

    def test_open_opens_the_file(self, cupel, session, monkeypatch, folder):
        opened = []
        monkeypatch.setattr("webbrowser.open", opened.append)
        cupel("inspect", session, "--budget", "4000", "-o", "page.html", "--open")
        assert opened == [(folder / "page.html").as_uri()]


class TestDemo:
    def test_the_selection_and_the_page_are_printed(self, cupel):
        out = cupel("demo").out
        assert "coding-agent: " in out
        assert "cupel-demo/page.html" in out

    def test_a_session_is_cheaper_than_a_new_selection_every_turn(self, cupel):
        rows = [line for line in cupel("demo").out.splitlines() if " 0 of " in line]
        prices = {line.split("  ")[0]: float(line.split()[-5].replace(",", "")) for line in rows}
        assert prices["a session"] < prices["a new selection every turn"]

    def test_the_files_are_written(self, cupel, folder):
        cupel("demo")
        names = sorted(file.name for file in (folder / "cupel-demo").iterdir())
        assert names == ["conversation.json", "page.html", "policy.toml", "session.jsonl"]

    @pytest.mark.parametrize("name", ["replay", "explain", "compare"])
    def test_the_commands_it_suggests_work(self, cupel, name):
        line = next(line for line in cupel("demo").out.splitlines() if f" {name} " in line and "cupel" in line)
        assert cupel(*line.split()[line.split().index(name) :]).code == 0

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

    def test_an_edited_policy_is_kept_and_used(self, cupel, folder):
        cupel("demo")
        policy = folder / "cupel-demo/policy.toml"
        policy.write_text('name = "mine"\nscorer = "recency"\n')
        outcome = cupel("demo")
        assert policy.read_text() == 'name = "mine"\nscorer = "recency"\n'
        assert outcome.err == "kept cupel-demo/policy.toml, which was edited; delete it to have the original again\n"
        assert "mine: " in outcome.out

    def test_edited_items_are_kept_and_used(self, cupel, folder):
        cupel("demo")
        session = folder / "cupel-demo/session.jsonl"
        session.write_text('{"content": "only this", "tokens": 3}\n')
        assert "coding-agent: 1 of 1 item in" in cupel("demo").out
        assert session.read_text() == '{"content": "only this", "tokens": 3}\n'

    def test_a_deleted_file_is_written_again(self, cupel, folder):
        cupel("demo")
        (folder / "cupel-demo/policy.toml").unlink()
        assert cupel("demo").err == ""
        assert (folder / "cupel-demo/policy.toml").exists()

    def test_json_counts_the_items(self, cupel):
        document = cupel("demo", "--budget", "2500", "-o", "elsewhere", "--format", "json").json
        report = session_policy().dry_run(session_items(), ContextBudget(2500, 2500))
        assert document["included"] == len(report.included)

    def test_json_names_the_files(self, cupel):
        document = cupel("demo", "-o", "elsewhere", "--format", "json").json
        assert document["page"] == "elsewhere/page.html"
