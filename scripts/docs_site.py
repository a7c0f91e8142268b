"""Build the navigation of the site and the pages of the API reference.

mkdocs loads this file as a hook. A how-to page belongs to one of the `NEEDS`; other pages are ordered by their folder.
"""

import re
from pathlib import Path
from typing import Any

SECTIONS = {"Tutorial": "tutorial", "How to": "how-to", "Explanation": "explanation", "Reference": "reference"}
FIRST = ("first-selection", "how-selection-works")
"""Pages that come first in their section; the others follow by title."""
NEEDS = {
    "Agents and chats": (
        "agent-loop",
        "recall",
        "web-server",
        "watch",
        "logs",
        "chat-messages",
        "shorten",
        "newest-tool-output",
        "migrate-trim-messages",
        "token-counting",
    ),
    "Frameworks": (
        "openai-agents",
        "litellm",
        "claude-agent-sdk",
        "google-adk",
        "langchain",
        "llamaindex",
        "haystack",
        "pydantic-ai",
        "mcp",
    ),
    "Retrieval": ("rag", "forms", "streaming"),
    "Explain and compare": ("explain-a-selection", "inspect-page", "what-if", "evaluate", "tune"),
    "Operate": ("cli", "batch", "policies", "opentelemetry"),
    "Extend and test": ("custom-strategies", "testing", "pytest-plugin"),
}
"""How-to pages by what the reader needs; pages that do not exist are skipped, and a page in no group is an error."""
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
    "cupel.testing",
    "cupel.testing.strategies",
    "cupel.batch",
    "cupel.page",
    "cupel.watch",
    "cupel.conformance",
    "cupel.demo",
    "cupel.errors",
)
INTEGRATIONS = "cupel.integrations"
# What the theme would fetch from another host so that pages opened from disk can be searched, and what does it here.
FOREIGN_SCRIPT = re.compile(r'https://[^"]*/iframe-worker/shim')
OWN_SCRIPT = "assets/search-from-disk.js"


def on_config(config: Any) -> Any:
    """Order the pages: how-to pages by need, the others by title."""
    docs = Path(config["docs_dir"])
    nav: list[Any] = [{"Home": "index.md"}]
    for title, folder in SECTIONS.items():
        pages = sorted((docs / folder).glob("*.md"), key=_order)
        entries: list[Any] = [page.relative_to(docs).as_posix() for page in pages]
        if folder == "how-to":
            entries = _by_need({page.stem: page.relative_to(docs).as_posix() for page in pages})
        if folder == "reference":
            entries.append({"API": [{name: f"reference/api/{name}.md"} for name in _existing()]})
        if entries:
            nav.append({title: entries})
    config["nav"] = nav
    return config


def _by_need(pages: dict[str, str]) -> list[Any]:
    groups = [{need: [pages.pop(stem) for stem in stems if stem in pages]} for need, stems in NEEDS.items()]
    if pages:
        msg = f"how-to pages in no group of NEEDS: {', '.join(pages)}"
        raise ValueError(msg)
    return groups


def _order(page: Path) -> tuple[int, str]:
    place = FIRST.index(page.stem) if page.stem in FIRST else len(FIRST)
    return place, page.read_text(encoding="utf-8").splitlines()[0].casefold()


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each public namespace, its docstrings; a search finds the guides before them."""
    from mkdocs.structure.files import File

    for name in _existing():
        page = f"---\nsearch:\n  boost: 0.5\n---\n::: {name}\n    options:\n      heading_level: 1\n"
        files.append(File.generated(config, f"reference/api/{name}.md", content=page))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:  # noqa: ARG001
    """Let a page load the project's own script."""
    return FOREIGN_SCRIPT.sub("../" * page.url.count("/") + OWN_SCRIPT, output)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:  # noqa: ARG001
    """Do the same for the page of a missing address."""
    return FOREIGN_SCRIPT.sub(f"/{OWN_SCRIPT}", output_content)


def _existing() -> list[str]:
    """Return the public namespaces, then every integration."""
    root = Path(__file__).parents[1] / "src"
    integrations = sorted(
        f"{INTEGRATIONS}.{path.stem}"
        for path in (root / INTEGRATIONS.replace(".", "/")).iterdir()
        if not path.name.startswith("_")
    )
    return [
        name
        for name in (*NAMESPACES, *integrations)
        if (root / name.replace(".", "/") / "__init__.py").exists() or (root / f"{name.replace('.', '/')}.py").exists()
    ]
