"""The search: prices, a choice that follows them, and branch and bound on what they leave open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, NamedTuple

from cupel._optimum._filling import Filling
from cupel._optimum._highs import branch, is_exact_for, relax
from cupel._optimum._model import Model
from cupel._optimum._prices import SHIFT, by_capacity, core, priced
from cupel._optimum._problem import Block, Member, Option, Problem, reduced
from cupel._optimum._rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cupel._optimum._prices import Priced
    from cupel._optimum._problem import Choice, Floor
    from cupel._optimum._rows import Row


class Effort(NamedTuple):
    """How far to go."""

    gap: float
    """A choice is good enough within this share of the bound."""
    max_core: int
    """With more columns undecided there is no branch and bound."""
    exact: bool
    """Whether the solver may be used."""

    def reach(self, value: int) -> int:
        """Return the greatest bound for which a value is good enough."""
        return floor(value / (1 - Fraction(self.gap)))


@dataclass(frozen=True)
class Answer:
    """A choice, and what is known about all others."""

    taken: list[Option]
    value: int
    bound: int
    """What no choice exceeds that has as much of every floor as this one."""
    reached: list[int]
    """How much of each floor could be had, beginning with the first."""
    is_settled: bool
    """Whether it is proved that no floor short of its amount could have more."""


class _Found(NamedTuple):
    choice: Choice
    value: int
    bound: int


def solve(problem: Problem, effort: Effort) -> Answer:
    """Choose; floors are kept in their order, each as far as the ones before it allow."""
    problem = reduced(problem)
    wanted: Sequence[Floor] = ()
    choice = _at_once(problem)
    if choice is None:
        choice = Filling(problem).choice
        wanted, problem = problem.floors, replace(problem, floors=())
    is_settled = True
    for one in wanted:
        choice, is_proved = _raise(problem, one, choice, effort)
        amount = min(one.amount, problem.reached(one, choice))
        is_settled = is_settled and (is_proved or amount == one.amount)
        problem = replace(problem, floors=(*problem.floors, one._replace(amount=amount)))
    found = _improve(problem, choice, effort)
    taken = [option for _, option in problem.taken(found.choice)]
    return Answer(taken, found.value, found.bound, [one.amount for one in problem.floors], is_settled)


def _at_once(problem: Problem) -> Choice | None:
    """Try to reach all floors by one filling; without any, nothing is reached as well."""
    if not problem.floors:
        return Filling(problem).choice
    seen = by_capacity(problem, rows_of(problem))
    order = sorted(range(len(problem.blocks)), key=lambda block: (-seen.surplus[block], block))
    filling = Filling(problem)
    filling.fill(_floors_first(seen, order), seen.best)
    return filling.choice if problem.reaches(filling.choice) else None


def _raise(problem: Problem, wanted: Floor, choice: Choice, effort: Effort) -> tuple[Choice, bool]:
    """Have as much as possible of a floor, up to its amount; also tell whether more is proved impossible."""
    blocks = [
        Block(
            tuple(
                Member(tuple(one._replace(value=wanted.measure(member, one)) for one in member.options), member.kind)
                for member in block.members
            ),
            block.needs,
        )
        for block in problem.blocks
    ]
    found = _improve(replace(problem, blocks=blocks), choice, effort._replace(gap=0.0), enough=wanted.amount)
    return found.choice, found.bound <= found.value


def _improve(problem: Problem, choice: Choice, effort: Effort, *, enough: int | None = None) -> _Found:
    """Find a choice at least as good as one that keeps the rules; stop at a value that is enough."""
    rows = rows_of(problem)
    best = _Found(choice, problem.value(choice), problem.value_of_everything)
    tightest: Priced | None = None
    for seen, shares in _pricings(problem, rows, effort, in_haste=enough is not None):
        best = best._replace(bound=min(best.bound, seen.bound))
        if tightest is None or seen.total < tightest.total:
            tightest = seen
        for start, order in _orders(seen, shares, best.choice):
            best = _filled(seen, start, order, best)
            if best.bound <= effort.reach(best.value) or (enough is not None and best.value >= enough):
                return best
    if tightest is None or not effort.exact:
        return best
    return _branched(problem, rows, tightest, best, effort)


def _pricings(
    problem: Problem, rows: list[Row], effort: Effort, *, in_haste: bool
) -> Iterator[tuple[Priced, list[float]]]:
    """Price the rules, with the share of each block: by the capacity alone, where that will do, then by the solver."""
    nothing = [0.0] * len(problem.blocks)
    has_solver = effort.exact and len(rows) > 1
    if in_haste or not has_solver:
        yield by_capacity(problem, rows), nothing
    if has_solver:
        model = Model(problem, rows)
        solved = relax(model)
        if solved is not None:
            prices = [round(price * (1 << SHIFT)) for price in solved.prices[model.first_rule :]]
            yield priced(problem, rows, prices), model.shares(solved.solution)
        elif not in_haste:
            yield by_capacity(problem, rows), nothing


def _orders(seen: Priced, shares: list[float], choice: Choice) -> Iterator[tuple[Choice | None, list[int]]]:
    """Return orders to fill in, by share and then by surplus: as it is, floors first, and on top of a choice."""
    surplus = seen.surplus
    order = sorted(range(len(shares)), key=lambda block: (-round(shares[block], 6), -surplus[block], block))
    yield None, order
    if seen.problem.floors:
        yield None, _floors_first(seen, order)
    if any(places is not None for places in choice):
        yield choice, order


def _filled(seen: Priced, start: Choice | None, order: list[int], best: _Found) -> _Found:
    """Fill in an order, if that is better."""
    problem = seen.problem
    filling = Filling(problem, start)
    filling.fill(order, seen.best)
    value = problem.value(filling.choice)
    if value < best.value or not problem.reaches(filling.choice):
        return best
    return best._replace(choice=filling.choice, value=value)


def _floors_first(seen: Priced, order: list[int]) -> list[int]:
    """Put first, for each floor, as many blocks of its kind as it takes."""
    first: dict[int, None] = {}
    for one in seen.problem.floors:
        amount = 0
        for block in order:
            members = seen.problem.blocks[block].members
            if amount >= one.amount:
                break
            if any(member.kind == one.kind for member in members):
                first[block] = None
                places = zip(members, seen.best(block), strict=True)
                amount += sum(one.measure(member, member.options[place]) for member, place in places)
    return [*first, *(block for block in order if block not in first)]


def _branched(problem: Problem, rows: list[Row], seen: Priced, best: _Found, effort: Effort) -> _Found:
    """Let the solver decide what the prices leave open."""
    reach = effort.reach(best.value)
    model = Model(problem, rows, core(seen, reach, best.choice))
    if len(model.values) > effort.max_core:
        return best
    bound = reach
    if model.values:
        solved = branch(model, model.write(best.choice), effort.gap)
        if solved is None:
            return best
        choice = model.read(solved.solution)
        value = problem.value(choice) if problem.allows(choice) else -1
        if value >= best.value:  # rounding may have spoilt it; the choice so far is good in any case
            best = best._replace(choice=choice, value=value)
        if not is_exact_for(model):
            return best
        bound = max(reach, floor(solved.bound + 1e-3))
    return best._replace(bound=max(best.value, min(best.bound, bound)))
