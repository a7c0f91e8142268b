"""One writer for an output."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from cupel.batch._source import BatchError

_TAKEN: Final = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
_FAR: Final = 1 << 20
"""Windows keeps others from reading what is locked, so the lock lies behind the note."""


class Holder(msgspec.Struct, frozen=True, tag_field="lock", tag="cupel-batch"):
    """Who writes to an output: left in the lock file as a note for others."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    def is_gone(self) -> bool:
        """Say whether the process has certainly ended."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False


@contextmanager
def locked(target: Path) -> Generator[None, None, None]:
    """Be the only run, of any process, that writes to `target`; one that is too late is told who holds it.

    The system releases the lock when the process ends, however it ends. The file is removed at the end, too.
    """
    path = target.with_name(f"{target.name}.lock")
    try:
        descriptor = _claimed(path, target)
    except OSError as error:
        raise BatchError(f"{target}: cannot be written there: {error.strerror}") from None
    try:
        yield
    finally:
        try:
            with suppress(OSError):  # Windows removes no open file; the next run will take it over
                path.unlink()
        finally:
            os.close(descriptor)


def _claimed(path: Path, target: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            note = os.read(descriptor, 1000)
            _lock(descriptor, _holder(note, path), target)
            if _is_still(descriptor, path):
                here = Holder(os.getpid(), socket.gethostname(), datetime.now(UTC).isoformat(timespec="seconds"))
                with suppress(OSError):  # on a full disk the lock holds without a note
                    os.truncate(descriptor, 0)
                    os.lseek(descriptor, 0, os.SEEK_SET)
                    os.write(descriptor, msgspec.json.encode(here))
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder has removed it in the meantime


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(note: bytes, path: Path) -> Holder | None:
    if not note:
        return None
    try:
        return msgspec.json.decode(note, type=Holder)
    except msgspec.MsgspecError:
        raise BatchError(f"{path} is in the way: it is not the lock of a run; move it elsewhere") from None


def _lock(descriptor: int, noted: Holder | None, target: Path) -> None:
    try:
        _system_lock(descriptor)
    except OSError as error:
        # On a file system without locks, what the note says has to do.
        if error.errno in _TAKEN or not (noted is None or noted.is_gone()):
            raise BatchError(f"{target} is being written by another run: {noted or 'it has just begun'}") from None


def _system_lock(descriptor: int) -> None:
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        from msvcrt import LK_NBLCK, locking  # type: ignore[attr-defined,unused-ignore]

        os.lseek(descriptor, _FAR, os.SEEK_SET)
        locking(descriptor, LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        flock(descriptor, LOCK_EX | LOCK_NB)
