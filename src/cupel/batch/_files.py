"""Files that appear whole or not at all, and survive a power cut once they have appeared."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole(path: Path) -> Generator[Path, None, None]:
    """Give the path of a draft beside `path`, and move it there when the block has succeeded."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        yield draft
        move(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def move(draft: Path, path: Path) -> None:
    """Put a finished file in its place, once its bytes are on the disk."""
    _sync(draft, os.O_RDWR)
    draft.replace(path)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the system lets directories be opened."""
    with suppress(OSError):
        _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
