"""Splitting candidates by kind."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._columns import Candidates


def kind_keys(candidates: Candidates) -> list[str]:
    """Give each candidate's folded kind."""
    return [item.kind.key for item in candidates.items]


def positions_by_kind(candidates: Candidates) -> dict[str, list[int]]:
    """Group positions by folded kind, kinds in the order they first appear (ruling 5.18).

    A slicer called outside the pipeline may meet negative counts; none of the built-ins takes them (ruling 5.4).
    """
    tokens = candidates.tokens
    usable: Iterable[tuple[int, str]] = enumerate(kind_keys(candidates))
    if min(tokens, default=0) < 0:
        usable = [(position, key) for position, key in usable if tokens[position] >= 0]
    parts: defaultdict[str, list[int]] = defaultdict(list)
    for position, key in usable:
        parts[key].append(position)
    return parts
