"""Places in a document: `$.slicer.inner`, `$.included[3].item`."""

from __future__ import annotations

import re
from typing import TypeAlias

from cupel._checks import shown

Path: TypeAlias = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,79}")


def at_key(path: str, key: str) -> str:
    """Return the path of a member: `$.slicer.inner`, or `$.weights["two words"]` where the key is no plain word."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}"
    quoted = shown(key)[1:-1].replace('"', '\\"')
    return f'{path}["{quoted}"]'


def at_index(path: str, index: int) -> str:
    """Return the path of a list's element: `$.scorer.scorers[0]`."""
    return f"{path}[{index}]"


def shown_path(steps: Path) -> str:
    """Return a path from its steps.

    >>> shown_path(("included", 3, "item"))
    '$.included[3].item'
    """
    path = "$"
    for step in steps:
        path = at_index(path, step) if isinstance(step, int) else at_key(path, step)
    return path
