"""The files around the code call the Makefile, and what they name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
CALLERS = [*WORKFLOWS, ROOT / ".pre-commit-config.yaml", ROOT / ".github/pull_request_template.md"]


@pytest.mark.parametrize("file", CALLERS, ids=lambda file: file.name)
def test_they_call_targets_that_exist(file):
    called = set(re.findall(r"(?:run: |entry: |`)make ([a-z-]+)", file.read_text(encoding="utf-8")))
    assert called
    assert called <= TARGETS


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_run_nothing_but_targets_and_have_no_rights_by_default(file):
    text = file.read_text(encoding="utf-8")
    assert [
        run for run in re.findall(r"^ *(?:- )?run: (.*)$", text, re.MULTILINE) if not run.startswith(("make ", "test "))
    ] == []
    assert "\npermissions:\n  contents: read\n" in text
    assert "secrets." not in text


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_are_pinned_by_hash(file):
    used = re.findall(r"uses: (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action)] == []


def test_the_pythons_that_are_tested_are_those_that_are_promised():
    tested = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    made = re.search(r"^VERSIONS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    promised = re.findall(r'Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert tested
    assert made
    assert re.findall(r'"([\d.]+)"', tested[1]) == made[1].split() == promised
