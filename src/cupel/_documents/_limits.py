"""How deep and how long a document may be: limits of our own, the same on every interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

MAX_DEPTH: Final = 100
"""Objects and lists within each other, in any document."""
MAX_DIGITS: Final = 1000
"""Digits of an integer in any document; sums of a million such integers can still be written."""

TOO_DEEP: Final = f"nested too deeply: at most {MAX_DEPTH} levels"
TOO_LONG: Final = f"an integer has at most {MAX_DIGITS:,} digits"


class RefusedError(ValueError):
    """A value that a document may not hold: too deep, too long, a key twice, a number that is none."""


_TOO_LARGE: Final = 10**MAX_DIGITS


def check_limits(document: object) -> None:
    """Refuse a document that is too deep, or with an integer of more than `MAX_DIGITS` digits."""
    check_depth(document)
    pending = [document]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            pending.extend(cast("dict[str, object]", node).values())
        elif isinstance(node, list):
            pending.extend(cast("list[object]", node))
        elif isinstance(node, int) and abs(node) >= _TOO_LARGE:
            raise RefusedError(TOO_LONG)


def check_depth(value: object, *, already: int = 0) -> None:
    """Refuse objects and lists that lie within each other more than `MAX_DEPTH` deep, which cycles do."""
    pending: list[tuple[object, int]] = [(value, already)]
    while pending:
        node, depth = pending.pop()
        if isinstance(node, Mapping):
            inside = list(cast("Mapping[object, object]", node).values())
        elif isinstance(node, (list, tuple, set, frozenset)):
            inside = list(cast("list[object]", node))
        else:
            continue
        if depth >= MAX_DEPTH:
            raise RefusedError(TOO_DEEP)
        pending.extend([(entry, depth + 1) for entry in inside])
