"""Files that appear whole or not at all, and survive a power cut once they have appeared."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

BLOCK: Final = 1 << 20


class Mark(msgspec.Struct, frozen=True):
    """What a file holds, as far as anybody can tell without comparing it byte for byte."""

    size: int
    digest: str


def mark_of(path: Path) -> Mark:
    """Read a file to its end and mark what was found."""
    with path.open("rb") as stream:
        return copied(stream, None)


def copied(source: BinaryIO, target: BinaryIO | None) -> Mark:
    """Read a stream to its end, into another one if there is one, and mark what was read."""
    digest, size = hashlib.sha256(usedforsecurity=False), 0
    while block := source.read(BLOCK):
        digest.update(block)
        size += len(block)
        if target is not None:
            target.write(block)
    return Mark(size, digest.hexdigest())


@contextmanager
def whole(path: Path) -> Generator[Path, None, None]:
    """Yield the path of a draft beside `path`, and move it there when the block has succeeded."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        yield draft
        move(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def move(draft: Path, path: Path) -> None:
    """Put a finished file in its place, once its bytes are on the disk; a file that was there hands down its mode."""
    with suppress(FileNotFoundError):
        draft.chmod(path.stat().st_mode & 0o7777)
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
