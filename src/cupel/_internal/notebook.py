"""The parts of every notebook view: a bar of shares and a table, as HTML without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from cupel._internal.text import preview

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_COLOURS: Final = ("#0b6e7f", "#9a4b08", "#2c6e31", "#a12a68", "#4b49b8", "#6b6100")
_SHELL: Final = "display:flex;height:12px;max-width:720px;background:#8883;border-radius:4px;overflow:hidden"


def bar(parts: Mapping[str, int], whole: int) -> str:
    """Draw the tokens of named parts beside each other, and list them below.

    >>> bar({}, 10)
    ''
    >>> "width:30.00%" in bar({"<Memory>": 3}, 10), "<Memory>" in bar({"<Memory>": 3}, 10)
    (True, False)
    """
    pieces: list[str] = []
    names: list[str] = []
    for number, (name, tokens) in enumerate(parts.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        pieces.append(f'<span style="width:{100 * tokens / max(whole, 1):.2f}%;background:{colour}"></span>')
        names.append(f'<span style="color:{colour}">■</span> {escape(preview(name, 40))} {tokens:,}')
    return f'<div style="{_SHELL}">{"".join(pieces)}</div><p>{" &nbsp; ".join(names)}</p>' if pieces else ""


def table(columns: Mapping[str, str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; `columns` maps each heading to `left` or `right`, and cells are text.

    >>> table({"item": "left", "tokens": "right"}, [("<b>", "3")]).count("&lt;b&gt;")
    1
    """
    sides = [f"text-align:{side}" for side in columns.values()]
    heads = "".join(f'<th scope="col" style="{side}">{name}</th>' for name, side in zip(columns, sides, strict=True))
    body = "".join(f"<tr>{_cells(row, sides)}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], sides: Sequence[str]) -> str:
    return "".join(f'<td style="{side}">{escape(cell)}</td>' for cell, side in zip(row, sides, strict=True))
