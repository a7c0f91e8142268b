"""Write the HTML page, and the summary for notebooks."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import as_text, as_tuple, wrong_type
from cupel._internal.notebook import bar, table
from cupel._internal.text import percent, plural, preview, visible
from cupel.diagnostics import (
    KNOWN_REASONS,
    ExcludedItem,
    ExclusionReason,
    IncludedItem,
    InclusionReason,
    SelectionReport,
)
from cupel.errors import SelectionError
from cupel.model import ContextBudget
from cupel.page._payload import GENERATOR, Variant, page_payload, report_payload
from cupel.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence


_INCLUDED: Final = {
    InclusionReason.PINNED.value: "pinned",
    InclusionReason.ZERO_TOKEN.value: "costs nothing",
    InclusionReason.SCORED.value: "chosen for its score",
}


def reason_name(name: str) -> str:
    """Return a short title for a reason's name; an unknown name is returned unchanged.

    >>> reason_name("BudgetExceeded"), reason_name("TooOld")
    ('no room', 'TooOld')
    """
    return KNOWN_REASONS[name].title if name in KNOWN_REASONS else name


def included_words(entry: IncludedItem) -> str:
    """Return the reason why an item was selected, in one or two words.

    >>> from cupel import ContextItem
    >>> included_words(IncludedItem(ContextItem("rules", 9, pinned=True), 1.0, InclusionReason.PINNED))
    'pinned'
    """
    return _INCLUDED.get(entry.reason.value, entry.reason.value)


def excluded_words(reason: ExclusionReason) -> str:
    """Return the reason why an item is out, with its numbers, as text that is safe to print in a terminal.

    >>> from cupel.diagnostics import BudgetExceeded
    >>> excluded_words(BudgetExceeded(item_tokens=400, available_tokens=50))
    'needs 400, 50 left'
    """
    return visible(reason.say())


def left_out(report: SelectionReport) -> str:
    """Return the number of excluded items per reason as text; empty if there are none.

    >>> from cupel import ContextItem, presets
    >>> left_out(presets.chat().dry_run([ContextItem("a", 8), ContextItem("b", 7)], 10))
    '1 no room'
    """
    reasons = Counter(entry.reason.name for entry in report.excluded)
    return ", ".join(f"{count:,} {reason_name(name)}" for name, count in reasons.most_common())


def summary(report: SelectionReport, budget: ContextBudget, policy: str) -> str:
    """Return a summary of a selection in one line.

    >>> from cupel import ContextItem, presets
    >>> budget = ContextBudget(10, 10)
    >>> report = presets.chat().dry_run([ContextItem("a", 8), ContextItem("b", 7)], budget)
    >>> summary(report, budget, "chat")
    'chat: 1 of 2 items in, 8 of 10 tokens used (80.0 %); 1 out: 1 no room'
    """
    tokens = report.total_tokens
    line = (
        f"{policy}: {len(report.included):,} of {plural(report.total_candidates, 'item')} in, "
        f"{tokens:,} of {plural(budget.target_tokens, 'token')} used ({percent(tokens, budget.target_tokens)})"
    )
    left = left_out(report)
    return f"{line}; {len(report.excluded):,} out: {left}" if left else line


_STYLES: Final = ("page.css", "turns.css")
_SHARED: Final = ("words.js", "document.js")
_VIEWS: Final = {
    "watch": ("watch.html", ("watch.js",)),
    "turns": ("turns.html", ("requests.js", "strips.js", "changes.js", "turns.js")),
    "items": (
        "selection.html",
        (
            "answers.js",
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
"""The keys of the data that have their own view, each with its part of the document and its scripts."""
_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(payload: dict[str, Any]) -> str:
    """Put the data of `page_payload`, with the turns of a replay or these alone, into one self-contained HTML file.

    Items are data, never markup: they travel as JSON without any `<`, `>` or `&`, the script writes them as text only,
    and the file's own content security policy lets nothing run or load but that one script and style. Only the data of
    a `LivePage` allows the script to ask the server that the page came from.

    >>> from cupel import ContextBudget, ContextItem, presets
    >>> from cupel.page import Variant, page_payload
    >>> variants = [Variant(presets.chat(), "chat", "--policy chat")]
    >>> items = [ContextItem("<script>alert(1)</script>", 5)]
    >>> data = page_payload(items, ContextBudget(9, 9), variants, title="T", source="x.json", fixed_window=False)
    >>> "alert(1)" in render_page(data), "<script>alert(1)" in render_page(data)
    (True, False)
    """
    views = [view for part, view in _VIEWS.items() if part in payload]
    live = ["live.js"] if "live" in payload else []
    asked = "'self'" if live or "watch" in payload else "'none'"
    scripts = [*_SHARED, *(name for _, names in views for name in names), *live, "start.js"]
    style, script = ("\n".join(map(_asset, names)) for names in (_STYLES, scripts))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        f"img-src data:; connect-src {asked}; base-uri 'none'; form-action 'none'"
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
    """Return the payload as ASCII JSON, escaped so that no text can close the surrounding element."""
    return json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files("cupel.page").joinpath("assets", name).read_text(encoding="utf-8")


def save_page(
    report: SelectionReport,
    path: str | os.PathLike[str],
    *,
    policies: Iterable[Pipeline] = (),
    title: str = "A selection",
    on_progress: Callable[[int, int], object] | None = None,
) -> None:
    """Write the page of a report.

    A report of a run can be tried under other budgets and `policies`; for that its candidates are scored again. One of
    a session, or one that was read from a document, is shown as it is. `on_progress` is called after each policy with
    the number of policies done and in all.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from cupel import ContextItem, Pipeline, RecencyScorer
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("hello", 2)], 10)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_page(report, Path(folder, "page.html"))
    ...     Path(folder, "page.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    as_text("title", title)
    others = as_tuple("policies", policies, Pipeline)
    if report.origin is None:
        if others:
            msg = "policies need a report of dry_run, select or a traced run, which can be run again; leave them out"
            raise SelectionError(msg)
        write_page(report_payload(report, title=title), path)
        return
    prepared, budget = report.origin.prepared, report.origin.budget
    variants = [
        Variant(policy, policy.name or f"policy {number}", "")
        for number, policy in enumerate([_policy_of(prepared.pipeline), *others], start=1)
    ]
    payload = page_payload(
        prepared.items,
        budget,
        variants,
        title=title,
        source=None,
        fixed_window=budget.max_tokens != budget.target_tokens,
        on_progress=on_progress,
    )
    write_page(payload, path)


def _policy_of(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, name="this run", description=None, on_overflow=None)


_ROWS: Final = 8
_PREVIEW: Final = 90
_COLUMNS: Final = {"item": "left", "kind": "left", "tokens": "right", "score": "right", "why": "left"}


def notebook_html(report: SelectionReport, budget: ContextBudget | None) -> str:
    """Return the compact view of a report: the tokens of each kind, the first items, the best of those left out.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("<b>", 2)], 10)
    >>> html = notebook_html(report, ContextBudget(10, 10))
    >>> "&lt;b&gt;" in html, "<b>&lt;" in html
    (True, False)
    """
    kinds: dict[str, tuple[str, int]] = {}
    for entry in report.included:
        name, tokens = kinds.get(entry.item.kind.key, (entry.item.kind.value, 0))
        kinds[entry.item.kind.key] = (name, tokens + entry.item.tokens)
    used = sum(tokens for _, tokens in kinds.values())
    head = f"{len(report.included):,} of {plural(report.total_candidates, 'item')} in, {plural(used, 'token')}"
    if budget is not None:
        head += f" of {budget.target_tokens:,} ({percent(used, budget.target_tokens)})"
    out = left_out(report)
    included = [_cells(entry, included_words(entry)) for entry in report.included[:_ROWS]]
    excluded = [_cells(entry, excluded_words(entry.reason)) for entry in report.excluded[:_ROWS]]
    return (
        f"<div><p><strong>{html.escape(head)}</strong></p>"
        f"{bar(dict(kinds.values()), max(used, 0 if budget is None else budget.target_tokens))}"
        f"{_listed('In the window, in order', included, len(report.included))}"
        f"{_listed(f'Left out: {out}' if out else 'Nothing left out', excluded, len(report.excluded))}</div>"
    )


def _cells(entry: IncludedItem | ExcludedItem, words: str) -> tuple[str, ...]:
    item = entry.item
    text = preview(item.content, _PREVIEW) or "(only white space)"
    return text, preview(item.kind.value, 40), f"{item.tokens:,}", f"{entry.score:.3f}", words


def _listed(title: str, rows: Sequence[Sequence[str]], total: int) -> str:
    more = f"<p>… and {total - len(rows):,} more</p>" if total > len(rows) else ""
    return f"<p>{html.escape(title)}</p>{table(_COLUMNS, rows) if rows else ''}{more}"
