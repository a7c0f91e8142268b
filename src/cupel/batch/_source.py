"""Sources of a batch job and the shards they are split into."""

from __future__ import annotations

import gzip
import sys
import zlib
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, Final, Literal, cast

import msgspec

from cupel._checks import shown
from cupel._files import whole
from cupel.batch._arrow import arrow
from cupel.errors import CupelError


class BatchError(CupelError):
    """A job cannot start or go on: its input, output or state is not what it must be."""


class BatchFailedError(BatchError):
    """A job stopped on the way; the shards it has finished are kept, and `resume=True` goes on with them."""


def explained(error: BaseException) -> str:
    """Say what is wrong in one line; only errors nobody expected need their class."""
    if isinstance(error, (CupelError, TypeError, ValueError)):
        return str(error)
    return f"{type(error).__name__}: {error}"


class Mark(msgspec.Struct, frozen=True):
    """What a file holds, as far as anybody can tell without comparing it byte for byte."""

    size: int
    digest: str


def mark_of(path: Path) -> Mark:
    """Read a file to its end and mark what was found."""
    with path.open("rb") as stream:
        digest = file_digest(stream, "sha256").hexdigest()
        return Mark(stream.tell(), digest)


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


SHARD_ROWS: Final = 1000
SHARD_BYTES: Final = 16_000_000
"""What a worker takes on at a time, uncompressed: its memory is a small multiple of this, however large the file is."""


class Shard(msgspec.Struct, frozen=True):
    """Consecutive rows of the input, and where they are: bytes of a text file, or rows of a Parquet row group."""

    index: int
    first_row: int
    rows: int
    start: int
    stop: int
    row_group: int = -1


class RowError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that gave no selection, with its request, so that it can be run again."""

    row: int
    error: str
    id: Any = None
    request: Any = None


class ShardResult(msgspec.Struct, frozen=True):
    """What became of a shard's rows, and what the files that hold it look like."""

    index: int
    rows: int
    written: int
    errors: int
    answers: Mark
    faults: Mark | None = None
    first_error: str | None = None
