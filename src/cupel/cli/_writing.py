"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        # Exclusive creation with the usual mode: the umask decides, as for any file the user writes.
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
