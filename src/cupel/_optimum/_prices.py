"""Prices for the rules, and what they prove."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from cupel._optimum._rows import EVERY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel._optimum._problem import Block, Choice, Member, Option, Problem
    from cupel._optimum._rows import Row

SHIFT = 20
"""Prices are whole multiples of 2^-20, so that everything below is exact."""


@dataclass(frozen=True)
class Priced:
    """A problem whose rules are sold at prices instead of being kept: each block on its own, in its best options.

    By weak duality its value is a bound on the problem's, whatever the prices. All numbers are in steps of 2^-20.
    """

    problem: Problem
    margins: list[list[list[int]]]
    """For each block, member and option: the value less what its tokens cost."""
    surplus: list[int]
    """For each block: what it gains with the best option of each member, less what the block itself costs."""
    total: int
    """The value of all prices, and of all blocks with a surplus."""

    @property
    def bound(self) -> int:
        """The greatest whole value that the prices leave possible."""
        return self.total >> SHIFT

    def best(self, block: int) -> tuple[int, ...]:
        """Return the options with the greatest margin; of equal ones those with more value."""
        members = self.problem.blocks[block].members
        if len(members) == 1 and len(members[0].options) == 1:
            return (0,)
        return tuple(
            max(range(len(margins)), key=lambda place: (margins[place], member.options[place].value))
            for member, margins in zip(members, self.margins[block], strict=True)
        )


def priced(problem: Problem, rows: Sequence[Row], prices: Sequence[int]) -> Priced:
    """Sell the rules at these prices; a negative one counts as nothing."""
    prices = [max(0, price) for price in prices]
    by_kind: dict[int, int] = {}
    block_cost = [0] * len(problem.blocks)
    total = 0
    for row, price in zip(rows, prices, strict=True):
        if price:
            total += price * row.most
            by_kind[row.kind] = by_kind.get(row.kind, 0) + price * row.sign
            for block, factor in row.blocks:
                block_cost[block] += price * factor
    general = by_kind.get(EVERY, 0)
    token_price = {kind: general + price for kind, price in by_kind.items() if kind != EVERY}
    margins = [
        [
            [
                (option.value << SHIFT) - option.tokens * token_price.get(member.kind, general)
                for option in member.options
            ]
            for member in block.members
        ]
        for block in problem.blocks
    ]
    surplus = [sum(map(max, own)) - cost for own, cost in zip(margins, block_cost, strict=True)]
    return Priced(problem, margins, surplus, total + sum(gain for gain in surplus if gain > 0))


def by_capacity(problem: Problem, rows: Sequence[Row]) -> Priced:
    """Sell the capacity, which is the first row, at the price that proves most, and all other rules for nothing."""
    return priced(problem, rows, [capacity_price(problem)] + [0] * (len(rows) - 1))


def capacity_price(problem: Problem) -> int:
    """Return the price of a token at which the capacity would just be used up if things could be cut.

    Where nothing but the capacity ties blocks together, no other prices prove more.
    """
    steps = [step for block in problem.blocks for step in _steps(block)]
    steps.sort(key=itemgetter(0), reverse=True)
    left = problem.capacity
    for density, tokens in steps:
        left -= tokens
        if left < 0:
            return round(density * (1 << SHIFT)) if density < math.inf else 1 << SHIFT
    return 0


def _steps(block: Block) -> list[tuple[float, int]]:
    """Return the worthwhile steps from nothing to a block in all its forms: value for each token, tokens."""
    if len(block.members) == 1 and len(block.members[0].options) == 1:
        (option,) = block.members[0].options
        return [(_density(option.value, option.tokens), option.tokens)] if option.value else []
    value, tokens, upgrades = 0, 0, list[tuple[int, int]]()
    for member in block.members:
        first, *rest = _hull(member)
        value, tokens = value + first.value, tokens + first.tokens
        for option in rest:
            upgrades.append((option.value - first.value, option.tokens - first.tokens))
            first = option
    upgrades.sort(key=lambda step: _density(*step), reverse=True)
    place = 0
    # The first step goes from nothing to the point that is steepest from there; all later ones are less steep.
    while place < len(upgrades) and _density(*upgrades[place]) >= _density(value, tokens):
        value, tokens, place = value + upgrades[place][0], tokens + upgrades[place][1], place + 1
    steps = [(_density(value, tokens), tokens)] if value else []
    return steps + [(_density(*step), step[1]) for step in upgrades[place:]]


def _hull(member: Member) -> list[Option]:
    """Return the options on the upper hull, from the fewest tokens up."""
    hull: list[Option] = []
    for option in sorted(member.options, key=lambda option: (option.tokens, -option.value)):
        if hull and option.value <= hull[-1].value:
            continue
        while len(hull) > 1 and _is_below(hull[-2], hull[-1], option):
            hull.pop()
        hull.append(option)
    return hull


def _is_below(left: Option, middle: Option, right: Option) -> bool:
    rise = (middle.value - left.value) * (right.tokens - left.tokens)
    return rise <= (right.value - left.value) * (middle.tokens - left.tokens)


def _density(value: int, tokens: int) -> float:
    return value / tokens if tokens else math.inf


@dataclass(frozen=True)
class Core:
    """What a choice worth more than some value may still decide."""

    options: list[tuple[tuple[int, ...], ...] | None]
    """For each block and member the places of the options left; None for a block that is out."""
    forced: list[bool]
    """Blocks that are in."""


def core(found: Priced, more_than: int, kept: Choice) -> Core:
    """Decide everything that no choice worth more than a value can have otherwise, except against the choice `kept`."""
    slack = found.total - ((more_than + 1) << SHIFT)
    options: list[tuple[tuple[int, ...], ...] | None] = []
    forced: list[bool] = []
    for number, places in enumerate(kept):
        surplus = found.surplus[number]
        forced.append(places is not None and surplus > slack)
        if places is None and -surplus > slack:
            options.append(None)
            continue
        lost = slack + min(0, surplus)
        options.append(
            tuple(
                tuple(
                    place
                    for place, margin in enumerate(margins)
                    if max(margins) - margin <= lost or (places is not None and places[member] == place)
                )
                for member, margins in enumerate(found.margins[number])
            )
        )
    return Core(options, forced)
