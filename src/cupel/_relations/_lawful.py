"""Making a choice lawful by leaving out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cupel._relations._relations import Form, Relations


def closure(relations: Relations, unit: int) -> list[int]:
    """Return a unit with all that it requires, directly or not; what is required comes first."""
    found = {unit}
    open_ends = list(relations.units[unit].requires)
    while open_ends:
        other = open_ends.pop()
        if other not in found:
            found.add(other)
            open_ends += relations.units[other].requires
    return sorted(found)


def lawful(relations: Relations, chosen: Sequence[int]) -> list[int]:
    """Return what may stay of a choice, in its order.

    Of several forms of a thing the one of most value stays, of several things of an exclusive set likewise; then go
    halves of groups and whatever requires what is not there, until nothing more has to go.
    """
    kept: dict[int, Form] = {}
    places = set(chosen)
    for thing in {relations.thing_of[position] for position in chosen}:
        forms = [form for form in relations.things[thing].forms if form.position in places]
        if forms:
            kept[thing] = max(forms, key=lambda form: (form.value, -form.position))
    while lost := _incomplete(relations, kept) or _outdone(relations, kept):
        for thing in lost:
            del kept[thing]
    staying = {form.position for form in kept.values()}
    return [position for position in chosen if position in staying]


def _incomplete(relations: Relations, kept: Collection[int]) -> list[int]:
    """Return the things whose unit is not whole, or requires one that is not."""
    whole = [False] * len(relations.units)
    for place, unit in enumerate(relations.units):
        whole[place] = all(thing in kept for thing in unit.things) and all(whole[other] for other in unit.requires)
    return [thing for thing in kept if not whole[relations.unit_of[thing]]]


def _outdone(relations: Relations, kept: dict[int, Form]) -> list[int]:
    """Return the things of which a rival of more value, or an earlier one of the same, is there as well."""
    lost: list[int] = []
    for rivals in relations.exclusive.values():
        there = [thing for thing in rivals if thing in kept]
        if len(there) > 1:
            there.remove(max(there, key=lambda thing: (kept[thing].value, -thing)))
            lost += there
    return lost
