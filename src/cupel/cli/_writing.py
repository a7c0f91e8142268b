"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from cupel._checks import shown

_NOT_ON_DISK: Final = ("/dev/", "/proc/")


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it.

    What the path leads to stays what it is: the file behind a symbolic link is replaced, not the link, and keeps its
    mode; a pipe or a device is written to.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it")
    try:
        status = path.stat() if path.exists() else None
        if status is not None and (not stat.S_ISREG(status.st_mode) or str(path.absolute()).startswith(_NOT_ON_DISK)):
            _write(os.open(path, os.O_WRONLY | os.O_APPEND), text)
        else:
            _replace(Path(os.path.realpath(path)), text, None if status is None else stat.S_IMODE(status.st_mode))
    except BrokenPipeError:
        raise
    except ValueError as error:  # a name that no file can have
        raise OSError(f"{shown(str(path))}: {error}") from None
    except OSError as error:
        # The draft is none of the user's business.
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace(path: Path, text: str, mode: int | None) -> None:
    draft = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}")
    try:
        # Exclusive creation with the usual mode: the umask decides, as for any file the user writes.
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        if mode is not None:
            draft.chmod(mode)
        _write(descriptor, text, durably=True)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _write(descriptor: int, text: str, *, durably: bool = False) -> None:
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
        if durably:
            stream.flush()
            os.fsync(stream.fileno())
