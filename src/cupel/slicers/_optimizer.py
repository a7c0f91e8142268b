"""The best total value under forms, groups and limits, with a proven bound.

The relaxation gives prices for the limits. Prices prove a bound, decide most groups by their reduced costs, and order a
greedy filling; HiGHS branches only on the groups that stay undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from math import floor, fsum, inf
from operator import add, itemgetter, sub
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cupel._internal.relations import Form, density, hull, useful_forms
from cupel.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cupel.diagnostics import Proof

_SHIFT: Final = 20
"""Prices are whole multiples of 2^-20, so that bounds are exact."""

ColumnGroup: TypeAlias = "tuple[tuple[int, ...], ...]"
"""Entities, each with its columns, of which exactly one is taken when the group is in."""
Columns: TypeAlias = "list[tuple[int, ...]]"
"""For each group the columns taken, one of each entity; none of a group that is out."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Maximise the value of the columns taken; the amounts of each limit add up to its bound at most.

    A column is a form, or several that are only taken together.
    """

    groups: list[ColumnGroup]
    values: list[int]
    amounts: list[tuple[int, ...]]
    """How much each column adds to each limit, in whole numbers; a minimum counts negative."""
    bounds: list[int]
    """The capacity in tokens, the other maxima, and the minima, which are negative."""
    maxima: int
    """How many of the bounds are not minima."""

    def within(self, capacity: int) -> Problem:
        """Leave out columns that are too large for the capacity, and groups that cannot be in without one."""
        groups, amounts = self.groups, self.amounts
        if any(own[0] > capacity for own in amounts):
            groups = [tuple(tuple(at for at in own if amounts[at][0] <= capacity) for own in group) for group in groups]
        return replace(self, groups=[group for group in groups if all(group)], bounds=[capacity, *self.bounds[1:]])

    def most(self, numbers: Sequence[int]) -> int:
        """Return the sum of the numbers of columns, the largest of each entity."""
        return sum(max(numbers[column] for column in entity) for group in self.groups for entity in group)

    def value(self, choice: Columns) -> int:
        """Return the total value of a choice."""
        return sum(self.values[column] for column in chain(*choice))

    def keeps(self, choice: Columns) -> bool:
        """Return whether a choice keeps all limits; read from the amounts, not from a solver's rows."""
        taken = [self.amounts[column] for column in chain(*choice)]
        return all(sum(amounts[row] for amounts in taken) <= bound for row, bound in enumerate(self.bounds))


class Priced:
    """A problem whose limits are sold at prices instead of being kept: each group on its own, in its best columns.

    By weak duality its value bounds the problem's, whatever the prices. Margins are in steps of 2^-20.
    """

    def __init__(self, problem: Problem, prices: Sequence[float]) -> None:
        self._values = problem.values
        steps = [max(0, round(price * (1 << _SHIFT))) for price in prices]
        pairs = zip(problem.values, problem.amounts, strict=True)
        self.margins = [(value << _SHIFT) - sum(map(int.__mul__, steps, amounts)) for value, amounts in pairs]
        """The value of each column less the price of its amounts."""
        margin = self.margins.__getitem__
        self.surplus = [sum(max(map(margin, entity)) for entity in group) for group in problem.groups]
        """The margin of the best columns of each group."""
        gain = sum(surplus for surplus in self.surplus if surplus > 0)
        self.total = sum(map(int.__mul__, steps, problem.bounds)) + gain
        """The value of all bounds, and of all groups with a surplus."""

    def best(self, group: ColumnGroup) -> tuple[int, ...]:
        """Return the columns with the greatest margin; of equal ones those with more value."""
        return tuple(
            own[0] if len(own) == 1 else max(own, key=lambda at: (self.margins[at], self._values[at])) for own in group
        )


def price_of_capacity(problem: Problem) -> float:
    """Return the price of a token at which the capacity would just be used up if forms could be cut."""
    steps = sorted(chain(*(_steps(problem, group) for group in problem.groups)), key=itemgetter(0), reverse=True)
    left = accumulate((tokens for _, tokens in steps), sub, initial=problem.bounds[0])
    return next((price for (price, _), rest in zip(steps, [*left][1:], strict=True) if rest < 0), 0.0)


def _steps(problem: Problem, group: ColumnGroup) -> list[tuple[float, int]]:
    """Return density and tokens of the steps from nothing to a group in its largest useful forms."""
    values, amounts = problem.values, problem.amounts
    if len(group) == len(group[0]) == 1:  # nearly always
        ((column,),) = group
        return [(density(values[column], amounts[column][0]), amounts[column][0])]
    entities = [useful_forms(Form(column, amounts[column][0], values[column]) for column in own) for own in group]
    pairs = [pair for own in entities for pair in pairwise(own)]
    pairs.sort(key=lambda pair: density(pair[1].value - pair[0].value, pair[1].tokens - pair[0].tokens), reverse=True)
    least, value = sum(own[0].tokens for own in entities), fsum(own[0].value for own in entities)
    tokens = [0, *accumulate((high.tokens - low.tokens for low, high in pairs), initial=least)]
    worths = [0.0, *accumulate((high.value - low.value for low, high in pairs), initial=value)]
    steps = [(worths[end] - worths[at], tokens[end] - tokens[at]) for at, end in pairwise(hull(tokens, worths))]
    return [(density(gain, cost), cost) for gain, cost in steps]


def _is_useful(problem: Problem, group: ColumnGroup) -> bool:
    """Return whether a group adds value or costs nothing."""
    if problem.values[group[0][0]] or any(problem.values[column] for column in chain(*group)):
        return True
    return not any(min(problem.amounts[column][0] for column in entity) for entity in group)


class _Filling:
    """A choice that grows within the maxima; the caller handles minima."""

    def __init__(self, problem: Problem, start: Columns) -> None:
        self._problem = problem
        self._left = problem.bounds[: problem.maxima]
        self.choice: Columns = [()] * len(problem.groups)
        for number, columns in enumerate(start):
            self._change(number, columns)

    def fill(self, order: Sequence[int], found: Priced) -> None:
        """Take each group that adds value or costs nothing, in this order, then the larger forms there is room for."""
        amounts = self._problem.amounts
        for number in order:
            group = self._problem.groups[number]
            if self.choice[number] or not _is_useful(self._problem, group):
                continue
            if not self._change(number, found.best(group)) and max(map(len, group)) > 1:
                cheapest = tuple(min(entity, key=lambda at: amounts[at][0]) for entity in group)
                if self._change(number, cheapest):
                    self._upgrade(number)
        values, groups = self._problem.values, self._problem.groups
        losses = [
            (values[column] - max(values[at] for at in entity), number)
            for number, columns in enumerate(self.choice)
            for entity, column in zip(groups[number] if columns else (), columns, strict=True)
            if len(entity) > 1
        ]
        for _, number in sorted(losses):
            self._upgrade(number)

    def _upgrade(self, number: int) -> None:
        """Give each entity of a group that is in the form of the greatest value that fits, if it is worth more."""
        values = self._problem.values
        for place, entity in enumerate(self._problem.groups[number]):
            now = self.choice[number]
            larger = [column for column in entity if values[column] > values[now[place]]]
            for column in sorted(larger, key=values.__getitem__, reverse=True):
                if self._change(number, (*now[:place], column, *now[place + 1 :])):
                    break

    def _change(self, number: int, columns: tuple[int, ...]) -> bool:
        """Give a group these columns if there is room."""
        amounts = self._problem.amounts
        left: Iterable[int] = self._left
        for column in columns:
            left = map(sub, left, amounts[column])
        for column in self.choice[number]:
            left = map(add, left, amounts[column])
        left = [*left]
        if min(left) < 0:
            return False
        self._left, self.choice[number] = left, columns
        return True


class Core(NamedTuple):
    """The decisions that a choice worth more than some value leaves open."""

    groups: list[ColumnGroup]
    """The columns left; no entities in a group that is out."""
    forced: list[bool]
    """Whether each group is in."""

    @property
    def size(self) -> int:
        """The number of decisions: the columns of entities with several, and whether the other entities are in."""
        several = sum(len(entity) for group in self.groups for entity in group if len(entity) > 1)
        pairs = zip(self.groups, self.forced, strict=True)
        return several + sum(not is_in and min(map(len, group), default=0) == 1 for group, is_in in pairs)


def core(problem: Problem, found: Priced, more_than: int, kept: Columns) -> Core:
    """Fix by reduced costs every decision that a choice above this value cannot change, except against `kept`."""
    slack = found.total - ((more_than + 1) << _SHIFT)
    groups: list[ColumnGroup] = []
    for group, surplus, own in zip(problem.groups, found.surplus, kept, strict=True):
        lost = slack + min(0, surplus)
        entities: list[tuple[int, ...]] = []
        for entity in group if own or lost >= 0 else ():
            best = max(found.margins[column] for column in entity)
            entities.append(tuple(at for at in entity if best - found.margins[at] <= lost or at in own))
        groups.append(tuple(entities))
    return Core(groups, [bool(own) and surplus > slack for own, surplus in zip(kept, found.surplus, strict=True)])


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


class Optimum(NamedTuple):
    """A choice, and a proof about all others."""

    choice: Columns
    value: int
    bound: int
    """The most that any choice is worth with as much of every minimum."""
    reached: Sequence[int] = ()
    """How much of each minimum could be reached, beginning with the first."""
    is_settled: bool = True
    """Whether it is proved that no minimum short of its amount could have more."""

    def proof(self, effort: Effort) -> Proof:
        """Return how the search ended."""
        if self.is_settled and self.bound <= effort.reach(self.value):
            return "optimal" if self.value == self.bound else "within gap"
        return "limit"


def solve(problem: Problem, effort: Effort) -> Optimum:
    """Choose; minima are kept in their order, each while the ones before it allow."""
    bounds, is_settled = [*problem.bounds], True
    choice = _filled(problem)
    if not problem.keeps(choice):
        choice = [()] * len(problem.groups)
        for row in range(problem.maxima, len(bounds)):
            # Take as much as possible towards the minimum, until it is reached.
            towards = replace(problem, values=[-own[row] for own in problem.amounts], bounds=bounds[:row])
            found = _improve(towards, choice, effort._replace(gap=0.0), -bounds[row])
            choice, is_settled = found.choice, is_settled and found.bound <= found.value
            bounds[row] = max(bounds[row], -found.value)
        problem = replace(problem, bounds=bounds)
    found = _improve(problem, choice, effort, problem.most(problem.values))
    return found._replace(reached=[-bound for bound in bounds[problem.maxima :]], is_settled=is_settled)


def _filled(problem: Problem) -> Columns:
    """Try to reach all minima by one filling; without any, choose nothing."""
    filling = _Filling(problem, [])
    if len(problem.bounds) > problem.maxima:
        found = Priced(problem, [price_of_capacity(problem)])
        order = sorted(range(len(problem.groups)), key=lambda group: (-found.surplus[group], group))
        filling.fill(_minima_first(problem, found, order), found)
    return filling.choice


def _improve(problem: Problem, choice: Columns, effort: Effort, most: int) -> Optimum:
    """Find a choice at least as good as one that keeps the limits; nothing is worth more than `most`."""
    found, shares = _relaxed(problem, effort)
    best = Optimum(choice, problem.value(choice), min(most, found.total >> _SHIFT))
    for start, order in _orders(problem, found, shares, choice):
        if best.bound <= effort.reach(best.value):
            return best
        filling = _Filling(problem, start)
        filling.fill(order, found)
        value = problem.value(filling.choice)
        if value >= best.value and problem.keeps(filling.choice):
            best = best._replace(choice=filling.choice, value=value)
    return _branched(problem, found, best, effort) if effort.exact else best


def _relaxed(problem: Problem, effort: Effort) -> tuple[Priced, list[float]]:
    """Price the limits, with the share of each group in the relaxation; the capacity alone where that has to do."""
    if effort.exact and len(problem.bounds) > 1:
        solved = run_solver(problem, Core(problem.groups, [False] * len(problem.groups)))
        if solved is not None:
            shares = [fsum(solved.shares[column] for column in group[0]) for group in problem.groups]
            return Priced(problem, solved.prices), shares
    return Priced(problem, [price_of_capacity(problem)]), [0.0] * len(problem.groups)


def _orders(
    problem: Problem, found: Priced, shares: list[float], choice: Columns
) -> Iterator[tuple[Columns, list[int]]]:
    """Return orders to fill in, by share and then by surplus: as it is, minima first, and on top of a choice."""
    order = sorted(range(len(shares)), key=lambda group: (-round(shares[group], 6), -found.surplus[group], group))
    yield [], order
    if len(problem.bounds) > problem.maxima:
        yield [], _minima_first(problem, found, order)
    if any(choice):
        yield choice, order


def _minima_first(problem: Problem, found: Priced, order: list[int]) -> list[int]:
    """Put first, for each minimum, enough groups that count for it."""
    first: dict[int, None] = {}
    for row in range(problem.maxima, len(problem.bounds)):
        amount = 0
        for number in order:
            if amount <= problem.bounds[row]:
                break
            group = problem.groups[number]
            if any(problem.amounts[column][row] for entity in group for column in entity):
                first[number] = None
                amount += sum(problem.amounts[column][row] for column in found.best(group))
    return [*first, *(number for number in order if number not in first)]


def _branched(problem: Problem, found: Priced, best: Optimum, effort: Effort) -> Optimum:
    """Let the solver decide the groups that the prices leave open."""
    more_than = effort.reach(best.value)
    if best.bound <= more_than:
        return best
    left = core(problem, found, more_than, best.choice)
    solved = run_solver(problem, left, best.choice, effort.gap) if left.size <= effort.max_core else None
    if solved is None:
        return best
    choice = [tuple(column for column in chain(*group) if solved.shares[column] > _HALF) for group in left.groups]
    value = problem.value(choice) if problem.keeps(choice) else -1
    if value >= best.value:  # rounding may have broken a limit; the choice so far is good in any case
        best = best._replace(choice=choice, value=value)
    return best._replace(bound=max(best.value, floor(min(best.bound, max(more_than, solved.bound + _TOLERANCE)))))


_HALF, _TOLERANCE = 0.5, 1e-3
_LARGEST = 1 << 30
"""Up to here whole numbers are far enough apart for the solver's own tolerances, whatever a float rounds."""


class Solved(NamedTuple):
    """A solution, the prices of the limits in a relaxation, and the solver's own bound."""

    shares: dict[int, float]
    prices: Sequence[float]
    bound: float
    """Infinite if floats do not hold all numbers and their sums without doubt."""


Limit: TypeAlias = "tuple[list[int], list[int], float, float]"
"""Columns, their factors, and the least and the most of the sum."""


def rows(problem: Problem, left: Core) -> Iterator[Limit]:
    """Yield what ties the columns of groups together, and then the limits."""
    for group, is_in in zip(left.groups, left.forced, strict=True):
        first, *others = group or ((),)
        if is_in or len(first) > 1:
            yield [*first], [1] * len(first), float(is_in), 1.0
        for entity in others:  # every entity is in as much as the first
            yield [*entity, *first], [1] * len(entity) + [-1] * len(first), 0.0, 0.0
    for row, bound in enumerate(problem.bounds):
        costly = [column for column in chain(*chain(*left.groups)) if problem.amounts[column][row]]
        yield costly, [problem.amounts[column][row] for column in costly], -inf, float(bound)


def load_solver() -> Any:
    """Return the solver's module."""
    try:
        import highspy  # an extra, and slow to import
    except ImportError:
        raise MissingExtraError("highspy", "optimal") from None
    return highspy


def run_solver(problem: Problem, left: Core, start: Columns | None = None, gap: float = 0.0) -> Solved | None:
    """Solve the relaxation, or from a known choice in whole columns; None if HiGHS failed, which proves nothing."""
    columns = [*chain(*chain(*left.groups))]
    values, limits = [problem.values[column] for column in columns], [*rows(problem, left)]
    scale = max(1.0, max(values, default=0) / _LARGEST)
    highspy = load_solver()
    model = _model(highspy, columns, [-value / scale for value in values], limits, is_whole=start is not None)
    # The dense row of the capacity makes presolve most of a relaxation's time.
    tolerances = dict.fromkeys(("mip_feasibility_tolerance", "primal_feasibility_tolerance"), 1e-9)
    whole = {"mip_rel_gap": gap, "mip_abs_gap": 0.5, **tolerances}
    options = {"presolve": "off", "solver": "simplex"} if start is None else whole
    for threads in (1, 0):  # one thread fails where other code in the process has started HiGHS with more
        solver = highspy.Highs()
        fixed = {"output_flag": False, "parallel": "off", "random_seed": 0, "threads": threads}
        for name, value in {**fixed, **options}.items():
            solver.setOptionValue(name, value)
        solver.passModel(model)
        if start is not None:
            known, taken = highspy.HighsSolution(), {*chain(*start)}
            known.col_value = [float(column in taken) for column in columns]
            solver.setSolution(known)
        if solver.run() != highspy.HighsStatus.kError and solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            found = solver.getSolution()
            prices = [-price * scale for price in found.row_dual][-len(problem.bounds) :]
            largest = max(map(abs, chain(values, *(factors for _, factors, _, _ in limits))), default=0)
            is_exact = largest <= _LARGEST and largest * len(values) <= _LARGEST << 10
            bound = -solver.getInfo().mip_dual_bound if is_exact else inf
            return Solved(dict(zip(columns, found.col_value, strict=True)), prices, bound)
    return None


def _model(highspy: Any, columns: list[int], costs: list[float], limits: list[Limit], *, is_whole: bool) -> Any:
    """Write columns between 0 and 1 and rows as the solver's model, which minimises."""
    places = {column: place for place, column in enumerate(columns)}
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(columns), len(limits)
    model.col_cost_, model.col_lower_, model.col_upper_ = costs, [0.0] * len(columns), [1.0] * len(columns)
    model.row_lower_, model.row_upper_ = [least for _, _, least, _ in limits], [most for _, _, _, most in limits]
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.num_col_, matrix.num_row_ = len(columns), len(limits)
    matrix.start_ = [0, *accumulate(len(own) for own, _, _, _ in limits)]
    matrix.index_ = [places[column] for own, _, _, _ in limits for column in own]
    matrix.value_ = [float(factor) for _, factors, _, _ in limits for factor in factors]
    if is_whole:
        model.integrality_ = [highspy.HighsVarType.kInteger] * len(columns)
    return model
