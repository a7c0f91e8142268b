"""Slicers that take candidates in a fixed order: by density, by score, from a stream; related ones in upgrades."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import inf, isnan
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from cupel._internal.checks import as_integer
from cupel._internal.columns import Candidates, densities, descending
from cupel._internal.relations import check_batch, density, hull, useful_forms
from cupel._internal.streams import next_batch, opened
from cupel.errors import SlicerConfigError
from cupel.model import ContextBudget
from cupel.slicers._base import Chooser, PreparingSlicer, Selection, Span

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from cupel._internal.intervals import BackwardFill, IntervalSet, Work
    from cupel._internal.relations import Form, Relations
    from cupel.model import ContextItem, ScoredItem


@dataclass(frozen=True, slots=True)
class GreedySlice(PreparingSlicer):
    """Takes items by score per token, highest first, and skips those that do not fit; items without tokens always fit.

    Fast, and usually close to the best: `cupel.analytics.optimality_gap` measures how close.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> big, small = ContextItem("big", 300), ContextItem("small", 50)
    >>> chosen = GreedySlice().slice([ScoredItem(big, 0.9), ScoredItem(small, 0.5)], ContextBudget(320, 320))
    >>> [item.content for item in chosen]
    ['small']
    """

    def _prepare(self, candidates: Candidates) -> GreedyChooser | UpgradeChooser:
        """Order the candidates once; related ones are taken in upgrades."""
        if candidates.relations is not None:
            upgrades = Upgrades(candidates.relations)
            return UpgradeChooser(upgrades, upgrades.by_density())
        return GreedyChooser(densities(candidates.scores, candidates.tokens), candidates.tokens)


class GreedyChooser(Chooser):
    """Fills budgets in one fixed order, by descending merit."""

    def __init__(self, merits: list[float], tokens: list[int]) -> None:
        self._tokens = tokens
        self._smallest = min(tokens, default=0)
        order = descending(merits)
        if self._smallest < 0:
            # Called outside the pipeline, it may meet negative counts; no built-in takes them (ruling 5.4).
            order = [position for position in order if tokens[position] >= 0]
        self._order = order

    def __call__(self, budget: ContextBudget) -> Selection:
        """Take in order whatever still fits."""
        chosen: list[int] = []
        remaining = budget.target_tokens
        if remaining <= 0:
            return Selection(chosen)
        tokens, smallest = self._tokens, self._smallest
        for position in self._order:
            cost = tokens[position]
            if cost <= remaining:
                chosen.append(position)
                remaining -= cost
                if remaining < smallest:
                    break
        return Selection(chosen)

    def span(self, budget: ContextBudget) -> Span:
        """Return the budgets with the same selection: from the tokens used to the first that admits a skipped item."""
        target = budget.target_tokens
        if target <= 0:
            return Span(target, 1 if self._order else None)
        remaining = target
        missing: int | None = None
        for position in self._order:
            cost = self._tokens[position]
            if cost <= remaining:
                remaining -= cost
            elif missing is None or cost - remaining < missing:
                missing = cost - remaining
        return Span(max(target - remaining, 1), None if missing is None else target + missing)

    def intervals(self, position: int, highest: int, work: Work) -> IntervalSet:
        """Return the budgets that select an item, by filling backwards from it."""
        fill, ranks = self._backward
        return fill.targets(ranks[position], highest, work)

    @cached_property
    def _backward(self) -> tuple[BackwardFill, dict[int, int]]:
        """The fill from its end, and the rank of each position in the order."""
        from cupel._internal.intervals import BackwardFill  # brings NumPy

        fill = BackwardFill([self._tokens[position] for position in self._order])
        return fill, {position: rank for rank, position in enumerate(self._order)}


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
        smallest = [self.forms[entity][0] for entity in entities]
        first = Upgrade(place, None, 0, sum(form.tokens for form in smallest), total(smallest))
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
    """Add values from left to right (ruling 1.1); a sum that is NaN counts as minus infinity.

    >>> from cupel._internal.relations import Form
    >>> total([Form(0, 10, 0.25), Form(1, 10, 0.5)])
    0.75
    """
    value = 0.0
    for form in forms:
        value += form.value
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


@dataclass(frozen=True, slots=True)
class BestFirstSlice(PreparingSlicer):
    """Takes items from the best score down, each one that still fits; size does not count against an item.

    Use it for scores that rate an item as a whole, such as relevance to a query or recency. `GreedySlice`
    weighs score against size: it would trade the long tool result that is about to be answered for many greetings.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> scored = [ScoredItem(ContextItem("long and new", 60), 1.0), ScoredItem(ContextItem("short and old", 5), 0.1)]
    >>> [item.content for item in BestFirstSlice().slice(scored, ContextBudget(64, 64))]
    ['long and new']
    """

    def _prepare(self, candidates: Candidates) -> GreedyChooser | UpgradeChooser:
        """Order the candidates once; of related ones, all groups in their smallest forms come before larger forms."""
        if candidates.relations is not None:
            upgrades = Upgrades(candidates.relations)
            return UpgradeChooser(upgrades, upgrades.by_score())
        return GreedyChooser(candidates.scores, candidates.tokens)


@dataclass(frozen=True, slots=True)
class StreamSlice(PreparingSlicer):
    """Takes scored items as they come, `batch_size` at a time, and stops reading once the budget is full.

    Each batch is taken by score, highest first, and items that do not fit are skipped; those without tokens always fit,
    but no more is read once there are as many items as the budget has tokens. Awaiting `slice` reads an asynchronous
    iterable and closes it. With all candidates at hand, as in `Pipeline.run`, it chooses like `GreedySlice`.

    >>> import asyncio
    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> async def endless():
    ...     while True:
    ...         yield ScoredItem(ContextItem("again", 40), 0.5)
    >>> len(asyncio.run(StreamSlice(batch_size=4).slice(endless(), ContextBudget(80, 80))))
    2
    """

    batch_size: int = 32

    def __post_init__(self) -> None:
        size = as_integer("batch_size", self.batch_size, least=1, error=SlicerConfigError)
        object.__setattr__(self, "batch_size", size)

    @overload
    def slice(
        self, scored: AsyncIterable[ScoredItem], budget: ContextBudget
    ) -> Coroutine[Any, Any, list[ContextItem]]: ...
    @overload
    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]: ...
    def slice(
        self, scored: AsyncIterable[ScoredItem] | Sequence[ScoredItem], budget: ContextBudget
    ) -> Coroutine[Any, Any, list[ContextItem]] | list[ContextItem]:
        """Choose items for one budget; await the result if `scored` is asynchronous."""
        if isinstance(scored, AsyncIterable):
            return self._read(scored, budget)
        return GreedySlice().slice(scored, budget)

    prepare = PreparingSlicer.prepare  # although `slice` is overridden: both choose the same items

    def _prepare(self, candidates: Candidates) -> Chooser:
        """Choose as `GreedySlice` does: with all candidates at hand there is nothing to wait for (ruling 14.2)."""
        return GreedySlice().prepare(candidates)

    async def _read(self, scored: AsyncIterable[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        remaining = budget.target_tokens
        chosen: list[ContextItem] = []
        async with opened(scored) as entries:
            # A last, partial batch is not read when the budget is full; items without tokens alone never fill it.
            seen: set[tuple[str, str]] = set()
            while remaining > 0 and len(chosen) < budget.target_tokens:
                batch = await next_batch(entries, self.batch_size)
                check_batch((entry.item for entry in batch), seen)
                candidates = Candidates.of(batch)
                # From the highest score down (ruling 14.9).
                for position in BestFirstSlice().prepare(candidates)(ContextBudget(remaining, remaining)).chosen:
                    chosen.append(candidates.items[position])
                    remaining -= candidates.tokens[position]
                if len(batch) < self.batch_size:
                    break
        return chosen
