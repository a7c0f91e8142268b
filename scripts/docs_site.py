"""What the site is built with beyond its pages: the order of the sections, and the pages of the API reference.

mkdocs loads this file as a hook. A new page needs no entry anywhere: its folder decides where it goes.
"""

import re
from pathlib import Path
from typing import Any

SECTIONS = {"Tutorial": "tutorial", "How to": "how-to", "Explanation": "explanation", "Reference": "reference"}
FIRST = ("agent-loop", "chat-messages", "rag", "inspect-page", "cli", "policies", "how-selection-works")
"""What most readers come for; the other pages of a section follow by title."""
NAMESPACES = (
    "cupel.pipeline",
    "cupel.model",
    "cupel.scorers",
    "cupel.slicers",
    "cupel.placers",
    "cupel.diagnostics",
    "cupel.policy",
    "cupel.presets",
    "cupel.analytics",
    "cupel.evaluation",
    "cupel.tokens",
    "cupel.shorten",
    "cupel.messages",
    "cupel.sessions",
    "cupel.testing",
    "cupel.testing.strategies",
    "cupel.batch",
    "cupel.page",
    "cupel.conformance",
    "cupel.demo",
    "cupel.errors",
)
INTEGRATIONS = "cupel.integrations"
# What the theme would fetch from another host so that pages opened from disk can be searched, and what does it here.
FOREIGN_SCRIPT = re.compile(r'https://[^"]*/iframe-worker/shim')
OWN_SCRIPT = "assets/search-from-disk.js"


def on_config(config: Any) -> Any:
    """Order the pages: by section, then what most readers come for, then by title."""
    docs = Path(config["docs_dir"])
    nav: list[Any] = [{"Home": "index.md"}]
    for title, folder in SECTIONS.items():
        pages = sorted((docs / folder).glob("*.md"), key=_order)
        entries: list[Any] = [page.relative_to(docs).as_posix() for page in pages]
        if folder == "reference":
            entries.append({"API": [{name: f"reference/api/{name}.md"} for name in _existing()]})
        if entries:
            nav.append({title: entries})
    config["nav"] = nav
    return config


def _order(page: Path) -> tuple[int, str]:
    place = FIRST.index(page.stem) if page.stem in FIRST else len(FIRST)
    return place, page.read_text(encoding="utf-8").splitlines()[0].casefold()


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each public namespace; its content is the docstrings."""
    from mkdocs.structure.files import File

    for name in _existing():
        page = f"::: {name}\n    options:\n      heading_level: 1\n"
        files.append(File.generated(config, f"reference/api/{name}.md", content=page))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:  # noqa: ARG001
    """Let a page load the project's own script."""
    return FOREIGN_SCRIPT.sub("../" * page.url.count("/") + OWN_SCRIPT, output)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:  # noqa: ARG001
    """Do the same for the page that a server shows when there is none."""
    return FOREIGN_SCRIPT.sub(f"/{OWN_SCRIPT}", output_content)


def _existing() -> list[str]:
    """The namespaces that are there, then every bridge to a framework, one page each."""
    root = Path(__file__).parents[1] / "src"
    bridges = sorted(
        f"{INTEGRATIONS}.{path.stem}"
        for path in (root / INTEGRATIONS.replace(".", "/")).iterdir()
        if not path.name.startswith("_")
    )
    return [
        name
        for name in (*NAMESPACES, *bridges)
        if (root / name.replace(".", "/") / "__init__.py").exists() or (root / f"{name.replace('.', '/')}.py").exists()
    ]
