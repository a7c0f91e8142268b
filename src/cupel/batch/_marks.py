"""What a file holds, in brief."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path

import msgspec


class Mark(msgspec.Struct, frozen=True):
    """What a file holds, as far as anybody can tell without comparing it byte for byte."""

    size: int
    digest: str


def mark_of(path: Path) -> Mark:
    """Read a file to its end and mark what was found."""
    with path.open("rb") as stream:
        digest = file_digest(stream, "sha256").hexdigest()
        return Mark(stream.tell(), digest)
