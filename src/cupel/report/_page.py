"""The page: one HTML file with its data inside."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any, Final

_SCRIPTS: Final = (
    "words.js",
    "slicers.js",
    "replay.js",
    "search.js",
    "state.js",
    "items.js",
    "instrument.js",
    "lists.js",
    "prompt.js",
    "links.js",
    "view.js",
)
_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(payload: dict[str, Any]) -> str:
    """Put the data of `page_payload` into one self-contained HTML file.

    Items are data, never markup: they travel as JSON without any `<`, `>` or `&`, the script writes them as text only,
    and the file's own content security policy lets nothing run or load but that one script and style.

    >>> from cupel import ContextBudget, ContextItem, presets
    >>> from cupel.report import Variant, page_payload
    >>> variants = [Variant(presets.chat(), "chat", "--policy chat")]
    >>> items = [ContextItem("<script>alert(1)</script>", 5)]
    >>> data = page_payload(items, ContextBudget(9, 9), variants, title="T", source="x.json", fixed_window=False)
    >>> "alert(1)" in render_page(data), "<script>alert(1)" in render_page(data)
    (True, False)
    """
    style, script = _asset("page.css"), "\n".join(_asset(name) for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Template(_asset("page.html")).substitute(
        csp=policy,
        generator=html.escape(str(payload["generator"])),
        title=html.escape(f"{payload['title']} · cupel"),
        style=style,
        script=script,
        payload=_embedded(payload),
    )


def _embedded(payload: dict[str, Any]) -> str:
    """Write JSON in ASCII; escaped so that no text in it can end the element it stands in."""
    return json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files("cupel.report").joinpath("assets", name).read_text(encoding="utf-8")
