"""A turn in a notebook: its bill and its changes, without script or style sheet."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel._planning._bill import Bill
    from cupel._planning._turn import Change

_ROWS: Final = 8
_COLOURS: Final = {"read from the cache": "#93a6c4", "written again": "#c8641c", "new": "#2f7d4a"}
_SHELL: Final = "display:flex;height:12px;max-width:720px;background:#8883;border-radius:4px;overflow:hidden"


def turn_html(bill: Bill, reason: str, changes: Sequence[Change]) -> str:
    """Return what a turn costs, as a bar and in words, and the first of what changed.

    >>> from cupel._planning import Bill
    >>> "<b>" in turn_html(Bill(sent=3, new=3), "<b>", ())
    False
    """
    parts = dict(zip(_COLOURS, (bill.read, bill.rewritten, bill.new), strict=True))
    bar = "".join(
        f'<span style="width:{100 * tokens / max(bill.sent, 1):.2f}%;background:{_COLOURS[name]}"></span>'
        for name, tokens in parts.items()
    )
    names = " &nbsp; ".join(
        f'<span style="color:{_COLOURS[name]}">■</span> {name} {tokens:,}' for name, tokens in parts.items()
    )
    said = "".join(f"<li>{escape(str(change))}</li>" for change in changes[:_ROWS])
    more = f"<li>… and {len(changes) - _ROWS:,} more</li>" if len(changes) > _ROWS else ""
    listed = f"<ul>{said}{more}</ul>" if said else ""
    estimated = "" if bill.settled else ", estimated"
    return (
        f"<div><p><strong>{bill.sent:,} tokens sent for {bill.price:,.0f}{estimated}</strong>: {escape(reason)}</p>"
        f'<div style="{_SHELL}">{bar}</div><p>{names}</p>{listed}</div>'
    )
