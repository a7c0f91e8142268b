"""Write items as context, JSON or Markdown, to a file or to standard output."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cupel._checks import shown
from cupel._documents import plain
from cupel._files import whole
from cupel._text import plural, preview, visible
from cupel.cli._tables import Column
from cupel.diagnostics import IncludedItem, SelectionReport
from cupel.model import ContextBudget, ContextItem


def as_text(included: Sequence[IncludedItem]) -> str:
    """Return the contents in placed order, a blank line between them."""
    text = "\n\n".join(entry.item.content for entry in included)
    if sys.stdout.isatty():  # a tool's output must not drive the reader's terminal
        text = visible(text)
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
    """Return the tokens of what is in."""
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


ITEM_COLUMNS: Final = (Column("kind"), Column("tokens", number=True), Column("item", flexible=True))


def item_cells(item: ContextItem) -> tuple[str, str, str]:
    """Return the cells of an item under `ITEM_COLUMNS`."""
    return preview(item.kind.value, 16), f"{item.tokens:,}", preview(item.content)


def print_json(value: Any) -> None:
    """Print a document for other programs."""
    print(to_json(value, indent=2))


def to_json(value: Any, indent: int | None = None) -> str:
    """Write JSON that stays readable: text as it is, except what would not survive UTF-8."""
    values = plain(value)
    text = json.dumps(values, ensure_ascii=False, indent=indent, allow_nan=False)
    if text.isascii() or text.encode("utf-8", "ignore").decode() == text:
        return text
    return json.dumps(values, indent=indent, allow_nan=False)


_NOT_ON_DISK: Final = ("/dev/", "/proc/")


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it.

    What the path leads to stays what it is: the file behind a symbolic link is replaced, not the link, and keeps its
    mode; a pipe or a device is written to.
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
        # The draft is none of the user's business.
        raise OSError(error.errno, error.strerror, str(path)) from None
