"""What `-o` leads to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cupel._checks import shown
from cupel._files import whole

_NOT_ON_DISK: Final = ("/dev/", "/proc/")


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it.

    What the path leads to stays what it is: the file behind a symbolic link is replaced, not the link, and keeps its
    mode; a pipe or a device is written to.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it")
    try:
        if path.exists() and (not path.is_file() or str(path.absolute()).startswith(_NOT_ON_DISK)):
            with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
        else:
            with whole(Path(os.path.realpath(path))) as draft:
                draft.write_text(text, encoding="utf-8", errors="backslashreplace")
    except BrokenPipeError:
        raise
    except ValueError as error:  # a name that no file can have
        raise OSError(f"{shown(str(path))}: {error}") from None
    except OSError as error:
        # The draft is none of the user's business.
        raise OSError(error.errno, error.strerror, str(path)) from None
