"""A ruling that the project cites is published, once, with its reason."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reference/rulings.md").read_text(encoding="utf-8")
PUBLISHED = re.findall(r"^- \*\*(\d+\.\d+)\*\*\{ #r(\d+-\d+) \}", PAGE, re.MULTILINE)
_LIST = re.compile(r"\brulings?\s+(\d+\.\d+(?:(?:,\s*|\s+and\s+|\s+to\s+)\d+\.\d+)*)", re.IGNORECASE)


def cited(text: str) -> set[str]:
    """Read "ruling 3.15", "rulings 5.6, 5.9" and "rulings 7.23 to 7.26"."""
    found: set[str] = set()
    for match in _LIST.finditer(text):
        found.update(re.findall(r"\d+\.\d+", match[1]))
        for part, first, last in re.findall(r"(\d+)\.(\d+)\s+to\s+\d+\.(\d+)", match[1]):
            found.update(f"{part}.{number}" for number in range(int(first), int(last) + 1))
    return found


def test_citations_are_read_in_all_their_forms():
    assert cited("(ruling 3.15). Rulings 5.6, 5.9 and 7.1; rulings 7.23 to 7.25") == {
        "3.15", "5.6", "5.9", "7.1", "7.23", "7.24", "7.25",
    }  # fmt: skip


@pytest.mark.parametrize("folder", ["src", "tests", "conformance", "docs"])
def test_every_cited_ruling_is_published(folder):
    files = [file for file in (ROOT / folder).rglob("*") if file.suffix in {".py", ".js", ".toml", ".md"}]
    missing = {
        f"{file.relative_to(ROOT)}: {number}"
        for file in files
        if file != Path(__file__)
        for number in cited(file.read_text(encoding="utf-8")) - {number for number, _ in PUBLISHED}
    }
    assert missing == set()


def test_rulings_are_numbered_in_order_and_have_reasons():
    numbers = [tuple(map(int, number.split("."))) for number, _ in PUBLISHED]
    assert numbers == sorted(set(numbers))
    assert all(number.replace(".", "-") == anchor for number, anchor in PUBLISHED)
    entries = PAGE.split("\n- **")[1:]
    assert [entry[:12] for entry in entries if entry.count("*Why:*") != 1] == []
