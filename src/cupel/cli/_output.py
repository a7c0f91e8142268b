"""Write items, JSON and tables; show progress."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal, Protocol, TextIO

from cupel._internal.checks import shown
from cupel._internal.documents import plain
from cupel._internal.files import whole
from cupel._internal.text import escape_json, plural, preview, visible
from cupel.diagnostics import IncludedItem, SelectionReport
from cupel.errors import MissingExtraError
from cupel.model import ContextBudget, ContextItem


def say(text: str = "", *, error: bool = False) -> None:
    """Print a line for people, on standard error with `error`; control characters are shown as code points."""
    print(visible(text), file=sys.stderr if error else sys.stdout)


def prose_width() -> int:
    """Return the columns for prose: those of the terminal, but no more than can be read with ease."""
    return min(100, shutil.get_terminal_size((100, 24)).columns)


def say_prose(text: str, *, start: str = "") -> None:
    """Print a paragraph, wrapped to the terminal; further lines are indented like the text after `start`."""
    say(textwrap.fill(text, prose_width(), initial_indent=start, subsequent_indent=" " * len(start)))


def write_context(text: str, output: Path | None) -> None:
    """Write selected text to a file or a pipe as it is, or to a terminal with control characters made visible."""
    if output is not None:
        write_whole(output, text)
    else:
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


def as_text(included: Sequence[IncludedItem]) -> str:
    """Return the contents in placed order, a blank line between them."""
    text = "\n\n".join(entry.item.content for entry in included)
    return f"{text}\n" if text else ""


def as_jsonl(included: Sequence[IncludedItem]) -> str:
    """Return one item on each line; the result can be read back as ITEMS."""
    return "".join(f"{to_json(entry.item.to_dict())}\n" for entry in included)


def as_json(report: SelectionReport, budget: ContextBudget, policy: str) -> str:
    """Return the items and the facts about the selection; the result can be read back as ITEMS."""
    document = {
        "policy": policy,
        "budget": budget.to_dict(),
        "total_tokens": report.total_tokens,
        "total_candidates": report.total_candidates,
        "items": [entry.item.to_dict() for entry in report.included],
    }
    return to_json(document, indent=2) + "\n"


def as_markdown(included: Sequence[IncludedItem]) -> str:
    """Return each item under a heading, in a fence that its content cannot close."""
    parts: list[str] = []
    for number, entry in enumerate(included, 1):
        longest = max((len(run) for run in re.findall(r"`+", entry.item.content)), default=0)
        fence = "`" * max(3, longest + 1)
        heading = f"### {number}. {visible(entry.item.kind.value)}, {plural(entry.item.tokens, 'token')}"
        parts.append(f"{heading}\n\n{fence}text\n{entry.item.content}\n{fence}\n")
    return "\n".join(parts)


def print_json(value: Any) -> None:
    """Print a document for other programs."""
    print(to_json(value, indent=2))


def to_json(value: Any, indent: int | None = None) -> str:
    """Write JSON with readable text; control characters, and all text that standard output cannot encode, as escapes.

    The result is valid JSON in the encoding of standard output and in UTF-8, and harmless on a terminal.
    """
    text = json.dumps(plain(value), ensure_ascii=False, indent=indent, allow_nan=False)
    return escape_json(text, ascii_only=needs_ascii())


def needs_ascii() -> bool:
    """Return whether standard output has an encoding other than UTF-8."""
    return not (sys.stdout.encoding or "").replace("-", "").lower().startswith("utf8")


_NOT_ON_DISK: Final = ("/dev/", "/proc/")


def write_whole(path: Path, text: str) -> None:
    """Write a draft beside `path` and move it there, so that the file is never incomplete.

    The target of a symbolic link is replaced, not the link, and keeps its mode; a pipe or a device is written to.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it")
    try:
        if path.exists() and (not path.is_file() or str(path.absolute()).startswith(_NOT_ON_DISK)):
            with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
        else:
            with whole(Path(os.path.realpath(path))) as draft:
                draft.write_text(text, encoding="utf-8", errors="backslashreplace")
    except BrokenPipeError:
        raise
    except ValueError as error:  # a name that no file can have
        raise OSError(f"{shown(str(path))}: {error}") from None
    except OSError as error:
        # Name the file, not its draft.
        raise OSError(error.errno, error.strerror, str(path)) from None


_LEAST: Final = 3
Tone = Literal["", "green", "red", "dim", "bold"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its style on a terminal."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers are aligned to the right and never cut."""

    title: str
    number: bool = False
    least: int = _LEAST
    """The width to which a narrow terminal may cut the text."""


@dataclass(slots=True)
class Table:
    """Columns and rows."""

    columns: Sequence[Column]
    title: str = ""
    rows: list[Sequence[Cell]] = field(default_factory=list[Sequence[Cell]])

    def add(self, *cells: Cell | str) -> None:
        """Append a row."""
        self.rows.append([cell if isinstance(cell, Cell) else Cell(cell) for cell in cells])


ITEM_COLUMNS: Final = (Column("kind"), Column("tokens", number=True), Column("item"))


def item_cells(item: ContextItem) -> tuple[str, str, str]:
    """Return the cells of an item under `ITEM_COLUMNS`."""
    return preview(item.kind.value, 16), f"{item.tokens:,}", preview(item.content)


def print_table(table: Table, stream: TextIO | None = None) -> None:
    """Print a table on a stream, standard output unless given: styled on a terminal, plain text elsewhere.

    A row is one line. In a narrow terminal the widest column of text is cut first; numbers are never cut.
    """
    try:
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table as Grid
        from rich.text import Text
    except ImportError:
        raise MissingExtraError("rich", "cli") from None

    def text(cell: Cell) -> Text:
        return Text(visible(" ".join(cell.text.split())), cell.tone, no_wrap=True, overflow="ellipsis")

    target = sys.stdout if stream is None else stream
    heads = [text(Cell(column.title, "bold")) for column in table.columns]
    rows = [list(map(text, row)) for row in table.rows]
    widths = [max(cell_len(cell.plain) for cell in cells) for cells in zip(heads, *rows, strict=True)]
    columns = shutil.get_terminal_size().columns
    if target.isatty():
        _narrow(widths, table.columns, columns)
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head, column, width in zip(heads, table.columns, widths, strict=True):
        grid.add_column(head, justify="right" if column.number else "left", width=width, no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    room = max(columns, sum(widths) + 2 * len(widths))
    # Without a height, rich takes a dumb terminal to have 80 columns.
    console = Console(file=target, width=room, height=25, color_system=None if is_plain else "auto")
    with console.capture() as printed:
        if table.title:
            console.print(text(Cell(table.title, "bold")))
        console.print(grid)
    target.writelines(f"{line.rstrip()}\n" for line in printed.get().splitlines())


def _narrow(widths: list[int], columns: Sequence[Column], room: int) -> None:
    """Cut columns of text, the widest first, until the table fits; below `least` only if it does not fit otherwise."""
    for leasts in ([column.least for column in columns], [_LEAST] * len(columns)):
        triples = zip(columns, widths, leasts, strict=True)
        spare = [0 if column.number else width - least for column, width, least in triples]
        while sum(widths) + 2 * len(widths) - 2 > room and max(spare) > 0:
            widest = spare.index(max(spare))
            widths[widest] -= 1
            spare[widest] -= 1


_SECONDS_BETWEEN_LINES: Final = 30.0


class Show(Protocol):
    """Shows progress: the number done, the total, and how many of the done an earlier run did."""

    def __call__(self, done: int, total: int, before: int = 0) -> None: ...


@contextmanager
def progress_bar(doing: str, unit: str, *, quiet: bool = False) -> Generator[Show, None, None]:
    """Show progress on standard error: a bar on a terminal if rich is installed, a line now and then in a log."""
    if quiet:
        yield lambda done, total, before=0: None  # noqa: ARG005
        return
    if sys.stderr.isatty():
        try:
            from rich import progress as rich_progress
            from rich.console import Console
        except ImportError:  # commands that print JSON run without it
            pass
        else:
            with _bar(rich_progress, Console(stderr=True), doing, unit) as show:
                yield show
            return
    yield _logged(doing, unit)


@contextmanager
def _bar(rich: Any, console: Any, doing: str, unit: str) -> Generator[Show, None, None]:
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn(f"{unit} {{task.fields[rate]}}", markup=False),
        rich.TimeRemainingColumn(),
    )
    start = monotonic()
    with rich.Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(visible(doing), total=None, rate="")

        def show(done: int, total: int, before: int = 0) -> None:
            rate = (done - before) / max(monotonic() - start, 1e-9)
            progress.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s" if done > before else "")

        yield show


def _logged(doing: str, unit: str) -> Show:
    """Return a function that prints a line now and then: the share done, the rate, and the time left."""
    start = printed = monotonic()

    def show(done: int, total: int, before: int = 0) -> None:
        nonlocal printed
        now = monotonic()
        if now - printed < _SECONDS_BETWEEN_LINES:
            return
        printed = now
        line = f"{doing} {done:,}/{total:,} {unit} ({100 * done // max(total, 1)}%)"
        if done > before:
            rate = (done - before) / max(now - start, 1e-9)
            line += f" {rate:,.0f}/s {timedelta(seconds=round((total - done) / rate))} left"
        say(line, error=True)
        sys.stderr.flush()

    return show
