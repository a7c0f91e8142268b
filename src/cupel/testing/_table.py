"""A selection as a small text table, for people who read a test's failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cupel.diagnostics import IncludedItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.diagnostics import ExcludedItem, SelectionReport

_HEAD: Final = ("", "tokens", "score", "kind", "reason", "content")
_TO_THE_RIGHT: Final = frozenset({"", "tokens", "score"})
_ROWS: Final = 20
_CONTENT: Final = 40
_FIELD: Final = 24


def selection_table(report: SelectionReport) -> str:
    """Return the selected items in order and then what was left out, a row each, with reasons; long lists are cut."""
    tokens = sum(entry.item.tokens for entry in report.included)
    lines = [
        (
            f"{len(report.included)} of {report.total_candidates} candidates selected, "
            f"{tokens} of {report.total_tokens_considered} tokens"
        )
    ]
    rows = [(str(place), *_cells(entry)) for place, entry in enumerate(report.included[:_ROWS], 1)]
    split = len(rows)
    rows += [("out", *_cells(entry)) for entry in report.excluded[:_ROWS]]
    if rows:
        head, *body = _aligned([_HEAD, *rows])
        lines += [head, *body[:split], *_cut("selected", report.included)]
        lines += [*body[split:], *_cut("left out", report.excluded)]
    lines += [
        f"short of {shortfall.kind}: {shortfall.satisfied_count} of {shortfall.required_count} required"
        for shortfall in report.count_requirement_shortfalls
    ]
    return "\n".join(lines)


def _cells(entry: IncludedItem | ExcludedItem) -> tuple[str, ...]:
    item = entry.item
    if isinstance(entry, IncludedItem):
        reason = entry.reason.value
    else:
        fields = [f"{name}={_short(value)}" for name, value in entry.reason.to_dict().items() if name != "reason"]
        reason = f"{entry.reason.name}({', '.join(fields)})"
    return str(item.tokens), f"{entry.score:.4f}", str(item.kind), reason, _quoted(item.content, _CONTENT)


def _cut(what: str, entries: Sequence[object]) -> list[str]:
    return [f"     … and {len(entries) - _ROWS} more {what}"] if len(entries) > _ROWS else []


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if name in _TO_THE_RIGHT else cell.ljust(width)
            for name, cell, width in zip(_HEAD, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _short(value: object) -> str:
    return _quoted(value, _FIELD) if isinstance(value, str) else repr(value)


def _quoted(text: str, width: int) -> str:
    # repr keeps line breaks and control characters from tearing the table apart.
    return repr(text if len(text) <= width else f"{text[: width - 1]}…")
