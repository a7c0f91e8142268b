"""Where records come from: the files that a source names, or standard input."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, Final, cast

from cupel._documents import strict_decoder
from cupel.cli._formats import SUFFIXES, Fault, Found, read_csv, read_json, read_jsonl, read_parquet, read_text

_LARGE: Final = 4_000_000
"""Bytes from which reading shows a progress bar."""


def records_of(sources: Sequence[str], input_format: str) -> Iterator[Found]:
    """Yield the records of every source, in order."""
    for source in sources:
        if source == "-":
            yield from _standard_input(input_format)
            continue
        paths, as_text = _paths(source)
        for path in paths:
            yield from _file(path, "text" if as_text and input_format == "auto" else input_format)


def title_of(sources: Sequence[str]) -> str:
    """Return what a page of the sources is called."""
    return ", ".join(Path(source).name if source != "-" else "standard input" for source in sources[:3])


def _paths(source: str) -> tuple[list[Path], bool]:
    """Return the files a source names, and whether each of them is one document."""
    path = Path(source)
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        return [file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)], True
    if path.exists():
        return [path], False
    matches = sorted(Path(match) for match in glob.glob(source, recursive=True))  # noqa: PTH207  (absolute patterns)
    files = [match for match in matches if match.is_file()]
    if not files:
        raise FileNotFoundError(f"{source}: no such file, directory or glob match")
    return files, False


def _file(path: Path, input_format: str) -> Iterator[Found]:
    chosen = SUFFIXES.get(path.suffix.lower(), "text") if input_format == "auto" else input_format
    if chosen == "parquet":
        yield from read_parquet(str(path), path)
        return
    with _opened(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
        yield from _decoded(str(path), stream, chosen)


def _opened(path: Path) -> BinaryIO:
    """Open a file; a large one with a progress bar on standard error, if a person is at a terminal."""
    if path.stat().st_size < _LARGE or not sys.stderr.isatty():
        return path.open("rb")
    try:
        from rich.console import Console
        from rich.progress import open as watched
    except ImportError:
        return path.open("rb")
    bar = watched(path, "rb", description=f"reading {path.name}", console=Console(stderr=True), transient=True)
    return cast("BinaryIO", bar)


def _standard_input(input_format: str) -> Iterator[Found]:
    if input_format == "parquet":
        yield Fault("-", "Parquet cannot be read from standard input; give a file")
        return
    stream = TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    try:
        yield from _decoded("-", stream, input_format)
    finally:
        stream.detach()


def _decoded(name: str, stream: TextIOWrapper, chosen: str) -> Iterator[Found]:
    try:
        if chosen == "jsonl":
            yield from read_jsonl(name, stream)
        elif chosen == "csv":
            yield from read_csv(name, stream)
        elif chosen == "text":
            yield from read_text(name, stream)
        elif chosen == "json":
            yield from read_json(name, stream.read())
        else:
            yield from _guessed(name, stream.read())
    except UnicodeDecodeError as error:
        yield Fault(name, f"not UTF-8 text: {error.reason} at byte {error.start}")


def _guessed(name: str, text: str) -> Iterator[Found]:
    """Tell JSON lines from one JSON document: by their first line, a whole record or a whole one of several lists."""
    line, _, rest = text.lstrip().partition("\n")
    try:
        first = strict_decoder().decode(line) if line[:1] == "{" or (line[:1] == "[" and rest.strip()) else None
    except (ValueError, RecursionError):
        first = None
    if isinstance(first, list) or (isinstance(first, dict) and ("content" in first or "messages" in first)):
        yield from read_jsonl(name, text.split("\n"))
    else:
        yield from read_json(name, text)
