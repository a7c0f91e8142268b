"""The page that leads from the specification's chapters to the code names only what exists."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reference/specification.md").read_text(encoding="utf-8")
RULINGS = (ROOT / "docs/reference/rulings.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| [")]


def in_code(text):
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize(
    "path", sorted({one for one in in_code(PAGE) if re.match(r"(src|tests|conformance)(/|$)", one)})
)
def test_every_path_exists(path):
    assert (ROOT / path).exists()


def test_every_chapter_names_modules_tests_and_rulings():
    assert len(ROWS) == 12
    for row in ROWS:
        chapter, paths, rulings, difference = (cell.strip() for cell in row.strip("|").split(" | "))
        modules, tests = paths.split("<br>")
        assert chapter.startswith("[")
        assert any(one.startswith("src/cupel/") for one in in_code(modules)), row
        assert any(one.startswith("tests/") for one in in_code(tests)), row
        assert "rulings.md#" in rulings
        assert difference


def test_every_part_of_the_rulings_belongs_to_a_chapter():
    linked = set(re.findall(r"\[(\d+)\]\(rulings\.md#", PAGE))
    parts = set(re.findall(r"^## (\d+) ", RULINGS, re.MULTILINE))
    assert parts - linked == {"13"}, "names are in the table of names"


@pytest.mark.parametrize("name", sorted({one for one in in_code(PAGE) if one.startswith("cupel.")}))
def test_every_name_of_ours_exists(name):
    if name.startswith("cupel.integrations.opentelemetry"):
        pytest.importorskip("opentelemetry")
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:size]))
        except ImportError:
            continue
        assert reduce(getattr, parts[size:], module) is not None
        return
    raise AssertionError(name)


def test_every_package_of_strategies_has_a_chapter():
    named = " ".join(in_code(PAGE))
    for package in ("scorers", "slicers", "placers", "diagnostics", "analytics", "conformance", "testing", "pipeline"):
        assert f"src/cupel/{package}" in named
