"""Choosing among related candidates a step at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel._relations import closure
from cupel.slicers._base import Chooser, Reach, Selection, Span

if TYPE_CHECKING:
    from cupel.model import ContextBudget
    from cupel.slicers._ladders import Ladders, Rung


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
