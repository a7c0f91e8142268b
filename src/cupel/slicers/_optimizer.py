"""The best total value under forms, groups and limits, with a proven bound.

The relaxation gives prices for the limits. Prices prove a bound, decide most groups by their reduced costs, and order a
greedy filling; HiGHS branches only on the groups that stay undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import floor, inf
from operator import add, itemgetter, mul, sub
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from cupel._internal.relations import density, hull
from cupel.slicers._highs import Model, run_solver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SHIFT: Final = 20
"""Prices are whole multiples of 2^-20, so that bounds are exact."""


class ScaledForm(NamedTuple):
    """A form, or several that are only taken together, in whole numbers."""

    value: int
    amounts: tuple[int, ...]
    """How much it adds to each limit; the first is its tokens, and a minimum counts negative."""
    positions: tuple[int, ...] = ()

    def joined(self, other: ScaledForm) -> ScaledForm:
        """Return both as one."""
        amounts = tuple(map(add, self.amounts, other.amounts))
        return ScaledForm(self.value + other.value, amounts, self.positions + other.positions)


ScaledEntity: TypeAlias = "tuple[ScaledForm, ...]"
"""The forms of which exactly one is taken when the group is in."""
ScaledGroup: TypeAlias = "tuple[ScaledEntity, ...]"
Choice: TypeAlias = "list[tuple[int, ...] | None]"
"""For each group the place of the form taken for each entity; None for a group that is out."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Maximise the value of the forms taken; the amounts of each limit add up to its bound at most."""

    groups: Sequence[ScaledGroup]
    bounds: Sequence[int]
    """The capacity, the other maxima, and the minima, which are negative; forms may have amounts for more limits."""
    maxima: int
    """How many of the bounds are not minima."""

    def taken(self, choice: Choice) -> list[ScaledForm]:
        """Return the forms that a choice takes."""
        pairs = zip(self.groups, choice, strict=True)
        return [entity[place] for group, at in pairs if at is not None for entity, place in zip(group, at, strict=True)]

    def value(self, choice: Choice) -> int:
        """Return the total value of a choice."""
        return sum(form.value for form in self.taken(choice))

    def keeps(self, choice: Choice, first: int = 0) -> bool:
        """Return whether a choice keeps the limits from the first on; read from the forms, not from a solver's rows."""
        forms = self.taken(choice)
        limits = enumerate(self.bounds[first:], first)
        return all(sum(form.amounts[row] for form in forms) <= bound for row, bound in limits)


def reduced(problem: Problem) -> Problem:
    """Leave out forms that are too large for the capacity, and groups that cannot be in without one."""
    capacity = problem.bounds[0]
    if all(form.amounts[0] <= capacity for group in problem.groups for entity in group for form in entity):
        return problem
    groups = [
        tuple(tuple(form for form in entity if form.amounts[0] <= capacity) for entity in group)
        for group in problem.groups
    ]
    return replace(problem, groups=[group for group in groups if all(group)])


class _Filling:
    """A choice that grows within the maxima; the caller handles minima."""

    def __init__(self, problem: Problem, start: Choice | None = None) -> None:
        self._groups = problem.groups
        self._left: list[float] = [*problem.bounds[: problem.maxima], *[inf] * (len(problem.bounds) - problem.maxima)]
        self.choice: Choice = [None] * len(problem.groups)
        for number, places in enumerate(start or ()):
            if places is not None:
                self._change(number, places)

    def fill(self, order: Iterable[int], best: Callable[[int], tuple[int, ...]]) -> None:
        """Take each group that adds value or costs nothing, in this order, then the larger forms there is room for."""
        for number in order:
            group = self._groups[number]
            if self.choice[number] is not None or not _is_useful(group):
                continue
            if not self._change(number, best(number)) and max(map(len, group)) > 1:
                cheapest = tuple(entity.index(min(entity, key=lambda form: form.amounts[0])) for entity in group)
                if self._change(number, cheapest):
                    self._upgrade(number)
        losses = [
            (entity[place].value - max(form.value for form in entity), number)
            for number, places in enumerate(self.choice)
            for entity, place in zip(self._groups[number], places or (), strict=False)
            if len(entity) > 1
        ]
        for _, number in sorted(losses):
            self._upgrade(number)

    def _change(self, number: int, places: tuple[int, ...]) -> bool:
        """Give a group these forms if there is room."""
        left: Iterable[float] = self._left
        for entity, place in zip(self._groups[number], places, strict=True):
            left = map(sub, left, entity[place].amounts)
        for entity, place in zip(self._groups[number], self.choice[number] or (), strict=False):
            left = map(add, left, entity[place].amounts)
        left = [*left]
        if min(left) < 0:
            return False
        self._left = left
        self.choice[number] = places
        return True

    def _upgrade(self, number: int) -> None:
        """Give each entity of a group that is in the form of the greatest value that fits, if it is worth more."""
        for at, entity in enumerate(self._groups[number]):
            now = self.choice[number] or ()
            better = [place for place, form in enumerate(entity) if form.value > entity[now[at]].value]
            for place in sorted(better, key=lambda place: -entity[place].value):
                if self._change(number, (*now[:at], place, *now[at + 1 :])):
                    break


def _is_useful(group: ScaledGroup) -> bool:
    """Return whether a group adds value or costs nothing."""
    if group[0][0].value:
        return True
    is_free = not any(min(form.amounts[0] for form in entity) for entity in group)
    return is_free or any(form.value for entity in group for form in entity)


@dataclass(frozen=True, slots=True)
class Priced:
    """A problem whose limits are sold at prices instead of being kept: each group on its own, in its best forms.

    By weak duality its value is a bound on the problem's, whatever the prices. All numbers are in steps of 2^-20.
    """

    problem: Problem
    margins: list[list[list[int]]]
    """For each group, entity and form: the value less the price of its amounts."""
    surplus: list[int]
    """For each group: the margin of its best forms."""
    total: int
    """The value of all bounds, and of all groups with a surplus."""

    @property
    def bound(self) -> int:
        """The greatest whole value that the prices leave possible."""
        return self.total >> SHIFT

    def best(self, number: int) -> tuple[int, ...]:
        """Return the forms with the greatest margin; of equal ones those with more value."""
        if len(self.margins[number]) == len(self.margins[number][0]) == 1:
            return (0,)
        pairs = zip(self.problem.groups[number], self.margins[number], strict=True)
        return tuple(max(range(len(own)), key=lambda place: (own[place], entity[place].value)) for entity, own in pairs)


def priced(problem: Problem, prices: Sequence[int]) -> Priced:
    """Sell the limits at these prices; a negative one counts as zero."""
    prices = [max(0, price) for price in prices]
    margins = [
        [[(form.value << SHIFT) - sum(map(mul, prices, form.amounts)) for form in entity] for entity in group]
        for group in problem.groups
    ]
    surplus = [sum(map(max, own)) for own in margins]
    return Priced(
        problem, margins, surplus, sum(map(mul, prices, problem.bounds)) + sum(gain for gain in surplus if gain > 0)
    )


def by_capacity(problem: Problem) -> Priced:
    """Sell the capacity at the price at which it would just be used up if forms could be cut, the rest for nothing."""
    steps = sorted((step for group in problem.groups for step in _steps(group)), key=itemgetter(0), reverse=True)
    left = accumulate((tokens for _, tokens in steps), sub, initial=problem.bounds[0])
    short = next((at for at, rest in enumerate(left) if rest < 0), None)
    return priced(problem, [0 if short is None else round(steps[short - 1][0] * (1 << SHIFT))])


def _steps(group: ScaledGroup) -> list[tuple[float, int]]:
    """Return density and tokens of the steps from nothing to a group in its largest useful forms."""
    if len(group) == 1 and len(group[0]) == 1:  # nearly always
        (form,) = group[0]
        return [(density(form.value, form.amounts[0]), form.amounts[0])]
    least = value = 0
    upgrades: list[tuple[int, int]] = []
    for entity in group:
        rising: list[tuple[int, int]] = []
        for form in sorted(entity, key=lambda form: (form.amounts[0], -form.value)):
            if not rising or form.value > rising[-1][1]:
                rising.append((form.amounts[0], form.value))
        corners = [rising[at] for at in hull(*zip(*rising, strict=True))]
        least, value = least + corners[0][0], value + corners[0][1]
        upgrades += ((high[0] - low[0], high[1] - low[1]) for low, high in pairwise(corners))
    upgrades.sort(key=lambda step: density(step[1], step[0]), reverse=True)
    tokens = [0, *accumulate((step[0] for step in upgrades), initial=least)]
    values = [0, *accumulate((step[1] for step in upgrades), initial=value)]
    ends = pairwise(hull(tokens, values))
    steps = [(values[end] - values[start], tokens[end] - tokens[start]) for start, end in ends]
    return [(density(gain, cost), cost) for gain, cost in steps]


class Core(NamedTuple):
    """The decisions that a choice worth more than some value leaves open."""

    forms: list[tuple[tuple[int, ...], ...] | None]
    """For each group and entity the places of the forms left; None for a group that is out."""
    forced: list[bool]
    """Whether each group is in."""


def core(found: Priced, more_than: int, kept: Choice) -> Core:
    """Fix by reduced costs every decision that a choice above this value cannot change, except against `kept`."""
    slack = found.total - ((more_than + 1) << SHIFT)
    forms: list[tuple[tuple[int, ...], ...] | None] = []
    for margins, surplus, places in zip(found.margins, found.surplus, kept, strict=True):
        lost = slack + min(0, surplus)
        if places is None and lost < 0:
            forms.append(None)
            continue
        used: Iterable[int] = places or [-1] * len(margins)
        forms.append(
            tuple(
                tuple(at for at, margin in enumerate(own) if max(own) - margin <= lost or at == place)
                for own, place in zip(margins, used, strict=True)
            )
        )
    return Core(forms, [at is not None and surplus > slack for at, surplus in zip(kept, found.surplus, strict=True)])


class Effort(NamedTuple):
    """Limits on the search."""

    gap: float
    """A choice is good enough within this share of the bound."""
    max_core: int
    """With more columns undecided there is no branch and bound."""
    exact: bool
    """Whether the solver may be used."""

    def reach(self, value: int) -> int:
        """Return the greatest bound for which a value is good enough."""
        return value + floor(value * self.gap / (1 - self.gap))


class Solution(NamedTuple):
    """A choice, and a proof about all others."""

    chosen: list[int]
    """Positions."""
    value: int
    bound: int
    """The most that any choice is worth with as much of every minimum."""
    reached: list[int]
    """How much of each minimum could be reached, beginning with the first."""
    is_settled: bool
    """Whether it is proved that no minimum short of its amount could have more."""


class _Found(NamedTuple):
    choice: Choice
    value: int
    bound: int


def solve(problem: Problem, effort: Effort) -> Solution:
    """Choose; minima are kept in their order, each while the ones before it allow."""
    problem = reduced(problem)
    choice = _reach_minima(problem)
    is_settled = True
    if choice is None:
        choice = _Filling(problem).choice
        bounds = [*problem.bounds]
        for row in range(problem.maxima, len(bounds)):
            found = _raise(replace(problem, bounds=bounds[:row]), row, choice, effort, -bounds[row])
            choice, got = found.choice, min(found.value, -bounds[row])
            is_settled = is_settled and (found.bound <= found.value or got == -bounds[row])
            bounds[row] = -got
        problem = replace(problem, bounds=bounds)
    best = _improve(problem, choice, effort)
    chosen = [position for form in problem.taken(best.choice) for position in form.positions]
    reached = [-bound for bound in problem.bounds[problem.maxima :]]
    return Solution(chosen, best.value, best.bound, reached, is_settled)


def _reach_minima(problem: Problem) -> Choice | None:
    """Try to reach all minima by one filling; without any, choose nothing."""
    filling = _Filling(problem)
    if len(problem.bounds) > problem.maxima:
        found = by_capacity(problem)
        order = sorted(range(len(problem.groups)), key=lambda group: (-found.surplus[group], group))
        filling.fill(_minima_first(found, order), found.best)
    return filling.choice if problem.keeps(filling.choice, problem.maxima) else None


def _raise(problem: Problem, row: int, choice: Choice, effort: Effort, enough: int) -> _Found:
    """Take as much as possible towards a minimum, until it is reached."""
    groups = [
        tuple(tuple(form._replace(value=-form.amounts[row]) for form in entity) for entity in group)
        for group in problem.groups
    ]
    return _improve(replace(problem, groups=groups), choice, effort._replace(gap=0.0), enough)


def _improve(problem: Problem, choice: Choice, effort: Effort, enough: int | None = None) -> _Found:
    """Find a choice at least as good as one that keeps the limits; stop at a value that is enough."""
    everything = sum(max(form.value for form in entity) for group in problem.groups for entity in group)
    best, tightest = _Found(choice, problem.value(choice), everything), None
    for found, shares in _pricings(problem, effort, in_haste=enough is not None):
        best = best._replace(bound=min(best.bound, found.bound))
        tightest = found if tightest is None or found.total < tightest.total else tightest
        for start, order in _orders(found, shares, best.choice):
            filling = _Filling(problem, start)
            filling.fill(order, found.best)
            value = problem.value(filling.choice)
            if value >= best.value and problem.keeps(filling.choice, problem.maxima):
                best = best._replace(choice=filling.choice, value=value)
            if best.bound <= effort.reach(best.value) or (enough is not None and best.value >= enough):
                return best
    return best if tightest is None or not effort.exact else _branched(problem, tightest, best, effort)


def _pricings(problem: Problem, effort: Effort, *, in_haste: bool) -> Iterator[tuple[Priced, list[float]]]:
    """Price the limits, with the share of each group: by the capacity alone where that will do, then by the solver."""
    nothing = [0.0] * len(problem.groups)
    has_solver = effort.exact and len(problem.bounds) > 1
    if in_haste or not has_solver:
        yield by_capacity(problem), nothing
    if has_solver:
        everything = [tuple(tuple(range(len(entity))) for entity in group) for group in problem.groups]
        model = Model(problem, Core([*everything], [False] * len(everything)))
        solved = run_solver(model)
        if solved is not None:
            prices = [round(price * (1 << SHIFT)) for price in solved.prices[-len(problem.bounds) :]]
            yield priced(problem, prices), model.shares(solved.solution)
        elif not in_haste:
            yield by_capacity(problem), nothing


def _orders(found: Priced, shares: list[float], choice: Choice) -> Iterator[tuple[Choice | None, list[int]]]:
    """Return orders to fill in, by share and then by surplus: as it is, minima first, and on top of a choice."""
    order = sorted(range(len(shares)), key=lambda group: (-round(shares[group], 6), -found.surplus[group], group))
    yield None, order
    if len(found.problem.bounds) > found.problem.maxima:
        yield None, _minima_first(found, order)
    if any(places is not None for places in choice):
        yield choice, order


def _minima_first(found: Priced, order: list[int]) -> list[int]:
    """Put first, for each minimum, enough groups that count for it."""
    problem = found.problem
    first: dict[int, None] = {}
    for row in range(problem.maxima, len(problem.bounds)):
        amount = 0
        for number in order:
            if amount <= problem.bounds[row]:
                break
            if any(form.amounts[row] for entity in problem.groups[number] for form in entity):
                first[number] = None
                pairs = zip(problem.groups[number], found.best(number), strict=True)
                amount += sum(entity[place].amounts[row] for entity, place in pairs)
    return [*first, *(number for number in order if number not in first)]


def _branched(problem: Problem, found: Priced, best: _Found, effort: Effort) -> _Found:
    """Let the solver decide the groups that the prices leave open."""
    reach = effort.reach(best.value)
    model = Model(problem, core(found, reach, best.choice))
    if len(model.values) > effort.max_core:
        return best
    solved = run_solver(model, model.write(best.choice), effort.gap)
    if solved is None:
        return best
    choice = model.read(solved.solution)
    value = problem.value(choice) if problem.keeps(choice) else -1
    if value >= best.value:  # rounding may have broken a limit; the choice so far is good in any case
        best = best._replace(choice=choice, value=value)
    if not model.is_exact():
        return best
    bound = max(reach, floor(solved.bound + 1e-3))
    return best._replace(bound=max(best.value, min(best.bound, bound)))
