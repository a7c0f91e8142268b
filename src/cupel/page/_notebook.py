"""A report in a notebook: a little HTML without script or style sheet, so that it survives wherever it is sent."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from cupel._text import percent, plural, preview
from cupel.page._words import excluded_words, included_words, left_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.diagnostics import SelectionReport
    from cupel.model import ContextBudget, ContextItem

_ROWS: Final = 8
_PREVIEW: Final = 90
_COLOURS: Final = ("#0b6e7f", "#9a4b08", "#2c6e31", "#a12a68", "#4b49b8", "#6b6100")
_LEFT: Final = "text-align:left"
_RIGHT: Final = "text-align:right"


def notebook_html(report: SelectionReport, budget: ContextBudget | None) -> str:
    """Return the compact view of a report: what fills the window, the first items in it, the best of those left out.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> report = Pipeline(scorer=RecencyScorer()).dry_run([ContextItem("<b>", 2)], 10)
    >>> html = notebook_html(report, ContextBudget(10, 10))
    >>> "&lt;b&gt;" in html, "<b>&lt;" in html
    (True, False)
    """
    tokens = sum(entry.item.tokens for entry in report.included)
    head = f"{len(report.included):,} of {plural(report.total_candidates, 'item')} in, {plural(tokens, 'token')}"
    if budget is not None:
        head += f" of {budget.target_tokens:,} ({percent(tokens, budget.target_tokens)})"
    out = left_out(report)
    included = [(entry.item, entry.score, included_words(entry)) for entry in report.included[:_ROWS]]
    excluded = [(entry.item, entry.score, excluded_words(entry.reason)) for entry in report.excluded[:_ROWS]]
    return (
        f"<div><p><strong>{escape(head)}</strong></p>"
        f"{_bar([entry.item for entry in report.included], budget)}"
        f"{_table('In the window, in order', included, len(report.included))}"
        f"{_table(f'Left out: {out}' if out else 'Nothing left out', excluded, len(report.excluded))}</div>"
    )


def _bar(items: Sequence[ContextItem], budget: ContextBudget | None) -> str:
    """Draw the tokens of each kind beside each other."""
    kinds: dict[str, tuple[str, int]] = {}
    for item in items:
        name, tokens = kinds.get(item.kind.key, (item.kind.value, 0))
        kinds[item.kind.key] = (name, tokens + item.tokens)
    used = sum(tokens for _, tokens in kinds.values())
    whole = max(used, 1 if budget is None else budget.target_tokens, 1)
    pieces: list[str] = []
    names: list[str] = []
    for number, (name, tokens) in enumerate(kinds.values()):
        colour = _COLOURS[number % len(_COLOURS)]
        pieces.append(f'<span style="width:{100 * tokens / whole:.2f}%;background:{colour}"></span>')
        names.append(f'<span style="color:{colour}">■</span> {escape(preview(name, 40))} {tokens:,}')
    shell = "display:flex;height:12px;max-width:720px;background:#8883;border-radius:4px;overflow:hidden"
    return f'<div style="{shell}">{"".join(pieces)}</div><p>{" &nbsp; ".join(names)}</p>' if pieces else ""


def _table(title: str, rows: Iterable[tuple[ContextItem, float, str]], total: int) -> str:
    cells = [
        f'<tr><td style="{_LEFT}">{escape(preview(item.content, _PREVIEW)) or "(only white space)"}</td>'
        f'<td style="{_LEFT}">{escape(preview(item.kind.value, 40))}</td><td style="{_RIGHT}">{item.tokens:,}</td>'
        f'<td style="{_RIGHT}">{score:.3f}</td><td style="{_LEFT}">{escape(words)}</td></tr>'
        for item, score, words in rows
    ]
    if not cells:
        return f"<p>{escape(title)}</p>"
    titles = (("item", _LEFT), ("kind", _LEFT), ("tokens", _RIGHT), ("score", _RIGHT), ("why", _LEFT))
    heads = "".join(f'<th scope="col" style="{side}">{name}</th>' for name, side in titles)
    more = f"<p>… and {total - len(cells):,} more</p>" if total > len(cells) else ""
    return f"<p>{escape(title)}</p><table><thead><tr>{heads}</tr></thead><tbody>{''.join(cells)}</tbody></table>{more}"
