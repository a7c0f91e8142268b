"""The input of a batch job: its errors, its shards, and a guard against changes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import file_digest
from importlib import import_module
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, Final, Literal, cast

import msgspec

from cupel._internal.checks import shown
from cupel._internal.files import standard_input, whole
from cupel.errors import CupelError, MissingExtraError


class BatchError(CupelError):
    """A job cannot start or continue: its input, output or state cannot be used."""


class BatchFailedError(BatchError):
    """A job stopped before its end; finished shards are kept, and `resume=True` continues with them."""


def explained(error: BaseException) -> str:
    """Describe an error in one line; only unexpected errors are named by their class."""
    if isinstance(error, (CupelError, TypeError, ValueError)):
        return str(error)
    return f"{type(error).__name__}: {error}"


def arrow() -> Any:
    """Return pyarrow, which ships no types, or say which extra installs it."""
    try:
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ImportError:
        raise MissingExtraError("pyarrow", "batch") from None


def parquet() -> Any:
    """Return pyarrow.parquet."""
    arrow()
    return import_module("pyarrow.parquet")


class Fingerprint(msgspec.Struct, frozen=True):
    """The size and the digest of a file's contents."""

    size: int
    digest: str


def fingerprint(path: Path) -> Fingerprint:
    """Read a file to its end and return its fingerprint."""
    with path.open("rb") as stream:
        digest = file_digest(stream, "sha256").hexdigest()
        return Fingerprint(stream.tell(), digest)


FileFormat = Literal["parquet", "jsonl"]
_FORMATS: Final[dict[str, FileFormat]] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_PACKED: Final = (".gz", ".zst")
_SPOOLED: Final = "input.jsonl"
"""The name, among the parts, of lines that were unpacked or came from standard input."""


def format_of(path: Path, *, also: tuple[str, ...] = ()) -> FileFormat:
    """Return the format of a file by the suffix of its name."""
    suffix = path.suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    packed = f" (or .jsonl{' or .jsonl'.join(also)})" if also else ""
    raise BatchError(f"{path}: the name must end in .parquet or .jsonl{packed}, not {shown(suffix)}")


@dataclass(frozen=True, slots=True)
class Source:
    """The file of requests, or standard input; compressed files are unpacked first: shards need random access."""

    path: Path | None
    """None is standard input."""
    packed: bool

    @classmethod
    def named(cls, requests: str | Path) -> Source:
        """Recognise the source by its name."""
        if str(requests) == "-":
            return cls(None, packed=True)
        path = Path(requests)
        packed = path.suffix.lower() in _PACKED
        found = format_of(path.with_suffix("") if packed else path, also=_PACKED)
        if packed and found != "jsonl":
            raise BatchError(f"{path}: only JSON lines are read compressed; Parquet compresses by itself")
        if not path.is_file() and path.stat():
            raise BatchError(f"{path} is not a regular file; pipe its lines into standard input and pass - instead")
        return cls(path.absolute(), packed)

    def is_at(self, path: Path) -> bool:
        """Return whether a path is the input file, under this or another name."""
        return self.path is not None and path.exists() and path.samefile(self.path)

    def readable(self, parts: Path) -> Path:
        """Return the file to read the requests from: the input itself, or a copy of its lines among the parts."""
        if self.path is not None and not self.packed:
            return self.path
        copy = parts / _SPOOLED
        try:
            with self._opened() as stream, whole(copy) as draft, draft.open("wb") as target:
                copyfileobj(stream, target)
        except (OSError, EOFError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:  # errors of pyarrow and gzip have no errno
                raise
            raise BatchError(f"{self.path}: cannot be unpacked: {error}") from None
        return copy

    def _opened(self) -> AbstractContextManager[BinaryIO]:
        if self.path is None:
            return nullcontext(standard_input())
        if self.path.suffix.lower() == ".gz":
            return cast("BinaryIO", gzip.open(self.path))
        pa: Any = arrow()
        return cast("BinaryIO", pa.input_stream(str(self.path), compression="zstd"))


class FileGuard:
    """Notices when the contents of a file have changed since the guard was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._status = self._now()
        self.fingerprint = fingerprint(path)

    def has_changed(self) -> bool:
        """Return whether the contents differ; the file is read again only if something may have been written."""
        try:
            status = self._now()
            if status != self._status and fingerprint(self._path) != self.fingerprint:
                return True
        except FileNotFoundError:
            return True
        self._status = status
        return False

    def check(self) -> None:
        """Raise if the contents differ."""
        if self.has_changed():
            raise BatchError(f"{self._path} has changed since the job began")

    def _now(self) -> tuple[int, ...]:
        # A program can set st_mtime back after a change, but not st_ctime.
        status = self._path.stat()
        return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


SHARD_ROWS: Final = 1000
SHARD_BYTES: Final = 16_000_000
"""Uncompressed bytes in a shard: a worker's memory is a small multiple of this, whatever the size of the file."""
MAX_ROW_BYTES: Final = 100_000_000
"""Bytes in a line of JSON unless the caller allows more: a line is read into memory as a whole."""


def bounded_lines(stream: BinaryIO, most: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield the size of each line and the line itself, or None for one of more than `most` bytes."""
    while line := stream.readline(most + 1):
        size = len(line)
        if size <= most:
            yield size, line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(SHARD_BYTES)
            size += len(line)
        yield size, None


class Shard(msgspec.Struct, frozen=True):
    """Consecutive rows of the input, and where they are: bytes of a text file, or rows of a Parquet row group."""

    index: int
    first_row: int
    rows: int
    start: int
    stop: int
    row_group: int = -1


class RowError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row without a selection, and its request, so that it can be run again."""

    row: int
    error: str
    id: Any = None
    request: Any = None


class ShardResult(msgspec.Struct, frozen=True):
    """The outcome of a shard, and the fingerprints of the files that hold it."""

    index: int
    rows: int
    written: int
    errors: int
    answers: Fingerprint
    error_list: Fingerprint | None = None
    first_error: str | None = None
