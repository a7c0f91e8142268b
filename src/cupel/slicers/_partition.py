"""Splitting candidates by kind."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cupel._columns import Candidates
    from cupel._relations import Relations


def offered_tokens(candidates: Candidates) -> int:
    """Return the tokens of all candidates; of several forms of one thing the largest counts."""
    if candidates.relations is None:
        return sum(candidates.tokens)
    return sum(max(form.tokens for form in thing.forms) for thing in candidates.relations.things if thing.forms)


def positions_by_kind(candidates: Candidates) -> dict[str, list[int]]:
    """Group positions by folded kind, kinds in the order they first appear (ruling 5.18).

    A slicer called outside the pipeline may meet negative counts; none of the built-ins takes them (ruling 5.4).
    """
    keys, tokens = [item.kind.key for item in candidates.items], candidates.tokens
    if candidates.relations is not None:
        _unite(keys, tokens, candidates.relations)
    parts: defaultdict[str, list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        if tokens[position] >= 0:
            parts[key].append(position)
    return parts


def _unite(keys: list[str], tokens: list[int], relations: Relations) -> None:
    """Give all candidates of a unit the kind that has most of its tokens, so that a group is in one part.

    Of several such kinds the one of the earliest candidate counts.
    """
    for unit in relations.units:
        things = [positions for thing in unit.things if (positions := relations.things[thing].positions)]
        offered: dict[str, int] = {}
        for positions in sorted(things):
            key = keys[positions[0]]
            offered[key] = offered.get(key, 0) + max(tokens[position] for position in positions)
        if len(offered) > 1:
            kind = max(offered, key=offered.__getitem__)
            for positions in things:
                for position in positions:
                    keys[position] = kind
