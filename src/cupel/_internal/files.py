"""Files that appear whole or not at all, standard input, and unpacking with a limit."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

MAX_UNPACKED: Final = 1_000_000_000
"""Bytes that a compressed file may unpack to in memory unless the caller allows more."""


@contextmanager
def whole(path: Path) -> Generator[Path, None, None]:
    """Yield the path of a draft next to `path`, and move it there when the block has succeeded."""
    draft = path.with_name(f".{path.name[:200]}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        # Exclusive creation with the usual mode: the umask decides, as for any file the user writes.
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        _copy_mode(draft, path, also=stat.S_IWUSR)  # the draft is no more readable than the file it replaces
        yield draft
        move(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def move(draft: Path, path: Path) -> None:
    """Move a finished file to its place after syncing it to disk; it takes the mode of the file it replaces."""
    _copy_mode(draft, path)
    _sync(draft, os.O_RDWR)
    draft.replace(path)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the system lets directories be opened."""
    with suppress(OSError):
        _sync(path, os.O_RDONLY)


def _copy_mode(draft: Path, path: Path, *, also: int = 0) -> None:
    with suppress(FileNotFoundError):
        draft.chmod(stat.S_IMODE(path.stat().st_mode) | also)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def standard_input() -> BinaryIO:
    """Return the bytes of standard input; raise an `OSError` if the process was started without one."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  (`<&-`)
        raise OSError("standard input is closed: redirect a file into it, or name the file instead of -")
    return sys.stdin.buffer


def is_packed(name: str) -> bool:
    """Return whether a file name says that the file is compressed with gzip."""
    return name.lower().endswith(".gz")


def unpacked(raw: BinaryIO, name: str, limit: int) -> Generator[bytes, None, None]:
    """Yield the unpacked bytes of a gzip stream; raise an `OSError` that names the limit once it is exceeded."""
    import gzip  # only for compressed input
    import zlib

    total = 0
    try:
        with gzip.open(raw) as stream:
            while piece := stream.read(1 << 20):
                total += len(piece)
                if total > limit:
                    raise OSError(
                        f"{name}: unpacks to more than {limit:,} bytes; allow more with --max-unpacked (max_unpacked=)"
                    )
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise OSError(f"{name}: cannot be unpacked: {error}") from None


def read_bytes(name: str, *, max_unpacked: int = MAX_UNPACKED) -> bytes:
    """Read a file, or standard input for `-`; a name that ends in `.gz` is unpacked up to the limit."""
    if name == "-":
        return standard_input().read()
    if not is_packed(name):
        return Path(name).read_bytes()
    with Path(name).open("rb") as raw:
        return b"".join(unpacked(raw, name, max_unpacked))
