"""Tables in the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TextIO
from unicodedata import combining, east_asian_width

Tone = Literal["", "good", "bad", "soft", "strong"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and how it is meant.

    >>> Cell("out", "bad").tone
    'bad'
    """

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers are set to the right, and the one flexible column gives way when the line is too long.

    >>> Column("tokens", number=True)
    Column(title='tokens', number=True, flexible=False)
    """

    title: str
    number: bool = False
    flexible: bool = False


@dataclass(slots=True)
class Table:
    """Columns and rows.

    >>> table = Table([Column("item"), Column("tokens", number=True)])
    >>> table.add("hello", "2")
    >>> len(table.rows)
    1
    """

    columns: Sequence[Column]
    title: str = ""
    rows: list[Sequence[Cell | str]] = field(default_factory=list[Sequence[Cell | str]])

    def add(self, *cells: Cell | str) -> None:
        """Append a row."""
        self.rows.append(cells)


def text_of(cell: Cell | str) -> str:
    """Return a cell's text."""
    return cell if isinstance(cell, str) else cell.text


_STYLES: Final = {"": "", "good": "green", "bad": "red", "soft": "dim", "strong": "bold"}
_PIPE_WIDTH: Final = 160
_NARROWEST: Final = 12
_LEAST: Final = 3
_GAP: Final = 2


def print_table(table: Table, stream: TextIO | None = None) -> None:
    """Draw a table on a stream, standard output unless given.

    >>> table = Table([Column("item"), Column("tokens", number=True)])
    >>> table.add("hello", "2")
    >>> print_table(table)
    item   tokens
    hello       2
    """
    target = sys.stdout if stream is None else stream
    width = shutil.get_terminal_size().columns if target.isatty() else _PIPE_WIDTH
    console = _console(target, width)
    if console is None:
        target.write(plain(table, width))
    else:
        console.print(_rich(table, width))


def _console(stream: TextIO, width: int) -> Any:
    """Return a rich console when a terminal is there and the extra is installed, else None."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream, width=width, highlight=False)


def _rich(table: Table, width: int) -> Any:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    title = Text(table.title, style="bold") if table.title else None
    drawn = RichTable(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True
    )
    for column, size in zip(table.columns, _widths(table, width), strict=True):
        side: Literal["left", "right"] = "right" if column.number else "left"
        drawn.add_column(Text(column.title), justify=side, no_wrap=True, overflow="ellipsis", width=size)
    for row in table.rows:
        drawn.add_row(
            *(Text(text_of(cell), style=_STYLES[cell.tone] if isinstance(cell, Cell) else "") for cell in row)
        )
    return drawn


def plain(table: Table, width: int) -> str:
    """Draw a table as aligned text.

    >>> table = Table([Column("item", flexible=True), Column("tokens", number=True)])
    >>> table.add("a rather long text", "12")
    >>> print(plain(table, 20), end="")
    item          tokens
    a rather lo…      12
    """
    widths = _widths(table, width)
    heading = [column.title for column in table.columns]
    lines = [table.title] if table.title else []
    for row in [heading, *([text_of(cell) for cell in row] for row in table.rows)]:
        cells = [_fitted(text, size, column) for text, size, column in zip(row, widths, table.columns, strict=True)]
        lines.append((" " * _GAP).join(cells).rstrip())
    return "".join(f"{line}\n" for line in lines)


def _widths(table: Table, room: int) -> list[int]:
    """Return what each column gets: the flexible ones give way first, then other text, the numbers never."""
    widths = [
        max(_width(text) for text in [column.title, *(text_of(row[index]) for row in table.rows)])
        for index, column in enumerate(table.columns)
    ]
    excess = sum(widths) + _GAP * (len(widths) - 1) - room
    flexible = [index for index, column in enumerate(table.columns) if column.flexible]
    texts = [index for index, column in enumerate(table.columns) if not column.number]
    for columns, least in ((flexible, _NARROWEST), (texts, _LEAST)):
        for index in sorted(columns, key=widths.__getitem__, reverse=True):
            given = max(0, min(excess, widths[index] - least))
            widths[index] -= given
            excess -= given
    return widths


def _fitted(text: str, size: int, column: Column) -> str:
    shown = text
    while _width(shown) > size:
        shown = shown[: min(len(shown) - 2, size - 1)] + "…"
    padding = " " * (size - _width(shown))
    return padding + shown if column.number else shown + padding


def _width(text: str) -> int:
    """Count the cells a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
