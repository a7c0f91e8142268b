"""`cupel conformance`: what it prints, and its three exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cupel.cli import main

GOOD = """
test = { name = "first of two", stage = "slicing", slicer = "greedy" }
budget = { target_tokens = 10 }
scored_items = [{ content = "a", tokens = 10, score = 0.9 }, { content = "b", tokens = 10, score = 0.1 }]
expected = { selected_contents = ["a"] }
"""
WRONG = GOOD.replace('["a"]', '["b"]')
NAN = """
test = { name = "nan", stage = "scoring", scorer = "kind" }
items = [{ content = "a", tokens = 1 }]
expected = [{ content = "a", score_approx = nan }]
"""


@pytest.fixture
def suite(tmp_path):
    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".toml").write_text(text, encoding="utf-8")
        return str(tmp_path)

    return write


def test_all_passed(suite, capsys):
    assert main(["conformance", suite(required__slicing__a=GOOD, optional__slicing__b=GOOD)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "required slicing        1 of 1",
        "optional slicing        1 of 1",
        "2 vectors: 2 passed, 0 failed — Cupel Fully Conformant",
    ]


def test_some_failed(suite, capsys):
    root = suite(required__slicing__a=GOOD, required__slicing__b=WRONG)
    assert main(["conformance", root]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"FAIL {root}/required/slicing/b.toml: selected_contents: expected ['b'], got ['a']"
    assert out[-1] == "2 vectors: 1 passed, 1 failed — not conformant"


def test_verbose_lists_passing_vectors(suite, capsys):
    root = suite(required__slicing__a=GOOD)
    assert main(["conformance", "-v", root]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"pass {root}/required/slicing/a.toml: first of two"


def test_unreadable_vectors_weigh_more_than_failures(suite, capsys):
    root = suite(a=GOOD, b=WRONG, c="[test]\nstage = 'cooking'")
    assert main(["conformance", root]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"unreadable {root}/c.toml: test.stage: unknown stage 'cooking'")
    assert captured.out.splitlines()[-1] == (
        "2 vectors: 1 passed, 1 failed, 1 unreadable — no required vectors, no level"
    )


@pytest.mark.parametrize(("name", "problem"), [("missing", "no such file or directory"), ("", "no vectors (*.toml)")])
def test_paths_without_vectors(tmp_path, capsys, name, problem):
    assert main(["conformance", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert problem in captured.err
    assert str(tmp_path / name) in captured.err


def test_json(suite, capsys):
    root = suite(required__slicing__a=GOOD, required__slicing__b=WRONG, c="[test]")
    assert main(["conformance", "--json", root]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["level"] == "not conformant"
    assert (report["total"], report["passed"], report["failed"]) == (2, 1, 1)
    assert report["categories"] == [{"level": "required", "stage": "slicing", "passed": 1, "total": 2}]
    good, wrong = report["results"]
    assert good == {
        "path": f"{root}/required/slicing/a.toml",
        "name": "first of two",
        "stage": "slicing",
        "level": "required",
        "passed": True,
    }
    assert (wrong["message"], wrong["expected"], wrong["actual"]) == ("selected_contents", ["b"], ["a"])
    assert report["unreadable"] == [{"path": f"{root}/c.toml", "field": "test.stage", "message": "is missing"}]


def test_json_has_names_for_numbers_it_cannot_write(suite, capsys):
    assert main(["conformance", "--json", suite(a=NAN)]) == 1
    assert json.loads(capsys.readouterr().out)["results"][0]["expected"] == "NaN"


def test_the_installed_command_runs_without_rich(suite):
    """In a process of its own, where importing rich fails."""
    program = "import sys; sys.modules['rich'] = None; from cupel.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "conformance", suite(a=GOOD)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("no level\n")


def test_heavy_modules_stay_out_of_the_help():
    program = (
        "import sys; from cupel.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'rich', 'asyncio', 'tomli', 'cupel.conformance'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_one_vector_is_not_plural(suite, capsys):
    assert main(["conformance", suite(a=GOOD)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 vector: 1 passed")
