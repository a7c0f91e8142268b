"""The steps in which related candidates can be taken: a unit in its smallest forms first, then larger ones."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import inf, isnan
from sys import float_info
from typing import TYPE_CHECKING, NamedTuple

from cupel._columns import descending
from cupel._ratios import quotient
from cupel._relations import closure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._relations import Form, Relations


class Rung(NamedTuple):
    """Taking a unit with each of its things in the smallest form, or exchanging one thing's form for the next."""

    unit: int
    thing: int | None
    """The thing whose form is exchanged; None where the unit is taken."""
    level: int
    """Which of the thing's useful forms it has then."""
    tokens: int
    """What that costs more than before."""
    value: float
    """What it is worth more than before."""


class Ladders:
    """The steps of all units that can be in: of each the first, and its exchanges from the densest down."""

    def __init__(self, relations: Relations) -> None:
        self.relations = relations
        self.forms = [useful_forms(thing.forms) for thing in relations.things]
        """Each thing's useful forms, from the smallest up."""
        self.least = [
            sum(self.forms[thing][0].tokens for thing in unit.things) if unit.is_open else 0 for unit in relations.units
        ]
        """The fewest tokens of each unit."""
        units = [place for place, unit in enumerate(relations.units) if unit.is_open]
        units.sort(key=self._first_position)
        self._ladders = [self._ladder(place) for place in units]

    def _first_position(self, unit: int) -> int:
        return min(min(self.relations.things[thing].positions) for thing in self.relations.units[unit].things)

    @property
    def everything(self) -> int:
        """The tokens of all things in their largest useful forms."""
        return sum(forms[-1].tokens for forms in self.forms if forms)

    def _ladder(self, place: int) -> list[Rung]:
        things = self.relations.units[place].things
        first = Rung(place, None, 0, self.least[place], total(self.forms[thing][0] for thing in things))
        exchanges = [
            Rung(place, thing, level, form.tokens - smaller.tokens, form.value - smaller.value)
            for thing in things
            for level, (smaller, form) in enumerate(pairwise(self.forms[thing]), 1)
        ]
        order = descending([quotient(step.value, step.tokens) for step in exchanges])
        return [first, *(exchanges[rank] for rank in order)]

    def by_density(self) -> list[Rung]:
        """Order all steps by value per token; where an exchange is denser than what it builds on, both count as one.

        A unit that requires others is no denser than all of them together.
        """
        steps: list[Rung] = []
        keys: list[float] = []
        for ladder in self._ladders:
            steps += ladder
            keys += self._densities(ladder)
        return [steps[rank] for rank in descending(keys)]

    def by_score(self) -> list[Rung]:
        """Order the units by the best value in them, and after all of them the exchanges by the same."""
        units = self.relations.units
        tops = [max(self.forms[thing][-1].value for thing in units[first.unit].things) for first, *_ in self._ladders]
        ranked = [self._ladders[rank] for rank in descending(tops)]
        return [first for first, *_ in ranked] + [step for _, *exchanges in ranked for step in exchanges]

    def units_by_score(self) -> list[int]:
        """Order the units that can be in by the best value in them."""
        return [step.unit for step in self.by_score() if step.thing is None]

    def _densities(self, ladder: list[Rung]) -> list[float]:
        tokens = list(accumulate((step.tokens for step in ladder), initial=0))
        values = list(accumulate((step.value for step in ladder), initial=0.0))

        def density(start: int, end: int) -> float:
            cost = tokens[end] - tokens[start]
            return quotient(values[end] - values[start], cost) if cost else float_info.max

        ends = [0]  # the corners of the hull over what is reached, nothing included
        for end in range(1, len(tokens)):
            while len(ends) > 1 and density(ends[-2], ends[-1]) < density(ends[-1], end):
                ends.pop()
            ends.append(end)
        most = self._density_with_requirements(ladder[0].unit)
        keys: list[float] = []
        for start, end in pairwise(ends):
            key = density(start, end)
            keys += [min(key, most)] * (end - start)
        return keys

    def _density_with_requirements(self, unit: int) -> float:
        if not self.relations.units[unit].requires:
            return inf
        units = closure(self.relations, unit)
        cost = sum(self.least[place] for place in units)
        value = total(self.forms[thing][0] for place in units for thing in self.relations.units[place].things)
        return quotient(value, cost) if cost else float_info.max


def useful_forms(forms: Iterable[Form]) -> list[Form]:
    """Return the forms worth having, from the smallest up: more value for more tokens, and on the hull of all of them.

    >>> from cupel._relations import Form
    >>> [form.tokens for form in useful_forms([Form(0, 10, 0.2), Form(1, 50, 0.3), Form(2, 60, 0.9), Form(3, 99, 0.8)])]
    [10, 60]
    """
    hull: list[Form] = []
    for form in sorted(forms, key=lambda form: (form.tokens, -form.value, form.position)):
        if hull and form.value <= hull[-1].value:
            continue
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) < _slope(hull[-1], form):
            hull.pop()
        hull.append(form)
    return hull


def total(forms: Iterable[Form]) -> float:
    """Add values up; what has no sum is worth nothing at all.

    >>> from cupel._relations import Form
    >>> total([Form(0, 10, 0.25), Form(1, 10, 0.5)])
    0.75
    """
    value = sum(form.value for form in forms)
    return -inf if isnan(value) else value


def _slope(low: Form, high: Form) -> float:
    return quotient(high.value - low.value, high.tokens - low.tokens)
