"""The best selection under forms, groups and limits for each kind, with a proven bound.

The relaxation gives prices for the limits. Prices prove a bound, decide most groups by their reduced costs, and order a
greedy filling; HiGHS branches only on the groups that stay undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from math import floor, fsum, inf
from operator import add, itemgetter, le, sub
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cupel._internal.checks import as_finite, as_flag, as_instance, as_integer, shown
from cupel._internal.columns import scaled_score
from cupel._internal.relations import Form, density, hull, rising_forms, useful_forms
from cupel.diagnostics import (
    Certificate,
    CountCapExceeded,
    CountRequirementShortfall,
    QuotaCapExceeded,
    TokenRequirementShortfall,
)
from cupel.errors import MissingExtraError, ScarcityError, SlicerConfigError
from cupel.model import ContextKind
from cupel.slicers._base import Chooser, PreparingSlicer, Selection, Span
from cupel.slicers._counts import ScarcityBehavior, as_amount, as_kind, checked_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cupel._internal.columns import Candidates
    from cupel._internal.relations import Relations
    from cupel.diagnostics import ExclusionReason, Proof
    from cupel.model import ContextBudget


@dataclass(frozen=True, slots=True)
class KindLimit:
    """How much of one kind `OptimalSlice` takes: numbers of items and of tokens; None for no upper limit.

    >>> KindLimit("ToolOutput", max_count=4).min_count
    0
    """

    kind: ContextKind
    min_count: int = 0
    max_count: int | None = None
    min_tokens: int = 0
    max_tokens: int | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            kind: ContextKind | str,
            min_count: int = ...,
            max_count: int | None = ...,
            min_tokens: int = ...,
            max_tokens: int | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", as_kind(self.kind))
        for least, most in (("min_count", "max_count"), ("min_tokens", "max_tokens")):
            low = self._set(least)
            if getattr(self, most) is not None and (high := self._set(most)) < low:
                msg = f"{least} must not exceed {most} for kind '{self.kind}', got {shown(low)} and {shown(high)}"
                raise SlicerConfigError(msg)

    def _set(self, name: str) -> int:
        value = as_amount(name, getattr(self, name), self.kind)
        object.__setattr__(self, name, value)
        return value


@dataclass(frozen=True, slots=True)
class OptimalSlice(PreparingSlicer):
    """Chooses the greatest total score under forms, groups and limits for each kind.

    The report's `certificate` bounds the distance to the best selection. It is at most `gap`, a share of the total,
    unless branch and bound would have to decide on more than `max_core` candidates. Scores count in steps of 0.0001.
    `limits` do not count pinned items. Minima are met in the order of the list, each if the ones before it allow;
    `scarcity` sets what happens when one is not reached.

    It needs the extra `optimal`, unless `exact=False`: then items are chosen by a price per token, which is close to
    the best for plain items and forms; groups and limits are respected but may cost a few percent.

    >>> from cupel import ContextBudget, ContextItem, ScoredItem
    >>> rows = (("a", 300, 0.9), ("b", 200, 0.5), ("c", 100, 0.45))
    >>> pool = [ScoredItem(ContextItem(name, tokens), score) for name, tokens, score in rows]
    >>> [item.content for item in OptimalSlice(exact=False).slice(pool, ContextBudget(300, 300))]
    ['b', 'c']
    """

    limits: Sequence[KindLimit] = ()
    gap: float = field(default=0.005, kw_only=True)
    max_core: int = field(default=400, kw_only=True)
    exact: bool = field(default=True, kw_only=True)
    scarcity: ScarcityBehavior = field(default=ScarcityBehavior.DEGRADE, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", checked_entries("limits", self.limits, KindLimit))
        gap = as_finite("gap", self.gap, error=SlicerConfigError, least=0, most=1)
        if gap == 1:
            raise SlicerConfigError("gap must be less than 1, got 1: everything would be good enough")
        object.__setattr__(self, "gap", gap)
        object.__setattr__(self, "max_core", as_integer("max_core", self.max_core, least=0, error=SlicerConfigError))
        object.__setattr__(self, "exact", as_flag("exact", self.exact))
        as_instance("scarcity", self.scarcity, ScarcityBehavior)
        if self.exact:
            load_solver()

    def _prepare(self, candidates: Candidates) -> OptimalChooser:
        """Write the candidates as a problem in which only the capacity is open."""
        return OptimalChooser(self, candidates)


class _Limit(NamedTuple):
    """A limit of one kind, counted in entities or in tokens."""

    kind: ContextKind
    in_tokens: bool
    bound: int
    """The most that may be in; of a minimum the least, as a negative number."""


def _split(limits: Sequence[KindLimit]) -> Iterator[_Limit]:
    """Yield the maxima and after them the minima, each in the order of the limits."""
    for limit in limits:
        for in_tokens, most in ((False, limit.max_count), (True, limit.max_tokens)):
            if most is not None:
                yield _Limit(limit.kind, in_tokens, most)
    for limit in limits:
        for in_tokens, least in ((False, limit.min_count), (True, limit.min_tokens)):
            if least:
                yield _Limit(limit.kind, in_tokens, -least)


class OptimalChooser(Chooser):
    """Solves one problem for one target at a time."""

    def __init__(self, slicer: OptimalSlice, candidates: Candidates) -> None:
        self._slicer = slicer
        self._candidates = candidates
        self._limits = [*_split(slicer.limits)]
        self._minima = [limit for limit in self._limits if limit.bound < 0]
        self._columns: list[tuple[Form, ...]] = []
        """The forms that each column of the problem takes together."""
        groups = [*(self._plain() if candidates.relations is None else self._related(candidates.relations))]
        values = [sum(int(form.value) for form in forms) for forms in self._columns]
        each = ([self._amounts(form.position) for form in forms] for forms in self._columns)
        amounts = [tuple(map(sum, zip(*own, strict=True))) for own in each]
        bounds = [0, *(limit.bound for limit in self._limits)]
        self._problem = Problem(groups, values, amounts, bounds, len(bounds) - len(self._minima))
        self._everything = max(1, self._problem.most([tokens for tokens, *_ in amounts]))
        """The tokens of all candidates in their largest forms; more room changes nothing."""

    def _plain(self) -> Iterator[ColumnGroup]:
        """Make a group of each candidate that a choice may gain from."""
        wanted = {limit.kind.key for limit in self._minima}
        tokens, scores = self._candidates.tokens, self._candidates.scores
        for position, (cost, score, item) in enumerate(zip(tokens, scores, self._candidates.items, strict=True)):
            value = scaled_score(score)
            if cost == 0 or (cost > 0 and (value or item.kind.key in wanted)):
                yield ((self._column(Form(position, cost, value)),),)

    def _related(self, relations: Relations) -> Iterator[ColumnGroup]:
        """Make a group of each that can be in; its entities with a single form share a column."""
        for group in relations.groups:
            if group.is_open:
                entities = [self._useful(relations.entities[entity].forms) for entity in group.entities]
                single = [entity[0] for entity in entities if len(entity) == 1]
                joined = [(self._column(*single),)] if single else []
                several = (tuple(map(self._column, entity)) for entity in entities if len(entity) > 1)
                yield (*joined, *several)

    def _useful(self, forms: Sequence[Form]) -> list[Form]:
        """Leave out forms that cost no less than another and are worth no more, unless tokens are wanted."""
        kind = self._candidates.items[forms[0].position].kind
        scaled = [Form(form.position, form.tokens, scaled_score(form.value)) for form in forms]
        is_wanted = any(limit.in_tokens and limit.kind == kind for limit in self._minima)
        return scaled if is_wanted else rising_forms(scaled)

    def _column(self, *forms: Form) -> int:
        """Add a column for forms that are taken together."""
        self._columns.append(forms)
        return len(self._columns) - 1

    def _amounts(self, position: int) -> list[int]:
        """Return how much a candidate adds to the tokens and to each limit; a minimum counts negative."""
        tokens, kind = self._candidates.tokens[position], self._candidates.items[position].kind.key
        amounts = [tokens]
        for limit in self._limits:
            own = 0 if limit.kind.key != kind else tokens if limit.in_tokens else 1
            amounts.append(-own if limit.bound < 0 else own)
        return amounts

    def __call__(self, budget: ContextBudget) -> Selection:
        """Solve for one target; an empty pool or target chooses nothing and is short of nothing (ruling 5.26)."""
        target = min(budget.target_tokens, self._everything)
        found, added = Optimum((), 0, 0), [0] * len(self._limits)
        counts: tuple[CountRequirementShortfall, ...] = ()
        tokens: tuple[TokenRequirementShortfall, ...] = ()
        if target > 0 and self._candidates.items:
            found = solve(self._problem.within(target), self._slicer)
            _, *added = self._problem.added(found.choice)
            counts, tokens = self._shortfalls(added)
        chosen = sorted(form.position for column in chain(*found.choice) for form in self._columns[column])
        certificate = Certificate(found.value, found.bound, found.proof(self._slicer.gap), tokens)
        return Selection(chosen, counts, partial(self._limit_reached, budget.target_tokens, added), certificate)

    def _shortfalls(
        self, added: list[int]
    ) -> tuple[tuple[CountRequirementShortfall, ...], tuple[TokenRequirementShortfall, ...]]:
        """Return the minima that were not reached; raise if that is not allowed."""
        short = [(limit, -got) for limit, got in zip(self._limits, added, strict=True) if got > limit.bound]
        if short and self._slicer.scarcity is ScarcityBehavior.THROW:
            (kind, in_tokens, bound), got = short[0]
            raise ScarcityError("OptimalSlice", kind.value, got, -bound, "min_tokens" if in_tokens else "min_count")
        counts = (CountRequirementShortfall(own.kind.value, -own.bound, got) for own, got in short if not own.in_tokens)
        tokens = (TokenRequirementShortfall(own.kind.value, -own.bound, got) for own, got in short if own.in_tokens)
        return tuple(counts), tuple(tokens)

    def _limit_reached(self, target: int, added: list[int], position: int) -> ExclusionReason | None:
        """Return the limit of the kind as the reason if it leaves no room and the item alone would fit."""
        tokens, *more = self._amounts(position)
        kind = self._candidates.items[position].kind.value
        for limit, got, own in zip(self._limits, added, more, strict=True):  # a kind's items come before its tokens
            if tokens <= target and limit.bound >= 0 and got + own > limit.bound:
                if limit.in_tokens:
                    return QuotaCapExceeded(kind, limit.bound, got + own)
                return CountCapExceeded(kind, limit.bound, got)
        return None

    def span(self, budget: ContextBudget) -> Span:
        """Return all targets at which everything fits; otherwise the given target alone."""
        if budget.target_tokens >= self._everything:
            return Span(self._everything, None)
        return super().span(budget)


_SHIFT: Final = 20
"""Prices are whole multiples of 2^-20, so that bounds are exact."""

ColumnGroup: TypeAlias = "tuple[tuple[int, ...], ...]"
"""Entities, each with its columns, of which exactly one is taken when the group is in."""
Columns: TypeAlias = "Sequence[tuple[int, ...]]"
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
    forced: frozenset[int] = frozenset()
    """The numbers of the groups that are in."""

    @property
    def size(self) -> int:
        """The number of decisions: the columns of entities with several, and whether the other entities are in."""
        several = sum(len(entity) for group in self.groups for entity in group if len(entity) > 1)
        free = (group for number, group in enumerate(self.groups) if number not in self.forced)
        return several + sum(min(map(len, group), default=0) == 1 for group in free)

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

    def added(self, choice: Columns) -> list[int]:
        """Return how much a choice adds to each limit."""
        taken = [self.amounts[column] for column in chain(*choice)]
        return [sum(amounts[row] for amounts in taken) for row in range(len(self.bounds))]

    def keeps(self, choice: Columns) -> bool:
        """Return whether a choice keeps all limits; read from the amounts, not from a solver's rows."""
        return all(map(le, self.added(choice), self.bounds))


class Priced:
    """A problem whose limits are sold at prices instead of being kept: each group on its own, in its best columns.

    By weak duality its value bounds the problem's, whatever the prices. Margins are in steps of 2^-20.
    """

    def __init__(self, problem: Problem, prices: Sequence[float], shares: Sequence[float] = ()) -> None:
        self.problem = problem
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
        self.order = sorted(range(len(problem.groups)), key=self.surplus.__getitem__, reverse=True)
        """The groups by their shares of a relaxation, if known, and then by their surplus."""
        if shares:
            self.order.sort(key=lambda number: round(shares[number], 6), reverse=True)

    def best(self, group: ColumnGroup) -> tuple[int, ...]:
        """Return the columns with the greatest margin; of equal ones those with more value."""
        values = self.problem.values
        return tuple(
            own[0] if len(own) == 1 else max(own, key=lambda at: (self.margins[at], values[at])) for own in group
        )

    def minima_first(self) -> list[int]:
        """Put first in the order, for each minimum, enough groups that count for it."""
        problem = self.problem
        first: dict[int, None] = {}
        for row in range(problem.maxima, len(problem.bounds)):
            amount = 0
            for number in self.order:
                if amount <= problem.bounds[row]:
                    break
                group = problem.groups[number]
                if any(problem.amounts[column][row] for entity in group for column in entity):
                    first[number] = None
                    amount += sum(problem.amounts[column][row] for column in self.best(group))
        return [*first, *(number for number in self.order if number not in first)]

    def core(self, more_than: int, kept: Columns) -> Problem:
        """Fix by reduced costs every decision that a choice above this value cannot change, except against `kept`.

        A group that is out has no columns left.
        """
        slack = self.total - ((more_than + 1) << _SHIFT)
        groups: list[ColumnGroup] = []
        for group, surplus, own in zip(self.problem.groups, self.surplus, kept, strict=True):
            lost = slack + min(0, surplus)
            entities: list[tuple[int, ...]] = []
            for entity in group if own or lost >= 0 else ():
                best = max(self.margins[column] for column in entity)
                entities.append(tuple(at for at in entity if best - self.margins[at] <= lost or at in own))
            groups.append(tuple(entities))
        forced = (number for number, surplus in enumerate(self.surplus) if kept[number] and surplus > slack)
        return replace(self.problem, groups=groups, forced=frozenset(forced))


def price_of_capacity(problem: Problem) -> float:
    """Return the price of a token at which the capacity would just be used up if forms could be cut."""
    left = problem.bounds[0]
    steps = chain(*(_steps(problem, group) for group in problem.groups))
    for price, tokens in sorted(steps, key=itemgetter(0), reverse=True):
        left -= tokens
        if left < 0:
            return price
    return 0.0


def _steps(problem: Problem, group: ColumnGroup) -> list[tuple[float, int]]:
    """Return density and tokens of the steps from nothing to a group in its largest useful forms."""
    values, amounts = problem.values, problem.amounts
    if len(group) == len(group[0]) == 1:  # nearly always
        ((column,),) = group
        return [(density(values[column], amounts[column][0]), amounts[column][0])]
    entities = [useful_forms(Form(column, amounts[column][0], values[column]) for column in own) for own in group]
    least, value = sum(own[0].tokens for own in entities), fsum(own[0].value for own in entities)
    larger = [(high.value - low.value, high.tokens - low.tokens) for own in entities for low, high in pairwise(own)]
    larger.sort(key=lambda step: density(*step), reverse=True)
    worths = [0.0, *accumulate((gain for gain, _ in larger), initial=value)]
    tokens = [0, *accumulate((cost for _, cost in larger), initial=least)]
    steps = ((worths[end] - worths[at], tokens[end] - tokens[at]) for at, end in pairwise(hull(tokens, worths)))
    return [(density(gain, cost), cost) for gain, cost in steps]


class _Filling:
    """A choice that grows within the maxima; the caller handles minima."""

    def __init__(self, found: Priced, start: Columns = ()) -> None:
        self._found = found
        self._problem = found.problem
        self._left = self._problem.bounds[: self._problem.maxima]
        self._choice: list[tuple[int, ...]] = [()] * len(self._problem.groups)
        for number, columns in enumerate(start):
            self._change(number, columns)

    def fill(self, order: Iterable[int]) -> Columns:
        """Take each group that adds value or costs nothing, in this order, then the larger forms there is room for."""
        values, amounts, groups = self._problem.values, self._problem.amounts, self._problem.groups
        for number in order:
            group = groups[number]
            if self._choice[number] or not self._is_useful(group):
                continue
            if not self._change(number, self._found.best(group)) and max(map(len, group)) > 1:
                cheapest = tuple(min(entity, key=lambda at: amounts[at][0]) for entity in group)
                if self._change(number, cheapest):
                    self._upgrade(number)
        losses = [
            (values[column] - max(values[at] for at in entity), number)
            for number, columns in enumerate(self._choice)
            for entity, column in zip(groups[number] if columns else (), columns, strict=True)
            if len(entity) > 1
        ]
        for _, number in sorted(losses):
            self._upgrade(number)
        return self._choice

    def _is_useful(self, group: ColumnGroup) -> bool:
        values, amounts = self._problem.values, self._problem.amounts
        if values[group[0][0]] or any(values[column] for column in chain(*group)):
            return True
        return not any(min(amounts[column][0] for column in entity) for entity in group)

    def _upgrade(self, number: int) -> None:
        """Give each entity of a group that is in the form of the greatest value that fits, if it is worth more."""
        values = self._problem.values
        for place, entity in enumerate(self._problem.groups[number]):
            now = self._choice[number]
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
        for column in self._choice[number]:
            left = map(add, left, amounts[column])
        left = [*left]
        if min(left) < 0:
            return False
        self._left, self._choice[number] = left, columns
        return True


def reach(value: int, gap: float) -> int:
    """Return the greatest bound for which a value is good enough."""
    return value + floor(value * gap / (1 - gap))


class Optimum(NamedTuple):
    """A choice, and a proof about all others."""

    choice: Columns
    value: int
    bound: int
    """The most that any choice is worth with as much of every minimum."""
    is_settled: bool = True
    """Whether it is proved that no minimum short of its amount could have more."""

    def proof(self, gap: float) -> Proof:
        """Return how the search ended."""
        if self.is_settled and self.bound <= reach(self.value, gap):
            return "optimal" if self.value == self.bound else "within gap"
        return "limit"

    def or_better(self, problem: Problem, choice: Columns) -> Optimum:
        """Return another choice with the same bound if it keeps the limits and is worth no less."""
        value = problem.value(choice)
        return self._replace(choice=choice, value=value) if value >= self.value and problem.keeps(choice) else self


def solve(problem: Problem, slicer: OptimalSlice) -> Optimum:
    """Choose; minima are kept in their order, each while the ones before it allow."""
    bounds, is_settled = [*problem.bounds], True
    choice: Columns = [()] * len(problem.groups)
    minima = range(problem.maxima, len(bounds))
    if minima:
        found = _priced(problem, exact=False)
        filled = _Filling(found).fill(found.minima_first())
        if problem.keeps(filled):
            choice, minima = filled, range(0)
    for row in minima:
        # Take as much as possible towards the minimum, until it is reached.
        towards = replace(problem, values=[-own[row] for own in problem.amounts], bounds=bounds[:row])
        best = _improve(towards, choice, -bounds[row], 0.0, slicer)
        choice, is_settled = best.choice, is_settled and best.bound <= best.value
        bounds[row] = max(bounds[row], -best.value)
    best = _improve(replace(problem, bounds=bounds), choice, problem.most(problem.values), slicer.gap, slicer)
    return best._replace(is_settled=is_settled)


def _improve(problem: Problem, choice: Columns, most: int, gap: float, slicer: OptimalSlice) -> Optimum:
    """Find a choice at least as good as one that keeps the limits; nothing is worth more than `most`."""
    found = _priced(problem, exact=slicer.exact)
    best = Optimum(choice, problem.value(choice), min(most, found.total >> _SHIFT))
    for filled in chain((choice,), _fillings(found, choice)):
        best = best.or_better(problem, filled)
        if best.bound <= reach(best.value, gap):
            return best
    return _branched(found, best, gap, slicer.max_core) if slicer.exact else best


def _priced(problem: Problem, *, exact: bool) -> Priced:
    """Price the limits by the relaxation; the capacity alone where that has to do."""
    if exact and len(problem.bounds) > 1:
        solved = run_solver(problem)
        if solved is not None:
            shares = [fsum(solved.shares[column] for column in group[0]) for group in problem.groups]
            return Priced(problem, solved.prices, shares)
    return Priced(problem, [price_of_capacity(problem)])


def _fillings(found: Priced, choice: Columns) -> Iterator[Columns]:
    """Yield what fits in the order, with the groups for minima first, and on top of a choice."""
    yield _Filling(found).fill(found.order)
    if len(found.problem.bounds) > found.problem.maxima:
        yield _Filling(found).fill(found.minima_first())
    if any(choice):
        yield _Filling(found, choice).fill(found.order)


def _branched(found: Priced, best: Optimum, gap: float, max_core: int) -> Optimum:
    """Let the solver decide the groups that the prices leave open."""
    more_than = reach(best.value, gap)
    core = found.core(more_than, best.choice)
    solved = run_solver(core, best.choice, gap) if core.size <= max_core else None
    if solved is None:
        return best
    choice = [tuple(column for column in chain(*group) if solved.shares[column] > _HALF) for group in core.groups]
    bound = floor(min(best.bound, max(more_than, solved.bound + _TOLERANCE)))
    best = best.or_better(found.problem, choice)  # rounding may have broken a limit
    return best._replace(bound=max(best.value, bound))


_HALF, _TOLERANCE = 0.5, 1e-3
_LARGEST = 1 << 30
"""Up to here whole numbers are far enough apart for the solver's own tolerances, whatever a float rounds."""


class Solved(NamedTuple):
    """A solution, the prices of the limits in a relaxation, and the solver's own bound."""

    shares: dict[int, float]
    prices: Sequence[float]
    bound: float
    """Infinite if floats do not hold all numbers and their sums without doubt."""


Row: TypeAlias = "tuple[dict[int, int], float, float]"
"""The factors of columns, and the least and the most of their sum."""


def rows(problem: Problem) -> Iterator[Row]:
    """Yield what ties the columns of groups together, and then the limits."""
    for number, group in enumerate(problem.groups):
        first, *others = group or ((),)
        if number in problem.forced or len(first) > 1:
            yield dict.fromkeys(first, 1), float(number in problem.forced), 1.0
        for entity in others:  # every entity is in as much as the first
            yield {**dict.fromkeys(entity, 1), **dict.fromkeys(first, -1)}, 0.0, 0.0
    columns = [*chain(*chain(*problem.groups))]
    for row, bound in enumerate(problem.bounds):
        yield {column: own for column in columns if (own := problem.amounts[column][row])}, -inf, float(bound)


def load_solver() -> Any:
    """Return the solver's module."""
    try:
        import highspy  # an extra, and slow to import
    except ImportError:
        raise MissingExtraError("highspy", "optimal") from None
    return highspy


def run_solver(problem: Problem, start: Columns | None = None, gap: float = 0.0) -> Solved | None:
    """Solve the relaxation, or from a known choice in whole columns; None if HiGHS failed, which proves nothing."""
    columns = [*chain(*chain(*problem.groups))]
    count, places = len(columns), {column: place for place, column in enumerate(columns)}
    values, all_rows = [problem.values[column] for column in columns], [*rows(problem)]
    scale = max(1.0, max(values, default=0) / _LARGEST)
    highspy = load_solver()
    options: dict[str, Any] = {"output_flag": False, "parallel": "off", "random_seed": 0}
    if start is None:  # the dense row of the capacity makes presolve most of a relaxation's time
        options |= {"presolve": "off", "solver": "simplex"}
    else:
        options |= dict.fromkeys(("mip_feasibility_tolerance", "primal_feasibility_tolerance"), 1e-9)
        options |= {"mip_rel_gap": gap, "mip_abs_gap": 0.5}
    for threads in (1, 0):  # one thread fails where other code in the process has started HiGHS with more
        solver = highspy.Highs()
        for name, value in {**options, "threads": threads}.items():
            solver.setOptionValue(name, value)
        solver.addVars(count, [0.0] * count, [1.0] * count)
        solver.changeColsCost(count, range(count), [-value / scale for value in values])  # HiGHS minimises
        for factors, least, most in all_rows:
            solver.addRow(least, most, len(factors), [places[column] for column in factors], [*factors.values()])
        if start is not None:
            solver.changeColsIntegrality(count, range(count), [int(highspy.HighsVarType.kInteger)] * count)
            known, taken = highspy.HighsSolution(), {*chain(*start)}
            known.col_value = [float(column in taken) for column in columns]
            solver.setSolution(known)
        is_complete = solver.getNumRow() == len(all_rows)  # HiGHS refuses factors from 10^15 up
        is_error = solver.run() == highspy.HighsStatus.kError
        if is_complete and not is_error and solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            found = solver.getSolution()
            prices = [-price * scale for price in found.row_dual][-len(problem.bounds) :]
            largest = max(map(abs, chain(values, *(factors.values() for factors, _, _ in all_rows))), default=0)
            is_exact = largest <= _LARGEST and largest * len(values) <= _LARGEST << 10
            bound = -solver.getInfo().mip_dual_bound if is_exact else inf
            return Solved(dict(zip(columns, found.col_value, strict=True)), prices, bound)
    return None
