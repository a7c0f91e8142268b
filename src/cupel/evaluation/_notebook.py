"""A replay in a notebook: the ways side by side, without script or style sheet."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from cupel._text import plural

if TYPE_CHECKING:
    from cupel.evaluation._turns import Figures, Replay

_COLUMNS = ("way", "sent a turn", "cached", "price a turn", "facts held", "over", "failed")


def replay_html(replay: Replay) -> str:
    """Return the compact view of a replay: what each way sends, pays and keeps on the turns that count."""
    figures = replay.figures
    turns = max((one.turns for one in figures.values()), default=0)
    head = f"{plural(turns, 'turn')} over {plural(replay.budget, 'token')}"
    heads = "".join(f'<th scope="col" style="text-align:{_side(at)}">{name}</th>' for at, name in enumerate(_COLUMNS))
    rows = "".join(_row(name, one) for name, one in figures.items())
    return (
        f"<div><p><strong>{escape(head)}</strong></p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(name: str, one: Figures) -> str:
    priced = (f"{one.sent:,.0f}", f"{one.hit:.0%}", f"{one.price:,.0f}") if one.turns > one.failed else ("–",) * 3
    kept = f"{one.facts:.0%}" if one.steps else "–"
    cells = (name, *priced, kept, f"{one.over:,}", f"{one.failed:,}")
    return (
        "<tr>" + "".join(f'<td style="text-align:{_side(at)}">{escape(c)}</td>' for at, c in enumerate(cells)) + "</tr>"
    )


def _side(column: int) -> str:
    return "right" if column else "left"
