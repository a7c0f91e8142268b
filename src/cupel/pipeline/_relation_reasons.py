"""What relations say about candidates that are out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel._relations import closure
from cupel.diagnostics import Conflict, RequirementMissing, Superseded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._columns import Candidates
    from cupel._relations import Relations
    from cupel.diagnostics import ExclusionReason


class RelationReasons:
    """Knows what is in, and says which relation keeps a candidate out and how many tokens it would bring along."""

    __slots__ = ("_candidates", "_inside", "_relations", "_smallest")

    def __init__(self, candidates: Candidates, relations: Relations, chosen: Iterable[int]) -> None:
        self._candidates = candidates
        self._relations = relations
        self._inside = {relations.thing_of[position]: candidates.items[position].content for position in chosen}
        self._smallest = [min((form.tokens for form in thing.forms), default=0) for thing in relations.things]

    def reason(self, position: int) -> ExclusionReason | None:
        """Return what keeps a candidate out: another form, a rival, something missing; None if only the budget does."""
        place = self._relations.thing_of[position]
        thing = self._relations.things[place]
        if place in self._inside:
            return Superseded(self._inside[place])
        if thing.id is not None and thing.id in self._relations.pins.things:
            return Superseded(self._relations.pins.things[thing.id])
        unit = self._relations.units[self._relations.unit_of[place]]
        mates = sorted(unit.things, key=lambda mate: mate != place)
        found = (find(mate) for find in (self._rival, self._missing) for mate in mates)
        return next((reason for reason in found if reason is not None), None) or self._impossible(place)

    def needs(self, position: int) -> int:
        """Return the tokens that a candidate costs with the rest of its unit and whatever else it requires."""
        place = self._relations.thing_of[position]
        units = closure(self._relations, self._relations.unit_of[place])
        things = (thing for unit in units for thing in self._relations.units[unit].things)
        others = (self._smallest[thing] for thing in things if thing != place and thing not in self._inside)
        return self._candidates.tokens[position] + sum(others)

    def _rival(self, place: int) -> ExclusionReason | None:
        thing = self._relations.things[place]
        if thing.exclusive is None:
            return None
        rivals = (self._inside[rival] for rival in self._relations.exclusive[thing.exclusive] if rival in self._inside)
        rival = self._relations.pins.exclusive.get(thing.exclusive) or next(rivals, None)
        return None if rival is None else Conflict(rival)

    def _missing(self, place: int) -> ExclusionReason | None:
        """Name the first thing that is required and out, unless the two are only in together anyway."""
        things, unit_of = self._relations.things, self._relations.unit_of
        for required in things[place].requires:
            if required not in self._inside and unit_of[required] != unit_of[place]:
                return RequirementMissing(things[required].id or "")
        return None

    def _impossible(self, place: int) -> ExclusionReason | None:
        """Say why a thing that needs nothing from outside its unit can never be in."""
        unit = self._relations.units[self._relations.unit_of[place]]
        if unit.is_open:
            return None
        claims: dict[str, int] = {}
        for mate in unit.things:
            thing = self._relations.things[mate]
            if thing.positions and thing.exclusive is not None and claims.setdefault(thing.exclusive, mate) != mate:
                rival = next(other for other in (claims[thing.exclusive], mate) if other != place)
                return Conflict(self._candidates.items[self._relations.things[rival].positions[0]].content)
        thing = self._relations.things[place]
        return RequirementMissing(thing.group or thing.id or "")
