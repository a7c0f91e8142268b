"""Tables, computed apart from the way they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

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
