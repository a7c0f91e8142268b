"""Arguments as people type them: numbers with a unit, names with a typo, modules of their own."""

import argparse
import json
import subprocess
import sys

import pytest

from cupel.cli._arguments import token_count
from cupel.cli._main import COMMANDS

OWN = '''
from dataclasses import dataclass

from cupel import Scorer
from cupel.policy import register_scorer


@register_scorer("own_length_{tag}")
@dataclass(frozen=True)
class LengthScorer(Scorer):
    """Prefers long items."""

    def score(self, item, all_items):
        return item.tokens / 1000
'''


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("8000", 8000),
        ("8_000", 8000),
        ("8,000", 8000),
        ("1,234,567", 1_234_567),
        ("8k", 8000),
        ("8K", 8000),
        ("0.5k", 500),
        ("1.5m", 1_500_000),
        ("128.25k", 128_250),
        (" 7 ", 7),
        ("0", 0),
    ],
)
def test_token_counts(text, tokens):
    assert token_count(text) == tokens


@pytest.mark.parametrize(
    "text", ["", "k", "8kk", "8 k k", "1.5", "1.2345k", "-8k", "8,00", "80,0000", ",800", "8e3", "٨k", "1_k_", "inf"]
)
def test_what_is_no_token_count(text):
    with pytest.raises(argparse.ArgumentTypeError):
        token_count(text)


@pytest.mark.parametrize(
    "arguments",
    [
        "select session.jsonl --budget 4k --max 8,000 --reserve 1.5k",
        "explain session.jsonl --budget 4k",
        "compare session.jsonl --budget 4k --policy chat --policy rag",
        "simulate session.jsonl --budget 4k --slack 0.5k --to 10k --steps 2",
        "inspect session.jsonl --budget 4k --policy chat --policy rag -o page.html",
    ],
)
def test_every_command_takes_them(cupel, session, arguments):
    short = cupel(*arguments.split())
    assert short.code == 0
    long = arguments.replace("1.5k", "1500").replace("0.5k", "500").replace("0k", "0000").replace("4k", "4000")
    assert cupel(*long.split()).out == short.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("select session.jsonl --budget 9 --policy chatt", "did you mean 'chat'? (presets: agent, chat, "),
        ("policy show code_reveiw", "did you mean 'code-review'?"),
        ("policy describe tool-us", "did you mean 'tool-use'?"),
        ("select session.jsonl --budget 9 --tokens tiktoken-o200k_base", "did you mean 'tiktoken:o200k_base'?"),
        ("selct", "did you mean 'select'?"),
        ("select session.jsonl --bugdet 100", "error: unknown option --bugdet; did you mean '--budget'?"),
        (
            "select session.jsonl --budget 9 --input_format=csv",
            "unknown option --input_format; did you mean '--input-f",
        ),
        ("policy show chat --fromat toml", "unknown option --fromat; did you mean '--format'?"),
        ("select session.jsonl --xyzzy", "error: unknown option --xyzzy\n"),
        ("xyzzy", "unknown command 'xyzzy' (commands: "),
        ("select session.jsonl --budget 9 --policy xyzzy", "neither a file nor a preset (presets: "),
    ],
)
def test_likely_names_are_offered(cupel, session, arguments, says):
    outcome = cupel(*arguments.split())
    assert outcome.code == 2
    assert says in outcome.err


def test_starts_of_options_and_values_with_dashes_are_no_misspellings(cupel, session):
    whole = cupel("select", session, "--budget", "4000", "--format", "json")
    assert cupel("select", "--bud", "4000", "--form=json", "--", session).out == whole.out
    page = cupel("inspect", session, "--budget", "4000", "--format", "json", "--title", "--not an option")
    assert page.json["title"] == "--not an option"


class TestImport:
    @pytest.fixture(autouse=True)
    def own_path(self, monkeypatch):
        monkeypatch.setattr(sys, "path", list(sys.path))

    def test_brings_strategies(self, cupel, session, folder):
        (folder / "own_strategies.py").write_text(OWN.replace("{tag}", "a"))
        (folder / "mine.json").write_text(json.dumps({"scorer": "own_length_a"}))
        policy = ("--policy", "mine.json")
        refused = cupel("select", session, "--budget", "4000", *policy)
        assert refused.code == 2
        assert "'cupel.strategies'" in refused.err
        assert "--import MODULE" in refused.err
        for command in ("select", "explain", "simulate", "inspect", "compare"):
            done = cupel(command, session, "--budget", "4000", *policy, "--import", "own_strategies")
            assert done.code == 0, done.err
        assert cupel("policy", "validate", "mine.json", "--import", "own_strategies").code == 0
        assert "own_length_a: Prefers long items." in cupel("policy", "describe", "mine.json").out

    def test_that_cannot_be_imported(self, cupel, session, folder):
        (folder / "broken_strategies.py").write_text("1 / 0\n")
        for module, says in (("absent_strategies", "ModuleNotFoundError"), ("broken_strategies", "ZeroDivisionError")):
            outcome = cupel("select", session, "--budget", "9", "--import", module)
            assert outcome.code == 2
            assert f"cannot import '{module}': {says}" in outcome.err
            assert "Traceback" not in outcome.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help(cupel, name):
    outcome = cupel(name, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage: cupel {name}")


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("presets", [0, 2]),
        ("policy show", [0, 2]),
        ("policy validate", [0, 1, 2]),
        ("completion", [0, 2]),
        ("select", [0, 1, 2]),
        ("batch", [0, 2, 3, 4, 130]),
    ],
)
def test_help_lists_the_exit_codes_of_the_command_alone(cupel, command, codes):
    listing = cupel(*command.split(), "--help").out.partition("exit codes:\n")[2]
    assert [int(line.split()[0]) for line in listing.splitlines()] == codes


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_a_script_names_every_command(self, cupel, shell):
        script = cupel("completion", shell).out
        assert [name for name in COMMANDS if name not in script] == []

    @pytest.mark.parametrize(
        ("shell", "flag"), [("bash", "--skip-bad"), ("zsh", "--skip-bad"), ("fish", "-l skip-bad")]
    )
    def test_a_script_names_the_options(self, cupel, shell, flag):
        assert flag in cupel("completion", shell).out

    @pytest.mark.parametrize(
        ("line", "completed"),
        [
            ("exp", "explain"),
            ("select --form", "--format"),
            ("select --policy ra", "rag"),
            ("select --policy mi", "mine.toml"),
            ("select it", "items.jsonl"),
            ("completion z", "zsh"),
        ],
    )
    def test_bash_completes(self, cupel, folder, line, completed):
        (folder / "mine.toml").touch()
        (folder / "items.jsonl").touch()
        attempt = 'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_cupel; echo "${COMPREPLY[@]}"; }\n'
        (folder / "complete.sh").write_text(f"{cupel('completion', 'bash').out}\n{attempt}try cupel {line}\n")
        answer = subprocess.run(["bash", "complete.sh"], capture_output=True, text=True, check=True, cwd=folder)
        assert (answer.stdout.strip(), answer.stderr) == (completed, "")

    def test_bash_runs_nothing_that_a_file_is_called(self, cupel, folder):
        (folder / "a$(touch pwned)").touch()
        attempt = 'COMP_WORDS=(cupel select a); COMP_CWORD=2; _shtab_cupel; echo "${COMPREPLY[@]}"\n'
        (folder / "complete.sh").write_text(f"{cupel('completion', 'bash').out}\n{attempt}")
        answer = subprocess.run(["bash", "complete.sh"], capture_output=True, text=True, check=True, cwd=folder)
        assert answer.stdout.strip() == "a$(touch pwned)"
        assert not (folder / "pwned").exists()

    def test_without_shtab_the_extra_is_named(self, cupel, monkeypatch):
        monkeypatch.setitem(sys.modules, "shtab", None)
        outcome = cupel("completion", "bash")
        assert outcome.code == 2
        assert "[cli]" in outcome.err
