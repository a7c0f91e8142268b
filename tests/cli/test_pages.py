"""`inspect` and `demo` write pages."""

import io
import json
import re
import sys
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout

import pytest

from cupel import ContextBudget, presets
from cupel.cli import main
from cupel.cli._pages import _command
from cupel.demo import session_items, session_policy
from cupel.messages import recall


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


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A folder in which the demonstration has run, and what it printed."""
    return run_demo(tmp_path_factory.mktemp("demo"))


def run_demo(folder, *arguments):
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        assert main(["demo", *arguments]) == 0
    return folder, out.getvalue(), err.getvalue()


class TestDemo:
    def test_the_selection_and_the_page_are_printed(self, demo):
        assert "coding-agent: " in demo[1]
        assert "cupel-demo/page.html" in demo[1]

    def test_a_session_is_cheaper_than_a_new_selection_every_turn(self, demo):
        rows = [line.split() for line in demo[1].splitlines() if "%" in line]
        prices = {words[0]: float(words[3].replace(",", "")) for words in rows}
        assert prices["session"] < prices["fit"]

    def test_an_id_of_a_note_is_followed_in_the_output_and_on_the_page(self, demo):
        told = " ".join(demo[1].split())
        name = re.search(r"gives it the id ([0-9a-f]{5}): for a call of recall with it, the model gets the", told)[1]
        page = (demo[0] / "cupel-demo" / "page.html").read_text()
        assert f"gives it the id {name}: for a call" in page
        assert f"#{name} " in page
        history = json.loads((demo[0] / "cupel-demo" / "conversation.json").read_text())
        begun = re.search(r"beginning with “(.{20})", told)[1]
        assert begun in " ".join(recall({"id": name}, history).split())

    def test_the_files_are_written(self, demo):
        names = sorted(file.name for file in (demo[0] / "cupel-demo").iterdir())
        assert names == ["conversation.json", "page.html", "policy.toml", "session.jsonl"]

    @pytest.mark.parametrize("name", ["replay", "explain", "compare"])
    def test_the_commands_it_suggests_work(self, demo, cupel, monkeypatch, name):
        monkeypatch.chdir(demo[0])
        line = next(line for line in demo[1].splitlines() if f" {name} " in line and "cupel" in line)
        assert cupel(*line.split()[line.split().index(name) :]).code == 0

    @pytest.mark.parametrize(
        ("found", "called", "command"),
        [
            ("/usr/bin/cupel", ".venv/bin/cupel", "cupel"),
            (None, ".venv/bin/cupel", ".venv/bin/cupel"),
            (None, "site-packages/cupel/__main__.py", "python -m cupel"),
        ],
    )
    def test_it_suggests_commands_the_shell_can_find(self, monkeypatch, found, called, command):
        monkeypatch.setattr("cupel.cli._pages.which", {"cupel": found}.get)
        monkeypatch.setattr("sys.argv", [called, "demo"])
        assert _command() == command


MINE = 'name = "mine"\nscorer = "recency"\n'
ONE_ITEM = '{"content": "only this", "tokens": 3}\n'


@pytest.fixture(scope="module")
def edited(tmp_path_factory):
    """The same in a folder where two files have been edited, and another deleted."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "cupel-demo").mkdir()
    (folder / "cupel-demo/policy.toml").write_text(MINE)
    (folder / "cupel-demo/session.jsonl").write_text(ONE_ITEM)
    return run_demo(folder)


class TestEditedDemo:
    def test_edited_files_are_kept(self, edited):
        assert (edited[0] / "cupel-demo/policy.toml").read_text() == MINE
        assert (edited[0] / "cupel-demo/session.jsonl").read_text() == ONE_ITEM

    def test_edited_files_are_named(self, edited):
        files = ("session.jsonl", "policy.toml")
        lines = [f"kept cupel-demo/{file}, which was edited; delete it to have the original again" for file in files]
        assert edited[2].splitlines() == lines

    def test_edited_files_are_used(self, edited):
        assert "mine: 1 of 1 item in" in edited[1]

    def test_a_deleted_file_is_written_again(self, edited):
        assert (edited[0] / "cupel-demo/conversation.json").exists()


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    arguments = ("--budget", "2.5k", "-o", "elsewhere", "--format", "json")
    return json.loads(run_demo(tmp_path_factory.mktemp("demo"), *arguments)[1])


class TestDemoAsJson:
    def test_the_items_are_counted(self, document):
        report = session_policy().dry_run(session_items(), ContextBudget(2500, 2500))
        assert document["included"] == len(report.included)

    def test_the_files_are_named(self, document):
        assert document["page"] == "elsewhere/page.html"
