"""Splitting candidates by kind."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._columns import Candidates
    from cupel._relations import Relations


def kind_keys(candidates: Candidates) -> list[str]:
    """Return each candidate's folded kind."""
    return [item.kind.key for item in candidates.items]


def offered_tokens(candidates: Candidates) -> int:
    """Return the tokens of all candidates; of several forms of one thing the largest counts."""
    if candidates.relations is None:
        return sum(candidates.tokens)
    return sum(max(form.tokens for form in thing.forms) for thing in candidates.relations.things if thing.forms)


def _shared_kinds(candidates: Candidates, relations: Relations) -> list[str]:
    """Return for each candidate the kind that has most of the tokens in its unit, so that a group is in one part.

    Of several such kinds the one of the earliest candidate counts.
    """
    keys = kind_keys(candidates)
    for unit in relations.units:
        things = [positions for thing in unit.things if (positions := relations.things[thing].positions)]
        tokens: dict[str, int] = {}
        for positions in sorted(things):
            largest = max(candidates.tokens[position] for position in positions)
            tokens[keys[positions[0]]] = tokens.get(keys[positions[0]], 0) + largest
        if len(tokens) > 1:
            kind = max(tokens, key=tokens.__getitem__)
            for position in (position for positions in things for position in positions):
                keys[position] = kind
    return keys


def positions_by_kind(candidates: Candidates) -> dict[str, list[int]]:
    """Group positions by folded kind, kinds in the order they first appear (ruling 5.18).

    A slicer called outside the pipeline may meet negative counts; none of the built-ins takes them (ruling 5.4).
    """
    tokens = candidates.tokens
    relations = candidates.relations
    keys = kind_keys(candidates) if relations is None else _shared_kinds(candidates, relations)
    usable: Iterable[tuple[int, str]] = enumerate(keys)
    if min(tokens, default=0) < 0:
        usable = [(position, key) for position, key in usable if tokens[position] >= 0]
    parts: defaultdict[str, list[int]] = defaultdict(list)
    for position, key in usable:
        parts[key].append(position)
    return parts
