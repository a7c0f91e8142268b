"""Every documented exit code, provoked."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cupel.cli import main

ITEM = json.dumps({"content": "x", "tokens": 5, "pinned": True}) + "\n"
SCARCE = {
    "scorer": "recency",
    "slicer": {
        "type": "count_quota",
        "entries": [{"kind": "Image", "require_count": 1, "cap_count": 1}],
        "scarcity": "throw",
    },
}


@pytest.fixture
def items(folder) -> str:
    (folder / "items.jsonl").write_text(ITEM * 3)
    (folder / "scarce.json").write_text(json.dumps(SCARCE))
    (folder / "bad.jsonl").write_text("{}\n")
    (folder / "bad.toml").write_text("scorer = 3\n")
    (folder / "latin.json").write_bytes(b"\xff")
    return "items.jsonl"


@pytest.mark.parametrize(
    "arguments",
    [
        "select items.jsonl --budget 99",
        "explain items.jsonl --budget 99",
        "compare items.jsonl --budget 99",
        "simulate items.jsonl --budget 99",
        "inspect items.jsonl --budget 99 -o page.html",
        "policy show chat",
        "policy schema",
        "presets",
        "completion fish",
        "select --help",
        "--help",
        "--version",
        "select bad.jsonl items.jsonl --budget 99 --skip-bad",
    ],
)
def test_0_done(cupel, items, arguments):
    assert cupel(*arguments.split()).code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("select items.jsonl --budget 4", "Pinned items require 15 tokens, but only 4 are available"),
        (
            "select items.jsonl --budget 10 --max 99 --set overflow=throw",
            "Selected items require 15 tokens, exceeding target budget of 10",
        ),
        ("explain items.jsonl --budget 99 --policy scarce.json", "candidate pool for kind 'Image'"),
        ("compare items.jsonl --budget 4", "Pinned items require"),
        ("policy validate bad.toml", ""),
    ],
)
def test_1_no(cupel, items, arguments, says):
    if "scarce" in arguments:
        with Path("items.jsonl").open("a") as file:
            file.write(json.dumps({"content": "y", "tokens": 1}) + "\n")
    outcome = cupel(*arguments.split())
    assert outcome.code == 1
    assert says in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "COMMAND"),
        ("selct", "unknown command 'selct'"),
        ("select items.jsonl", "--budget"),
        ("select items.jsonl --budget many", "expected a whole number, got 'many'"),
        ("select items.jsonl --budget -3", "expected zero or more"),
        ("select items.jsonl --budget 9 --max 5", "target_tokens must not exceed max_tokens=5"),
        ("select items.jsonl --budget 9 --reserve 10", "output_reserve must not exceed max_tokens=9"),
        ("select items.jsonl --budget 9 --margin 101", "from 0 to 100"),
        ("select items.jsonl --budget 9 --format xml", "invalid choice: 'xml'"),
        ("select absent.jsonl --budget 9", "absent.jsonl: no such file, directory or glob match"),
        ("select bad.jsonl --budget 9", "bad.jsonl:1: content is missing"),
        ("select items.jsonl --budget 9 --policy absent", "neither a file nor a preset"),
        ("select items.jsonl --budget 9 --policy bad.toml", "bad.toml: $.scorer"),
        ("select items.jsonl --budget 9 --policy latin.json", "not UTF-8"),
        ("select items.jsonl --budget 9 --set slicer", "expected PATH=VALUE"),
        ("select items.jsonl --budget 9 --set slicer=knapsak", "did you mean 'knapsack'?"),
        ("select items.jsonl --budget 9 --set slicer=knapsack --set slicer.bucket_size=0", "bucket_size"),
        ("select items.jsonl --budget 9 --set scorer.scorers.9.weight=1", "nothing at '9'"),
        ("select items.jsonl --budget 9 --tokens words", "--tokens words: expected chars"),
        ("select items.jsonl --budget 9 --tokens tiktoken:p50k", "encoding must be one of"),
        ("select items.jsonl --budget 99 -o absent/out.txt", "absent"),
        ("select items.jsonl --budget 99 -o .", "is a directory"),
        ("inspect items.jsonl --budget 99 --open", "--open needs -o FILE"),
        ("simulate items.jsonl --budget 99 --item nothing", "no item starts with this text"),
        ("policy", "ACTION"),
        ("policy validate absent.toml", "absent.toml"),
        ("policy show absent", "error: policy absent: neither a file nor a preset"),
        ("completion tcsh", "invalid choice: 'tcsh'"),
    ],
)
def test_2_cannot_be_used(cupel, items, arguments, says, folder):
    if "--tokens tiktoken" in arguments:
        (folder / "items.jsonl").write_text('{"content": "uncounted"}\n')
    before = sorted(file.name for file in folder.iterdir())
    outcome = cupel(*arguments.split())
    assert outcome.code == 2
    assert says in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert sorted(file.name for file in folder.iterdir()) == before


@pytest.mark.parametrize("option", ["--policy", "-o", "--tokens"])
def test_a_name_of_any_length_is_shown_shortly(cupel, items, option):
    outcome = cupel("select", "items.jsonl", "--budget", "100k", option, "x" * 100_000)
    assert outcome.code == 2
    assert len(outcome.err) < 3_000


def test_2_for_a_missing_extra(cupel, items, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    Path("items.parquet").write_bytes(b"PAR1")
    outcome = cupel("select", "items.parquet", "--budget", "9")
    assert outcome.code == 2
    assert "pip install 'cupel-context[batch]'" in outcome.err


def test_nothing_is_written_unless_the_input_was_whole(cupel, items, folder):
    (folder / "out.txt").write_text("precious")
    assert cupel("select", "bad.jsonl", "items.jsonl", "--budget", "99", "-o", "out.txt").code == 2
    assert (folder / "out.txt").read_text() == "precious"


def test_a_write_that_fails_leaves_no_draft(cupel, items, folder, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    before = sorted(file.name for file in folder.iterdir())
    outcome = cupel("select", items, "--budget", "99", "-o", "out.txt")
    assert outcome.code == 2
    assert "No space left" in outcome.err
    assert sorted(file.name for file in folder.iterdir()) == before


def test_written_files_have_the_usual_permissions(cupel, items, folder):
    old = os.umask(0o027)
    try:
        cupel("select", items, "--budget", "99", "-o", "out.txt")
    finally:
        os.umask(old)
    assert (folder / "out.txt").stat().st_mode & 0o777 == 0o640


def test_a_closed_pipe_is_no_error(folder):
    (folder / "many.jsonl").write_text(
        "".join(json.dumps({"content": f"{n} " * 99, "tokens": 1}) + "\n" for n in range(3000))
    )
    command = f"{sys.executable} -m cupel select many.jsonl --budget 9999 -q | head -c 10; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=folder)
    assert done.stdout.endswith("0\n")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("closed", "out", "err"),
    [(">&-", "", "chat: 3 of 3 items in"), ("2>&-", "x\n\nx\n\nx\n", ""), (">&- 2>&-", "", "")],
)
def test_a_closed_stream_is_no_error_and_its_text_goes_nowhere_else(items, folder, closed, out, err):
    command = f"{sys.executable} -m cupel select items.jsonl --budget 99 {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=folder)
    assert (done.returncode, done.stdout) == (0, out)
    assert done.stderr.startswith(err)
    assert "Traceback" not in done.stderr


def test_130_after_an_interrupt(folder):
    os.mkfifo(folder / "slow.jsonl")
    command = [sys.executable, "-m", "cupel", "select", "slow.jsonl", "--budget", "9"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE) as process:
        writer = os.open(folder / "slow.jsonl", os.O_WRONLY)  # waits until the command reads
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            _, complaint = process.communicate(timeout=20)
        finally:
            process.kill()
            os.close(writer)
    assert process.returncode == 130
    assert b"Traceback" not in complaint


def test_an_item_the_output_cannot_encode_is_shown_escaped(folder):
    (folder / "a.jsonl").write_text('{"content": "snow \\u2603 and \\ud800", "tokens": 1}')
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "cupel", "select", "a.jsonl", "--budget", "9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert (done.returncode, done.stdout) == (0, "snow \\u2603 and \\ud800\n")


def test_main_takes_the_process_arguments(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cupel", "presets"])
    assert main() == 0
    assert "chat" in capsys.readouterr().out


def test_the_version_warns_of_the_unrelated_distribution(cupel, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", {"cupel": "0.0.1"}.__getitem__)
    outcome = cupel("--version")
    assert outcome.out.endswith("(distribution cupel-context)\n")
    assert "an unrelated distribution, cupel 0.0.1, is installed here too" in outcome.err
