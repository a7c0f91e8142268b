"""Results as Markdown, put between the marks of a documentation page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

Cells = Sequence[object]


def markdown(header: Cells, rows: Iterable[Cells], *, left: int = 1) -> str:
    """A table whose first `left` columns are text and whose others are numbers."""
    marks = ["---"] * left + ["--:"] * (len(header) - left)
    lines = [header, marks, *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def put(page: str, name: str, content: str) -> str:
    """Replace what stands between `<!-- begin: name -->` and `<!-- end: name -->`."""
    pattern = re.compile(rf"(<!-- begin: {re.escape(name)} -->\n).*?(<!-- end: {re.escape(name)} -->)", re.DOTALL)
    if not pattern.search(page):
        msg = f"the page has no marks for {name!r}"
        raise ValueError(msg)
    return pattern.sub(lambda marks: f"{marks[1]}\n{content}\n\n{marks[2]}", page, count=1)


def speed_table(cells: list[dict[str, Any]], mode: str = "gc on") -> str:
    """Best microseconds of each row (lines) at each size (columns)."""
    sizes = sorted({cell["items"] for cell in cells})
    rows: dict[str, dict[int, float]] = {}
    for cell in cells:
        if mode in cell:
            rows.setdefault(cell["row"], {})[cell["items"]] = cell[mode]["best"]
    return markdown(
        ["configuration", *(f"{size:,}" for size in sizes)],
        ([name, *(number(times.get(size)) for size in sizes)] for name, times in rows.items()),
    )


def naive_table(cells: list[dict[str, Any]]) -> str:
    """Pseudocode and library side by side at the largest size the pseudocode was run with."""
    last = {cell["row"]: cell for cell in cells}
    return markdown(
        ["configuration", "items", "pseudocode, µs", "cupel, µs", "ratio"],
        (
            [cell["row"], f"{cell['items']:,}", number(cell["naive"]), number(cell["cupel"]), f"{cell['ratio']:,.0f}×"]
            for cell in last.values()
        ),
    )


def peers_table(rows: list[dict[str, Any]]) -> str:
    """Who selected how much value, with how much of the budget, in which time."""
    return markdown(
        ["task", "package", "items", "value", "budget used", "time, µs"],
        (
            [
                row["task"],
                row["peer"],
                f"{row['items']:,}",
                f"{row['value']:,.2f}",
                f"{row['used'] * 100:.2f} %",
                number(row["best"]),
            ]
            for row in rows
        ),
        left=2,
    )


def growth_table(rows: list[dict[str, Any]]) -> str:
    """Each strategy's time at both sizes."""
    small, large = rows[0]["items"]
    return markdown(
        ["strategy", f"{small:,} items, µs", f"{large:,} items, µs", "growth"],
        ([_strategy(row), *map(number, row["best"]), f"{row['growth']:,.0f}×"] for row in rows),
    )


def _strategy(row: dict[str, Any]) -> str:
    return f"`{row['strategy']}`" + (f", {row['note']}" if row["note"] else "")


def items_table(rows: list[dict[str, Any]]) -> str:
    """Making an item, beside a dataclass."""
    return markdown(
        ["fields given", "`ContextItem`, ns", "dataclass, ns", "`ContextItem`, bytes", "dataclass, bytes"],
        (
            [
                row["fields"],
                *(f"{row[name]['ns']:,}" for name in ("ContextItem", "DataclassItem")),
                *(f"{row[name]['bytes']:,.0f}" for name in ("ContextItem", "DataclassItem")),
            ]
            for row in rows
        ),
    )


def footprint_table(figures: dict[str, dict[str, float]]) -> str:
    """Memory, import and report figures, one to a line."""
    memory, imported, report = figures["memory"], figures["import"], figures["report"]
    size = f"{memory['items']:,}"
    lines: list[Cells] = [
        [f"an item of the pools above, with its text ({size} items)", f"{memory['item']:,.0f} bytes"],
        ["peak of a run, for each item", f"{memory['run peak']:,.0f} bytes"],
        ["peak of a run with its report, for each item", f"{memory['report peak']:,.0f} bytes"],
        ["`import cupel`, beyond starting the interpreter", f"{imported['import cupel']:,.1f} ms"],
        ["`from cupel import Pipeline`, which is all that a run needs", f"{imported['import of a run']:,.1f} ms"],
        [f"`run` with {report['items']:,} items", f"{report['run']:,.1f} ms"],
        ["`dry_run`: the same with the report", f"{report['dry_run']:,.1f} ms, {report['ratio']:.1f} times as much"],
        ["`to_json` of that report", f"{report['to_json']:,.0f} ms"],
        ["`from_json` of that report", f"{report['from_json']:,.0f} ms"],
    ]
    return markdown(["what", "how much"], lines)


def number(microseconds: float | None) -> str:
    """Three digits that matter, and a dash for what was not measured."""
    if microseconds is None:
        return "–"
    return f"{microseconds:,.1f}" if microseconds < 100 else f"{microseconds:,.0f}"
