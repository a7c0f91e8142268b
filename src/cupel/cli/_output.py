"""Write items, JSON and tables; show progress."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal, Protocol, TextIO

from cupel._checks import shown
from cupel._documents import plain
from cupel._files import whole
from cupel._text import escape_json, plural, preview, visible
from cupel.diagnostics import IncludedItem, SelectionReport
from cupel.errors import MissingExtraError
from cupel.model import ContextBudget, ContextItem


def say(text: str = "", *, error: bool = False) -> None:
    """Print a line for people, on standard error with `error`; control characters are shown as code points."""
    print(visible(text), file=sys.stderr if error else sys.stdout)


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
        "total_tokens": tokens_of(report),
        "total_candidates": report.total_candidates,
        "items": [entry.item.to_dict() for entry in report.included],
    }
    return to_json(document, indent=2) + "\n"


def tokens_of(report: SelectionReport) -> int:
    """Return the tokens of the included items."""
    return sum(entry.item.tokens for entry in report.included)


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


Tone = Literal["", "green", "red", "dim", "bold"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its style on a terminal."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers are aligned to the right, and flexible columns are the first to be cut in a narrow table."""

    title: str
    number: bool = False
    flexible: bool = False


@dataclass(slots=True)
class Table:
    """Columns and rows."""

    columns: Sequence[Column]
    title: str = ""
    rows: list[Sequence[Cell]] = field(default_factory=list[Sequence[Cell]])

    def add(self, *cells: Cell | str) -> None:
        """Append a row."""
        self.rows.append([cell if isinstance(cell, Cell) else Cell(cell) for cell in cells])


ITEM_COLUMNS: Final = (Column("kind"), Column("tokens", number=True), Column("item", flexible=True))


def item_cells(item: ContextItem) -> tuple[str, str, str]:
    """Return the cells of an item under `ITEM_COLUMNS`."""
    return preview(item.kind.value, 16), f"{item.tokens:,}", preview(item.content)


_PIPE_WIDTH: Final = 160
_GAP: Final = "  "


def print_table(table: Table, stream: TextIO | None = None) -> None:
    """Print a table on a stream, standard output unless given: styled on a terminal, plain text elsewhere.

    Numbers are never cut: a table that is wider than the terminal with all its text columns cut keeps its width.
    """
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        raise MissingExtraError("rich", "cli") from None
    target = sys.stdout if stream is None else stream
    heading = [Cell(column.title, "bold") for column in table.columns]
    rows = [[Cell(_line(cell.text), cell.tone) for cell in row] for row in (heading, *table.rows)]
    room = shutil.get_terminal_size().columns if target.isatty() else _PIPE_WIDTH
    widths = _widths(table.columns, rows, room)
    title = [[Cell(_line(table.title), "bold")]] if table.title else []
    lines = title + [list(map(_fitted, row, table.columns, widths)) for row in rows]
    plain_only = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    console = Console(file=target, highlight=False, color_system=None if plain_only else "auto")
    if console.color_system is None:
        target.writelines(f"{_GAP.join(cell.text for cell in line).rstrip()}\n" for line in lines)
        return
    for line in lines:
        styled = Text(_GAP).join(Text(cell.text, cell.tone) for cell in line)
        console.print(styled, no_wrap=True, overflow="ignore", crop=False)


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], room: int) -> list[int]:
    """Return the width of each column: flexible ones are cut first, then other text, numbers never."""
    from rich.cells import cell_len

    widths = [max(cell_len(row[index].text) for row in rows) for index in range(len(columns))]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    flexible = [index for index, column in enumerate(columns) if column.flexible]
    texts = [index for index, column in enumerate(columns) if not column.number]
    for cuttable, least in ((flexible, 12), (texts, 3)):
        for index in sorted(cuttable, key=widths.__getitem__, reverse=True):
            cut = max(0, min(excess, widths[index] - least))
            widths[index] -= cut
            excess -= cut
    return widths


def _fitted(cell: Cell, column: Column, width: int) -> Cell:
    """Return the cell cut or padded to a width."""
    from rich.cells import cell_len, set_cell_size

    text = cell.text if cell_len(cell.text) <= width else f"{set_cell_size(cell.text, width - 1)}…"
    padding = " " * (width - cell_len(text))
    return Cell(padding + text if column.number else text + padding, cell.tone)


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
    yield partial(_log, _Clock(doing, unit))


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


@dataclass(slots=True)
class _Clock:
    doing: str
    unit: str
    start: float = field(default_factory=monotonic)
    printed: float = field(default_factory=monotonic)


def _log(clock: _Clock, done: int, total: int, before: int = 0) -> None:
    now = monotonic()
    if now - clock.printed >= _SECONDS_BETWEEN_LINES:
        clock.printed = now
        say(progress_line(clock.doing, clock.unit, (done, total, before), now - clock.start), error=True)
        sys.stderr.flush()


def progress_line(doing: str, unit: str, counts: tuple[int, int, int], seconds: float) -> str:
    """Return progress as a line: the share done, the rate, and the time left.

    >>> progress_line("selecting", "rows", (3000, 12000, 1000), 4.0)
    'selecting 3,000/12,000 rows (25%) 500/s 0:00:18 left'
    """
    done, total, before = counts
    line = f"{doing} {done:,}/{total:,} {unit} ({100 * done // max(total, 1)}%)"
    if done <= before or seconds <= 0:
        return line
    rate = (done - before) / seconds
    left = round((total - done) / rate)
    return f"{line} {rate:,.0f}/s {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"
