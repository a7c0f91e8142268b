"""The page: one HTML file with its data inside."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from cupel._checks import wrong_type
from cupel.page._payload import GENERATOR

_STYLES: Final = ("page.css", "turns.css")
_SHARED: Final = ("words.js", "document.js")
_VIEWS: Final = {
    "turns": ("turns.html", ("requests.js", "strips.js", "changes.js", "turns.js")),
    "items": (
        "selection.html",
        (
            "slicers.js",
            "scorers.js",
            "answers.js",
            "replay.js",
            "search.js",
            "state.js",
            "play.js",
            "relations.js",
            "items.js",
            "instrument.js",
            "lists.js",
            "prompt.js",
            "links.js",
            "view.js",
        ),
    ),
}
"""What of the data has a view of its own: its part of the document, and its scripts."""
_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(payload: dict[str, Any]) -> str:
    """Put the data of `page_payload`, with the turns of a replay or these alone, into one self-contained HTML file.

    Items are data, never markup: they travel as JSON without any `<`, `>` or `&`, the script writes them as text only,
    and the file's own content security policy lets nothing run or load but that one script and style.

    >>> from cupel import ContextBudget, ContextItem, presets
    >>> from cupel.page import Variant, page_payload
    >>> variants = [Variant(presets.chat(), "chat", "--policy chat")]
    >>> items = [ContextItem("<script>alert(1)</script>", 5)]
    >>> data = page_payload(items, ContextBudget(9, 9), variants, title="T", source="x.json", fixed_window=False)
    >>> "alert(1)" in render_page(data), "<script>alert(1)" in render_page(data)
    (True, False)
    """
    views = [view for part, view in _VIEWS.items() if part in payload]
    scripts = [*_SHARED, *(name for _, names in views for name in names), "start.js"]
    style, script = ("\n".join(map(_asset, names)) for names in (_STYLES, scripts))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Template(_asset("page.html")).substitute(
        csp=policy,
        generator=html.escape(GENERATOR),
        title=html.escape(f"{payload['title']} · cupel"),
        style=style,
        views="".join(_asset(name) for name, _ in views),
        script=script,
        payload=_embedded({"generator": GENERATOR, **payload}),
    )


def write_page(payload: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the page of some data into a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page({"title": "Nothing"}, Path(folder, "page.html"))
    ...     Path(folder, "page.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    if not isinstance(path, (str, os.PathLike)):
        raise wrong_type("path", "a path", path)
    Path(path).write_text(render_page(payload), encoding="utf-8")


def _embedded(payload: dict[str, Any]) -> str:
    """Write JSON in ASCII; escaped so that no text in it can end the element it stands in."""
    return json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files("cupel.page").joinpath("assets", name).read_text(encoding="utf-8")
