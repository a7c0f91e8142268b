"""Choose among candidates with forms and groups."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import inf, isnan
from sys import float_info
from typing import TYPE_CHECKING, NamedTuple

from cupel._columns import descending
from cupel._ratios import quotient
from cupel._relations import closure
from cupel.slicers._base import Chooser, Reach, Selection, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._relations import Form, Relations
    from cupel.model import ContextBudget


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


class StepChooser(Chooser):
    """Makes steps in a fixed order, each that still fits; a unit comes with whatever it requires."""

    def __init__(self, ladders: Ladders, order: list[Rung]) -> None:
        self._ladders = ladders
        self._order = order

    def __call__(self, budget: ContextBudget) -> Selection:
        """Return the forms reached, in the order in which their units were taken."""
        if budget.target_tokens <= 0:
            return Selection([])
        reached, _, _ = self._climb(budget.target_tokens)
        forms = self._ladders.forms
        return Selection([forms[thing][level].position for thing, level in reached.items()])

    def span(self, budget: ContextBudget) -> Span:
        """Reach down to the tokens used, and up to where the first skipped step would have fitted."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1 if self._order else None)
        _, remaining, missing = self._climb(target)
        return Span(max(target - remaining, 1), None if missing is None else target + missing)

    def reach(self) -> Reach:
        """Every step fits into the sum of the largest forms."""
        return Reach(self._ladders.everything)

    def improved(self, chosen: list[int], remaining: int) -> list[int]:
        """Exchange chosen forms for larger ones as far as the tokens last, and take nothing else."""
        forms = self._ladders.forms
        things = [self._ladders.relations.thing_of[position] for position in chosen]
        levels: dict[int, int] = {}
        for thing, position in zip(things, chosen, strict=True):
            useful = [form.position for form in forms[thing]]
            if position in useful:
                levels[thing] = useful.index(position)
        for step in self._order:
            if step.thing in levels and levels[step.thing] == step.level - 1 and step.tokens <= remaining:
                levels[step.thing] = step.level
                remaining -= step.tokens
        pairs = zip(things, chosen, strict=True)
        return [forms[thing][levels[thing]].position if thing in levels else position for thing, position in pairs]

    def _climb(self, remaining: int) -> tuple[dict[int, int], int, int | None]:
        """Make every step that fits; return the level of each thing, what is left, and what the nearest miss lacked."""
        missing: int | None = None
        levels: dict[int, int] = {}
        claimed: set[str] = set()
        for step in self._order:
            change = self._change(step, levels)
            labels = self._labels(change, levels)
            if not change or not claimed.isdisjoint(labels):
                continue
            cost = step.tokens
            if step.thing is None:
                cost = sum(self._ladders.forms[thing][0].tokens for thing in change)
            if cost <= remaining:
                levels.update(change)
                claimed.update(labels)
                remaining -= cost
            elif missing is None or cost - remaining < missing:
                missing = cost - remaining
        return levels, remaining, missing

    def _change(self, step: Rung, levels: dict[int, int]) -> dict[int, int]:
        """Return the things that a step puts on another level; none if it cannot be made."""
        if step.thing is not None:
            return {step.thing: step.level} if levels.get(step.thing) == step.level - 1 else {}
        relations = self._ladders.relations
        things = (thing for unit in closure(relations, step.unit) for thing in relations.units[unit].things)
        return {thing: 0 for thing in things if thing not in levels}

    def _labels(self, change: dict[int, int], levels: dict[int, int]) -> list[str]:
        """Return the exclusive sets that a change would take."""
        things = self._ladders.relations.things
        labels = (things[thing].exclusive for thing in change if thing not in levels)
        return [label for label in labels if label is not None]
