"""Choose among candidates with forms and groups."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import inf, isnan
from typing import TYPE_CHECKING, NamedTuple

from cupel._columns import descending
from cupel._relations import density, hull, useful_forms
from cupel.slicers._base import Chooser, Selection, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cupel._relations import Form, Relations
    from cupel.model import ContextBudget


class Upgrade(NamedTuple):
    """Take a group with each of its entities in the smallest form, or replace one entity's form by the next."""

    group: int
    entity: int | None
    """The entity whose form is replaced; None where the group is taken."""
    level: int
    """Which of the entity's useful forms it has afterwards."""
    tokens: int
    """The tokens it adds."""
    value: float
    """The value it adds."""


class Upgrades:
    """The upgrades of all groups that can be in: of each the first, and the others from the densest down."""

    def __init__(self, relations: Relations) -> None:
        self.relations = relations
        self.forms = [useful_forms(entity.forms) for entity in relations.entities]
        """Each entity's useful forms, from the smallest up."""
        self.least = [
            sum(self.forms[entity][0].tokens for entity in group.entities) if group.is_open else 0
            for group in relations.groups
        ]
        """The fewest tokens of each group."""
        groups = [place for place, group in enumerate(relations.groups) if group.is_open]
        groups.sort(key=self._first_position)
        self._paths = [self._path(place) for place in groups]

    def _first_position(self, group: int) -> int:
        entities = self.relations.groups[group].entities
        return min(min(self.relations.entities[entity].positions) for entity in entities)

    @property
    def everything(self) -> int:
        """The tokens of all entities in their largest useful forms."""
        return sum(forms[-1].tokens for forms in self.forms if forms)

    def _path(self, place: int) -> list[Upgrade]:
        entities = self.relations.groups[place].entities
        first = Upgrade(place, None, 0, self.least[place], total(self.forms[entity][0] for entity in entities))
        later = [
            Upgrade(place, entity, level, form.tokens - smaller.tokens, form.value - smaller.value)
            for entity in entities
            for level, (smaller, form) in enumerate(pairwise(self.forms[entity]), 1)
        ]
        order = descending([density(upgrade.value, upgrade.tokens) for upgrade in later])
        return [first, *(later[rank] for rank in order)]

    def by_density(self) -> list[Upgrade]:
        """Order all upgrades by value per token; one that is denser than its predecessor counts as one with it."""
        upgrades: list[Upgrade] = []
        keys: list[float] = []
        for path in self._paths:
            upgrades += path
            keys += _densities(path)
        return [upgrades[rank] for rank in descending(keys)]

    def by_score(self) -> list[Upgrade]:
        """Order the groups by the best value in them, and after all of them the other upgrades by the same."""
        groups = self.relations.groups
        tops = [
            max(self.forms[entity][-1].value for entity in groups[first.group].entities) for first, *_ in self._paths
        ]
        ranked = [self._paths[rank] for rank in descending(tops)]
        return [first for first, *_ in ranked] + [upgrade for _, *later in ranked for upgrade in later]

    def groups_by_score(self) -> list[int]:
        """Order the groups that can be in by the best value in them."""
        return [upgrade.group for upgrade in self.by_score() if upgrade.entity is None]


def _densities(path: list[Upgrade]) -> list[float]:
    """Return a key for each upgrade of a group: the slope of the hull over the sums up to it, from nothing on."""
    tokens = list(accumulate((upgrade.tokens for upgrade in path), initial=0))
    values = list(accumulate((upgrade.value for upgrade in path), initial=0.0))
    keys: list[float] = []
    for start, end in pairwise(hull(tokens, values)):
        keys += [density(values[end] - values[start], tokens[end] - tokens[start])] * (end - start)
    return keys


def total(forms: Iterable[Form]) -> float:
    """Add values up; a sum that is NaN counts as minus infinity.

    >>> from cupel._relations import Form
    >>> total([Form(0, 10, 0.25), Form(1, 10, 0.5)])
    0.75
    """
    value = sum(form.value for form in forms)
    return -inf if isnan(value) else value


class UpgradeChooser(Chooser):
    """Makes upgrades in a fixed order, each that still fits."""

    def __init__(self, upgrades: Upgrades, order: list[Upgrade]) -> None:
        self._upgrades = upgrades
        self._order = order

    def __call__(self, budget: ContextBudget) -> Selection:
        """Return the forms reached, in the order in which their groups were taken."""
        if budget.target_tokens <= 0:
            return Selection([])
        reached, _, _ = self._climb(budget.target_tokens)
        forms = self._upgrades.forms
        return Selection([forms[entity][level].position for entity, level in reached.items()])

    def span(self, budget: ContextBudget) -> Span:
        """Reach down to the tokens used, and up to where the first skipped upgrade would have fitted."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1 if self._order else None)
        _, remaining, missing = self._climb(target)
        return Span(max(target - remaining, 1), None if missing is None else target + missing)

    def improved(self, chosen: list[int], remaining: int) -> list[int]:
        """Replace chosen forms by larger ones while the tokens last, and take nothing else."""
        forms = self._upgrades.forms
        entities = [self._upgrades.relations.entity_of[position] for position in chosen]
        levels: dict[int, int] = {}
        for entity, position in zip(entities, chosen, strict=True):
            useful = [form.position for form in forms[entity]]
            if position in useful:
                levels[entity] = useful.index(position)
        for _, upgraded, level, tokens, _ in self._order:
            if upgraded in levels and levels[upgraded] == level - 1 and tokens <= remaining:
                levels[upgraded] = level
                remaining -= tokens
        pairs = zip(entities, chosen, strict=True)
        return [forms[entity][levels[entity]].position if entity in levels else at for entity, at in pairs]

    def _climb(self, remaining: int) -> tuple[dict[int, int], int, int | None]:
        """Make every upgrade that fits; return the level of each entity, the tokens left, and the least shortage."""
        missing: int | None = None
        levels: dict[int, int] = {}
        groups = self._upgrades.relations.groups
        for group, entity, level, cost, _ in self._order:
            if entity is not None and levels.get(entity) != level - 1:
                continue
            if cost > remaining:
                missing = cost - remaining if missing is None else min(missing, cost - remaining)
                continue
            remaining -= cost
            if entity is None:
                levels.update(dict.fromkeys(groups[group].entities, 0))
            else:
                levels[entity] = level
        return levels, remaining, missing
