"""Compare a report with the one stored beside the test."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from cupel._internal.checks import as_instance, as_text
from cupel._internal.files import whole
from cupel.diagnostics import IncludedItem, SelectionReport
from cupel.testing._assertions import SnapshotMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cupel.diagnostics import ExcludedItem


_HEAD: Final = ("", "tokens", "score", "kind", "reason", "content")
_RIGHT_ALIGNED: Final = frozenset({"", "tokens", "score"})
_ROWS: Final = 20
_CONTENT: Final = 40
_FIELD: Final = 24


def selection_table(report: SelectionReport) -> str:
    """Return a table of the selected items in order, then of the excluded ones, with reasons; long lists are cut."""
    lines = [
        (
            f"{len(report.included)} of {report.total_candidates} candidates selected, "
            f"{report.total_tokens} of {report.total_tokens_considered} tokens"
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
            cell.rjust(width) if name in _RIGHT_ALIGNED else cell.ljust(width)
            for name, cell, width in zip(_HEAD, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _short(value: object) -> str:
    return _quoted(value, _FIELD) if isinstance(value, str) else repr(value)


def _quoted(text: str, width: int) -> str:
    # repr escapes line breaks and control characters.
    return repr(text if len(text) <= width else f"{text[: width - 1]}…")


__tracebackhide__ = True  # pytest leaves these frames out of a failure
DIRECTORY: Final = "__snapshots__"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._\[\]-]+")
_LONGEST: Final = 120
_DIFF_LINES: Final = 120
_HOW_TO_UPDATE: Final = "run pytest with --cupel-update-snapshots (or CUPEL_UPDATE_SNAPSHOTS=1)"


@dataclass(slots=True)
class Snapshots:
    """Compares reports with stored ones; the value of the `cupel_snapshot` fixture.

    Calling it with a report compares it with `{name}.json`, writing the file when there is none. The name defaults to
    the test's; a second report of the same test becomes `{name}-2`.
    """

    directory: Path
    default_name: str
    update: bool = False
    require: bool = False
    on_written: Callable[[Path], object] | None = None
    _unnamed: int = field(default=0, init=False)

    def __call__(self, report: SelectionReport, name: str | None = None) -> None:
        """Pass when the report equals its snapshot, else raise `SnapshotMismatchError` with the difference."""
        as_instance("report", report, SelectionReport)
        if name is None:
            self._unnamed += 1
            name = self.default_name if self._unnamed == 1 else f"{self.default_name}-{self._unnamed}"
        path = self.directory / f"{file_stem(name)}.json"
        actual = snapshot_text(report)
        expected = path.read_text(encoding="utf-8") if path.exists() else None
        if expected == actual:
            return
        if self.update or (expected is None and not self.require):
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole(path) as draft:  # several processes may run tests of one directory
                draft.write_text(actual, encoding="utf-8", newline="\n")
            if self.on_written is not None:
                self.on_written(path)
            return
        raise SnapshotMismatchError(
            _difference(path, name, expected, actual),
            report=report,
            name=name,
            path=path,
            expected=expected,
            actual=actual,
        )


def snapshot_text(report: SelectionReport) -> str:
    """Return a report's document as indented JSON, without durations, which differ from run to run."""
    document = msgspec.to_builtins(report.to_dict())
    for event in document["events"]:
        event.pop("duration_ms", None)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8 encoding, but JSON can escape it
        return json.dumps(document, indent=2) + "\n"
    return text


def file_stem(name: str) -> str:
    """Return a file name for any name; a changed name gets a digest, so that no two names share a file.

    >>> file_stem("test_chat.test_keeps_the_question[long]")
    'test_chat.test_keeps_the_question[long]'
    >>> file_stem("../a question?")
    'a-question-eca3f550'
    """
    as_text("name", name)
    if not name.strip():
        raise ValueError(f"name must not be blank, got {name!r}")
    stem = _UNSAFE.sub("-", name).strip(".-")[:_LONGEST] or "snapshot"
    return stem if stem == name else f"{stem}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _difference(path: Path, name: str, expected: str | None, actual: str) -> str:
    if expected is None:
        return f"Snapshot {name!r} does not exist and is required.\nexpected at: {path}\nto write it, {_HOW_TO_UPDATE}"
    lines = list(unified_diff(expected.splitlines(), actual.splitlines(), "snapshot", "this run", n=3, lineterm=""))
    if len(lines) > _DIFF_LINES:
        lines = [*lines[:_DIFF_LINES], f"… and {len(lines) - _DIFF_LINES} more lines of difference"]
    return "\n".join(
        [f"Snapshot {name!r} does not match.", f"stored at: {path}", f"to accept this run, {_HOW_TO_UPDATE}", *lines]
    )
