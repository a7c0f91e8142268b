"""The vectors hold: the project's own for library and oracle, the public ones where they lie beside the checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tomli

from cupel.conformance import ConformanceLevel, find_vectors, load_vector, run_suite, run_vector
from tests.oracle.vectors import differences

ROOT = Path(__file__).parents[2]
OWN = find_vectors([ROOT / "conformance"])
PUBLIC = ROOT.parent / "shared" / "conformance"
GOLDEN = ROOT.parent / "shared" / "golden"


def name_of(path):
    return str(path.relative_to(ROOT / "conformance"))


@pytest.mark.parametrize("path", OWN, ids=name_of)
def test_the_library_passes_every_own_vector(path):
    result = run_vector(load_vector(path))
    assert result.passed, f"{result.message}: expected {result.expected}, got {result.actual}"


@pytest.mark.parametrize("path", OWN, ids=name_of)
def test_the_oracle_confirms_every_own_vector(path):
    """The expected values follow from the specification, they are not the library's echo."""
    assert differences(tomli.loads(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", OWN, ids=name_of)
def test_every_own_vector_lies_where_it_belongs_and_explains_itself(path):
    vector = load_vector(path)
    assert path.parent.name in {vector.stage, "errors"}
    assert vector.name != path.stem, "a name that says what the vector shows"
    comments = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
    assert comments, "the arithmetic of the expected values"


def test_own_vectors_have_names_of_their_own():
    names = [load_vector(path).name for path in OWN]
    assert len(set(names)) == len(names) >= 100


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public vectors are not beside this checkout")
def test_the_public_vectors_show_full_conformance():
    report = run_suite([PUBLIC])
    assert [(result.path.name, result.message) for result in report.failed] == []
    assert report.unreadable == ()
    assert report.level is ConformanceLevel.FULLY_CONFORMANT


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public vectors are not beside this checkout")
def test_the_oracle_agrees_with_the_public_vectors():
    for path in find_vectors([PUBLIC]):
        assert differences(tomli.loads(path.read_text(encoding="utf-8"))) == [], path.name


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden cases are not beside this checkout")
def test_the_golden_cases_pass():
    command = [sys.executable, str(GOLDEN / "check.py"), str(GOLDEN / "cases.jsonl")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
