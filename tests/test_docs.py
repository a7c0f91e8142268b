"""Every example in the documentation does what it says."""

import re
from pathlib import Path

import pytest

from tests.docs_runner import missing_requirements, run_page

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_the_pages_everybody_reads_are_there():
    assert {"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if missing := missing_requirements(page.read_text(encoding="utf-8")):
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_begins_with_its_title(page: Path):
    # The site takes a page's title from its first line only; a comment before it hides it.
    first = page.read_text(encoding="utf-8").partition("\n")[0]
    assert re.fullmatch(r"# \S.*|---", first), first


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_that_a_page_names_exist(page: Path):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", page.read_text(encoding="utf-8")))
    assert named - targets == set()


def test_modules_that_the_architecture_page_names_exist():
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    diagrams = " ".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL))
    named = set(re.findall(r"(?<!\w)_\w+(?=\.py)", page)) | set(re.findall(r"(?<![\w*])_[a-z]\w*", diagrams))
    assert len(named) > 10
    assert named - {path.stem for path in (ROOT / "src/cupel").rglob("_*")} == set()
