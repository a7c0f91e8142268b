"""Things, the forms they have, and what must or must not be in together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cupel._relations._components import components

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Form(msgspec.Struct, frozen=True, gc=False):
    """One form of a thing."""

    position: int
    """Its place among the candidates."""
    tokens: int
    value: float
    """Its score times its worth; minus infinity for what is no number, so that it comes last."""


class Thing(msgspec.Struct, frozen=True, gc=False):
    """What at most one of several candidates stands for; a candidate without an id is a thing of its own."""

    id: str | None
    positions: tuple[int, ...]
    """All its candidates; empty for a thing whose items cannot be chosen, such as those with a negative count."""
    forms: tuple[Form, ...]
    """What may be chosen, from the fewest tokens up; empty for a thing that can never be in."""
    requires: tuple[int, ...] = ()
    """Things, as places in `Relations.things`, of which each must be in as well; those that are pinned are left out."""
    group: str | None = None
    exclusive: str | None = None

    def part(self, places: Mapping[int, int], things: Mapping[int, int]) -> Thing:
        """Return what is left of it where positions and things have other numbers, or none."""
        return Thing(
            self.id,
            tuple(places[position] for position in self.positions if position in places),
            tuple(
                Form(places[form.position], form.tokens, form.value) for form in self.forms if form.position in places
            ),
            tuple(things[thing] for thing in self.requires if thing in things),
            self.group,
            self.exclusive,
        )


class Unit(msgspec.Struct, frozen=True, gc=False):
    """Things that are all in or all out: a group, or those that require one another in a circle, or a single thing."""

    things: tuple[int, ...]
    requires: tuple[int, ...]
    """Other units that must be in as well; each stands earlier in `Relations.units`."""
    is_open: bool
    """Whether it can be in at all."""


class Pins(msgspec.Struct, frozen=True):
    """What the pinned items settle; contents by label."""

    things: Mapping[str, str] = {}
    exclusive: Mapping[str, str] = {}


class Relations(msgspec.Struct, frozen=True):
    """The relations of a pool of candidates, each position in exactly one thing and each thing in exactly one unit."""

    things: tuple[Thing, ...]
    """In the order of their first positions."""
    units: tuple[Unit, ...]
    """What a unit requires comes before it."""
    exclusive: Mapping[str, tuple[int, ...]]
    """Labels with things of which at most one may be in."""
    pins: Pins
    thing_of: Mapping[int, int]
    """The thing of each position."""
    unit_of: Sequence[int]
    """The unit of each thing."""

    def part(self, positions: Sequence[int]) -> Relations:
        """Return the relations among some of the candidates, which are numbered anew.

        What the others require or exclude is left to whoever sees them all.
        """
        places = {position: place for place, position in enumerate(positions)}
        kept = sorted({self.thing_of[position] for position in positions})
        renamed = {thing: place for place, thing in enumerate(kept)}
        return assemble((self.things[thing].part(places, renamed) for thing in kept), self.pins)


def assemble(things: Iterable[Thing], pins: Pins) -> Relations:
    """Find the units, and close what can never be in."""
    things = list(things)
    units: list[Unit] = []
    unit_of = [0] * len(things)
    claims: list[dict[str, int]] = []
    for members in components(_edges(things)):
        for thing in members:
            unit_of[thing] = len(units)
        needed = sorted({unit_of[other] for thing in members for other in things[thing].requires} - {len(units)})
        claimed = _claims(things, members, [claims[unit] for unit in needed])
        is_open = (
            claimed is not None
            and all(things[thing].forms for thing in members)
            and all(units[unit].is_open for unit in needed)
        )
        claims.append(claimed or {})
        units.append(Unit(tuple(members), tuple(needed), is_open))
    for unit in units:
        if not unit.is_open:
            for thing in unit.things:
                things[thing] = msgspec.structs.replace(things[thing], forms=())
    thing_of = {position: place for place, thing in enumerate(things) for position in thing.positions}
    return Relations(tuple(things), tuple(units), _exclusive(things), pins, thing_of, unit_of)


def _edges(things: list[Thing]) -> list[list[int]]:
    """Return what each thing requires; the members of a group require one another, in a ring."""
    edges = [list(thing.requires) for thing in things]
    groups: dict[str, list[int]] = {}
    for place, thing in enumerate(things):
        if thing.group is not None:
            groups.setdefault(thing.group, []).append(place)
    for members in groups.values():
        for place, following in zip(members, (*members[1:], members[0]), strict=True):
            edges[place].append(following)
    return edges


def _claims(things: list[Thing], members: list[int], needed: list[dict[str, int]]) -> dict[str, int] | None:
    """Return the exclusive labels that a unit takes with all it requires; None if it takes one twice."""
    claims = {} if not needed else needed[0]
    own = [(label, thing) for thing in members if (label := things[thing].exclusive) is not None]
    if not own and len(needed) < 2:  # noqa: PLR2004 - nothing to compare
        return claims
    claims = dict(claims)
    for label, thing in (*own, *(claim for others in needed[1:] for claim in others.items())):
        if claims.setdefault(label, thing) != thing:
            return None
    return claims


def _exclusive(things: list[Thing]) -> dict[str, tuple[int, ...]]:
    sets: dict[str, tuple[int, ...]] = {}
    for place, thing in enumerate(things):
        if thing.exclusive is not None:
            sets[thing.exclusive] = (*sets.get(thing.exclusive, ()), place)
    return sets
