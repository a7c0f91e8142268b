"""The site: every public namespace has a page, every page a title, and no other host is asked for anything."""

import pkgutil
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

import cupel

ROOT = Path(__file__).parents[1]
SITE = runpy.run_path(str(ROOT / "scripts/docs_site.py"))


def test_every_public_namespace_has_a_page_of_the_reference():
    found = {
        module.name
        for module in pkgutil.walk_packages(cupel.__path__, "cupel.", onerror=lambda _: None)
        if not any(part.startswith("_") for part in module.name.split("."))
    }
    assert found - set(SITE["_existing"]()) == {"cupel.cli", "cupel.integrations"}


def test_no_page_of_the_reference_is_there_twice():
    names = SITE["_existing"]()
    assert len(names) == len(set(names))


def test_every_page_is_in_the_navigation_and_how_to_pages_are_grouped_by_need():
    nav = SITE["on_config"]({"docs_dir": str(ROOT / "docs")})["nav"]
    sections = {title: pages for section in nav for title, pages in section.items() if title != "Home"}
    groups = {need: pages for group in sections.pop("How to") for need, pages in group.items()}
    listed = [page for pages in (*sections.values(), *groups.values()) for page in pages if isinstance(page, str)]
    assert sorted(listed) == sorted(
        page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").glob("*/*.md")
    )
    assert list(groups) == list(SITE["NEEDS"])
    assert groups["Agents and chats"][0] == "how-to/agent-loop.md"


def test_a_how_to_page_in_no_group_is_an_error(tmp_path):
    (tmp_path / "how-to").mkdir()
    (tmp_path / "how-to" / "lost.md").write_text("# Lost")
    with pytest.raises(ValueError, match="in no group of NEEDS: lost"):
        SITE["on_config"]({"docs_dir": str(tmp_path)})


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_every_page_begins_with_its_title(page):
    """A comment before it would hide it: the navigation would show the file's name."""
    assert page.read_text(encoding="utf-8").startswith("# ")


def test_the_search_from_disk_asks_no_other_host():
    foreign = '<script src="https://elsewhere.example/iframe-worker/shim"></script>'
    page = SITE["on_post_page"](foreign, SimpleNamespace(url="reference/api/cupel.model.html"), None)
    assert page == f'<script src="../../{SITE["OWN_SCRIPT"]}"></script>'
    assert SITE["on_post_template"](foreign, "404.html", None) == f'<script src="/{SITE["OWN_SCRIPT"]}"></script>'
    assert (ROOT / "docs" / SITE["OWN_SCRIPT"]).is_file()
