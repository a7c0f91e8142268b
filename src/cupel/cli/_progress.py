"""Progress on standard error: a bar for people, a line now and then for a log."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import Final, Protocol

_SECONDS_BETWEEN_LINES: Final = 0.2
_SECONDS_BETWEEN_BEATS: Final = 30.0


class Show(Protocol):
    """Takes how much is done, how much there is, and how much of the done had been done before."""

    def __call__(self, done: int, total: int, before: int = 0) -> None: ...


@contextmanager
def progress_bar(doing: str, unit: str, *, quiet: bool = False) -> Generator[Show, None, None]:
    """Return a function that shows progress with its rate and the time left: by rich if installed, else as a line."""
    if quiet:
        yield lambda done, total, before=0: None  # noqa: ARG005
        return
    if not sys.stderr.isatty():
        yield _heartbeat(doing, unit)
        return
    try:
        import rich  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        with _plain(doing, unit) as show:
            yield show
    else:
        with _rich(doing, unit) as show:
            yield show


def _heartbeat(doing: str, unit: str) -> Show:
    start = beat = monotonic()

    def show(done: int, total: int, before: int = 0) -> None:
        nonlocal beat
        now = monotonic()
        if now - beat >= _SECONDS_BETWEEN_BEATS:
            beat = now
            print(progress_line(doing, unit, (done, total, before), now - start), file=sys.stderr, flush=True)

    return show


@contextmanager
def _rich(doing: str, unit: str) -> Generator[Show, None, None]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    start = monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(doing, total=None, rate="")

        def show(done: int, total: int, before: int = 0) -> None:
            rate = (done - before) / max(monotonic() - start, 1e-9)
            progress.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s" if done > before else "")

        yield show


@contextmanager
def _plain(doing: str, unit: str) -> Generator[Show, None, None]:
    start = monotonic()
    drawn = 0.0
    width = 0

    def show(done: int, total: int, before: int = 0) -> None:
        nonlocal drawn, width
        now = monotonic()
        if now - drawn < _SECONDS_BETWEEN_LINES and done < total:
            return
        drawn = now
        line = progress_line(doing, unit, (done, total, before), now - start)
        width = max(width, len(line))
        sys.stderr.write("\r" + line.ljust(width))
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r" + " " * width + "\r")
        sys.stderr.flush()


def progress_line(doing: str, unit: str, counts: tuple[int, int, int], seconds: float) -> str:
    """Say how far it is, how fast it goes and how long it will take.

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
