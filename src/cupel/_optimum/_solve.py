"""The search: prices, a choice that follows them, and branch and bound on what they leave open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, NamedTuple

from cupel._optimum._filling import Filling
from cupel._optimum._highs import branch, is_exact_for, relax
from cupel._optimum._model import Model
from cupel._optimum._prices import SHIFT, capacity_price, core, priced
from cupel._optimum._problem import Block, Member, Option, Problem, reduced
from cupel._optimum._rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    wanted, problem = problem.floors, replace(problem, floors=())
    choice: Choice = [None] * len(problem.blocks)
    is_settled = True
    for one in wanted:
        choice, is_proved = _raise(problem, one, choice, effort)
        amount = min(one.amount, problem.reached(one, choice))
        is_settled = is_settled and (is_proved or amount == one.amount)
        problem = replace(problem, floors=(*problem.floors, one._replace(amount=amount)))
    found = _improve(problem, choice, effort)
    taken = [option for _, option in problem.taken(found.choice)]
    return Answer(taken, found.value, found.bound, [one.amount for one in problem.floors], is_settled)


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
    seen = priced(problem, rows, [capacity_price(problem)] + [0] * (len(rows) - 1))
    best = _Found(choice, problem.value(choice), seen.bound)
    best = _follow(seen, [0.0] * len(problem.blocks), best)
    if _is_done(best, effort, enough) or not effort.exact:
        return best
    if len(rows) > 1:
        seen, best = _relaxed(problem, rows, seen, best)
    if _is_done(best, effort, enough):
        return best
    return _branched(problem, rows, seen, best, effort)


def _is_done(found: _Found, effort: Effort, enough: int | None) -> bool:
    return found.bound <= effort.reach(found.value) or (enough is not None and found.value >= enough)


def _follow(seen: Priced, shares: Sequence[float], best: _Found) -> _Found:
    """Fill by share and then by surplus, alone, floors first, and from the choice so far; return the best."""
    problem, surplus = seen.problem, seen.surplus
    order = sorted(range(len(shares)), key=lambda block: (-round(shares[block], 6), -surplus[block], block))
    attempts: list[tuple[Choice | None, list[int]]] = [(None, order)]
    if problem.floors:
        attempts.append((None, _floors_first(problem, order)))
    if any(places is not None for places in best.choice):
        attempts.append((best.choice, order))
    for start, blocks in attempts:
        filling = Filling(problem, start)
        filling.fill(blocks, seen.best)
        value = problem.value(filling.choice)
        if value >= best.value and all(problem.reached(one, filling.choice) >= one.amount for one in problem.floors):
            best = best._replace(choice=filling.choice, value=value)
    return best._replace(bound=min(best.bound, seen.bound))


def _floors_first(problem: Problem, order: list[int]) -> list[int]:
    """Put first, for each floor, as many blocks of its kind as it takes."""
    first: dict[int, None] = {}
    for one in problem.floors:
        amount = 0
        for block in order:
            members = problem.blocks[block].members
            if amount >= one.amount:
                break
            gain = sum(min(one.measure(member, option) for option in member.options) for member in members)
            if gain:
                first[block] = None
                amount += gain
    return [*first, *(block for block in order if block not in first)]


def _relaxed(problem: Problem, rows: list[Row], seen: Priced, best: _Found) -> tuple[Priced, _Found]:
    """Let the solver find prices for all rules at once, and follow them."""
    model = Model(problem, rows)
    solved = relax(model)
    if solved is None:
        return seen, best
    prices = [round(price * (1 << SHIFT)) for price in solved.prices[model.first_rule :]]
    found = priced(problem, rows, prices)
    return min(seen, found, key=lambda one: one.total), _follow(found, model.shares(solved.solution), best)


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
