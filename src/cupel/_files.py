"""Files that appear whole or not at all, and survive a power cut once they have appeared."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole(path: Path) -> Generator[Path, None, None]:
    """Yield the path of a draft beside `path`, and move it there when the block has succeeded."""
    draft = path.with_name(f".{path.name[:200]}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        # Exclusive creation with the usual mode: the umask decides, as for any file the user writes.
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        _take_mode(draft, path, also=stat.S_IWUSR)  # so that nobody reads in it who may not read the file
        yield draft
        move(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def move(draft: Path, path: Path) -> None:
    """Put a finished file in its place, once its bytes are on the disk; a file that was there hands down its mode."""
    _take_mode(draft, path)
    _sync(draft, os.O_RDWR)
    draft.replace(path)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the system lets directories be opened."""
    with suppress(OSError):
        _sync(path, os.O_RDONLY)


def _take_mode(draft: Path, path: Path, *, also: int = 0) -> None:
    with suppress(FileNotFoundError):
        draft.chmod(stat.S_IMODE(path.stat().st_mode) | also)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
