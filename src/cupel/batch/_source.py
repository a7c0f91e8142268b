"""Where requests come from: a file, a compressed file, or standard input."""

from __future__ import annotations

import gzip
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, Final, Literal, cast

from cupel._checks import shown
from cupel._files import whole
from cupel.batch._arrow import arrow
from cupel.batch._errors import BatchError
from cupel.batch._marks import mark_of

FileFormat = Literal["parquet", "jsonl"]
_FORMS: Final[dict[str, FileFormat]] = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_PACKED: Final = (".gz", ".zst")
_SPOOLED: Final = "input.jsonl"
"""The name, among the parts, of lines that were unpacked or came from standard input."""


@dataclass(frozen=True, slots=True)
class Source:
    """The requests as the user named them; what cannot be entered in the middle is unpacked before it is read."""

    path: Path | None
    """None is standard input."""
    packed: bool

    @classmethod
    def named(cls, requests: str | Path) -> Source:
        """Tell by the name what it is."""
        if str(requests) == "-":
            return cls(None, packed=True)
        path = Path(requests)
        packed = path.suffix.lower() in _PACKED
        form = form_of(path.with_suffix("") if packed else path, also=_PACKED)
        if packed and form != "jsonl":
            raise BatchError(f"{path}: only JSON lines are read compressed; Parquet compresses by itself")
        if not path.is_file() and path.stat():
            raise BatchError(f"{path} is not a file; pipe its lines into standard input, and name that -")
        return cls(path.absolute(), packed)

    def is_at(self, path: Path) -> bool:
        """Say whether a path leads to the input, by whatever name."""
        return self.path is not None and path.exists() and path.samefile(self.path)

    def readable(self, parts: Path) -> Path:
        """Say where the requests can be read in any order: themselves, or the copy of them among the parts."""
        return parts / _SPOOLED if self.packed or self.path is None else self.path

    def watch(self, parts: Path) -> FileGuard:
        """Mark what the input holds; standard input can be read only once, so it is kept among the parts."""
        if self.path is None:
            _spool(sys.stdin.buffer, parts)
        return FileGuard(self.path or self.readable(parts))

    def unpack(self, parts: Path) -> None:
        """Write a compressed file's lines to a file among the parts."""
        if self.path is None or not self.packed:
            return
        try:
            with self._opened(self.path) as stream:
                _spool(stream, parts)
        except (OSError, EOFError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:  # pyarrow's and gzip's own have no number
                raise
            raise BatchError(f"{self.path}: cannot be unpacked: {error}") from None

    def _opened(self, path: Path) -> BinaryIO:
        if path.suffix.lower() == ".gz":
            return cast("BinaryIO", gzip.open(path))
        pa: Any = arrow()
        return cast("BinaryIO", pa.input_stream(str(path), compression="zstd"))


def _spool(stream: BinaryIO, parts: Path) -> None:
    with whole(parts / _SPOOLED) as draft, draft.open("wb") as target:
        copyfileobj(stream, target)


def form_of(path: Path, *, also: tuple[str, ...] = ()) -> FileFormat:
    """Tell the form of a file by its name."""
    suffix = path.suffix.lower()
    if suffix in _FORMS:
        return _FORMS[suffix]
    packed = f" (or .jsonl{' or .jsonl'.join(also)})" if also else ""
    raise BatchError(f"{path}: the name must end in .parquet or .jsonl{packed}, not {shown(suffix)}")


class FileGuard:
    """Looks after a file that must not change: marks what it holds, and notices when that is no longer so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._status = self._now()
        self.mark = mark_of(path)

    def has_changed(self) -> bool:
        """Say whether the file holds something else now; it is read again only if something may have been written."""
        try:
            status = self._now()
            if status != self._status and mark_of(self._path) != self.mark:
                return True
        except FileNotFoundError:
            return True
        self._status = status
        return False

    def check(self) -> None:
        """Raise if the file holds something else now."""
        if self.has_changed():
            raise BatchError(f"{self._path} has changed since the job began")

    def _now(self) -> tuple[int, ...]:
        # The time of the last change of the inode cannot be set back, as that of the contents can.
        status = self._path.stat()
        return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
