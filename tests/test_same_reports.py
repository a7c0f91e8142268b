"""Equal input gives equal selections on every Python: sums of floats are refused, and differing reports are noticed."""

import subprocess
import sys
from pathlib import Path

import pytest

from cupel import ContextItem, GreedySlice, Pipeline, ReflexiveScorer

ROOT = Path(__file__).parents[1]


def test_a_group_is_worth_the_sum_of_its_scores_from_left_to_right():
    """0.5 + 0.05 + 0.05 is above 0.6; added without rounding errors it would tie, and the earlier item would win."""
    group = {"cupel:group": "all or none"}
    single = ContextItem("single", 30, future_relevance_hint=0.6)
    members = [
        ContextItem(f"member {place}", 10, future_relevance_hint=hint, metadata=group)
        for place, hint in enumerate((0.5, 0.05, 0.05))
    ]
    selected = Pipeline(scorer=ReflexiveScorer(), slicer=GreedySlice()).run([single, *members], 30)
    assert selected == members


CASES = {
    "numbers: list[float] = []\nsum(numbers)": True,
    "sum(one / 2 for one in [1, 2])": True,
    "sum({'a': 0.5}.values(), 0.0)": True,
    "import json\nsum(json.loads('[0.5]'))": True,
    "sum([1, 2])": False,
    "sum(one > 2 for one in [1.5])": False,
}


def test_the_type_checker_refuses_the_builtin_sum_of_floats(tmp_path):
    file = tmp_path / "sums.py"
    file.write_text("\n".join(CASES), encoding="utf-8")
    settings = tmp_path / "mypy.ini"
    settings.write_text(f"[mypy]\nplugins = {ROOT}/scripts/float_sums.py\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path, file]
    printed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stdout
    lines = [statement.count("\n") + 1 for statement in CASES]
    refused = [sum(lines[: place + 1]) for place, is_refused in enumerate(CASES.values()) if is_refused]
    found = [int(line.split(":")[1]) for line in printed.splitlines() if line.endswith("[float-sum]")]
    assert found == refused, printed


def interpreter(folder: Path, version: str, printed: str) -> Path:
    """Write a stand-in for a Python: it says its version, or what the reports would be."""
    file = folder / f"python{version}"
    file.write_text(f'#!/bin/sh\ncase "$1" in -c) echo {version} ;; *) printf "%s" \'{printed}\' ;; esac\n', "utf-8")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("first", "second", "code", "said"),
    [
        ('{"name": "a"}\n', '{"name": "a"}\n', 0, ""),
        ('{"name": "a"}\n', '{"name": "b"}\n', 1, "Python 1.0 and 2.0 report differently for the same input:"),
        ('{"name": "a"}\n', "", 1, ""),
    ],
)
def test_reports_that_differ_between_interpreters_are_named(tmp_path, first, second, code, said):
    pythons = [interpreter(tmp_path, "1.0", first), interpreter(tmp_path, "2.0", second)]
    done = subprocess.run([ROOT / "scripts/same-reports", *pythons], check=False, capture_output=True, text=True)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert ('"name": "a"' in done.stderr) is bool(said)
