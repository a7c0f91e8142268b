"""JSON documents out of files: one a file or one a line, compressed or not."""

from __future__ import annotations

import gzip
import sys
import zlib
from pathlib import Path
from typing import Any, Final

from cupel._documents import decode_json
from cupel.evaluation._errors import EvaluationError

_LINES: Final = (".jsonl", ".ndjson")


def documents(path: str | Path) -> list[tuple[str, Any]]:
    """Return the documents of a file with where each stands; `-` is standard input, and `.gz` is unpacked."""
    name = str(path)
    text = _text(name)
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    if suffix not in _LINES:
        try:
            return [(name, _decoded(name, text))]
        except EvaluationError:
            if suffix == ".json" or "\n" not in text.strip():
                raise
    lines = {f"{name}:{number}": line for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    return [(where, _decoded(where, line)) for where, line in lines.items()]


def _decoded(where: str, text: str) -> Any:
    try:
        return decode_json(text, error=EvaluationError)
    except EvaluationError as error:
        raise EvaluationError(f"{where}: {error}") from None


def _text(name: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        if name.endswith(".gz"):
            raw = gzip.decompress(raw)
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{name}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise EvaluationError(f"{name}: cannot be unpacked: {error}") from None
