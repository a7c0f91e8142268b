"""The best total value under relations and limits for each kind, with a proven bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain
from math import floor, inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from cupel.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


Choice: TypeAlias = "list[tuple[int, ...] | None]"
"""For each block the place of the option taken for each member; None for a block that is out."""


class Option(NamedTuple):
    """One way for a member to be in."""

    value: int
    tokens: int
    position: int = 0
    """Which candidate this is."""


class Member(NamedTuple):
    """Something of which exactly one option is taken when its block is in."""

    options: tuple[Option, ...]
    kind: int = -1
    """The place of its kind in `Problem.caps`; -1 for a kind without limits."""


class Block(NamedTuple):
    """Members that are all in or all out."""

    members: tuple[Member, ...]
    needs: tuple[int, ...] = ()
    """Other blocks that must be in as well."""


class Cap(NamedTuple):
    """The most of one kind; None for no limit."""

    members: int | None = None
    tokens: int | None = None


class Floor(NamedTuple):
    """The least of one kind, counted in members or in tokens."""

    kind: int
    amount: int
    in_tokens: bool = False

    def measure(self, member: Member, option: Option) -> int:
        """Return what an option adds to it."""
        return 0 if member.kind != self.kind else option.tokens if self.in_tokens else 1


@dataclass(frozen=True)
class Problem:
    """Maximise the value of the options taken, in at most `capacity` tokens."""

    blocks: Sequence[Block]
    capacity: int
    exclusive: Sequence[tuple[int, ...]] = ()
    """Sets of blocks of which at most one may be in."""
    caps: Sequence[Cap] = ()
    floors: Sequence[Floor] = ()

    @cached_property
    def sets_of(self) -> dict[int, tuple[int, ...]]:
        """The exclusive sets of each block that is in any."""
        found: dict[int, tuple[int, ...]] = {}
        for number, blocks in enumerate(self.exclusive):
            for block in blocks:
                found[block] = (*found.get(block, ()), number)
        return found

    @cached_property
    def singles(self) -> list[Option | None]:
        """For each block its only option, if nothing but the capacity can keep it out."""
        sets = self.sets_of
        return [
            block.members[0].options[0]
            if len(block.members) == 1
            and len(block.members[0].options) == 1
            and block.members[0].kind < 0
            and not block.needs
            and number not in sets
            else None
            for number, block in enumerate(self.blocks)
        ]

    def taken(self, choice: Choice) -> Iterator[tuple[Member, Option]]:
        """Walk through what a choice takes."""
        for block, places in zip(self.blocks, choice, strict=True):
            if places is not None:
                for member, place in zip(block.members, places, strict=True):
                    yield member, member.options[place]

    def value(self, choice: Choice) -> int:
        """Return the total value of a choice."""
        return sum(option.value for _, option in self.taken(choice))

    def reached(self, floor: Floor, choice: Choice) -> int:
        """Return how much a choice has of what a floor asks for."""
        return sum(floor.measure(member, option) for member, option in self.taken(choice))

    def allows(self, choice: Choice) -> bool:
        """Tell whether a choice keeps every rule; read from the rules themselves, not from any solver's rows."""
        if sum(option.tokens for _, option in self.taken(choice)) > self.capacity:
            return False
        for block, places in zip(self.blocks, choice, strict=True):
            if places is not None and any(choice[other] is None for other in block.needs):
                return False
        if any(sum(choice[block] is not None for block in blocks) > 1 for blocks in self.exclusive):
            return False
        for kind, cap in enumerate(self.caps):
            costs = [option.tokens for member, option in self.taken(choice) if member.kind == kind]
            if (cap.members is not None and len(costs) > cap.members) or (
                cap.tokens is not None and sum(costs) > cap.tokens
            ):
                return False
        return self.reaches(choice)

    def reaches(self, choice: Choice) -> bool:
        """Tell whether a choice has as much as every floor asks for."""
        return all(self.reached(floor, choice) >= floor.amount for floor in self.floors)

    @property
    def value_of_everything(self) -> int:
        """What everything would be worth, if all of it could be in."""
        return sum(max(option.value for option in member.options) for block in self.blocks for member in block.members)

    def closure(self, block: int, present: Choice) -> list[int]:
        """Return a block and everything it needs that is not present, what is needed first."""
        needs = self.blocks[block].needs
        if not needs:
            return [block]
        missing: dict[int, None] = {}
        waiting = [block]
        while waiting:
            one = waiting.pop()
            if one not in missing and present[one] is None:
                missing[one] = None
                waiting.extend(self.blocks[one].needs)
        return list(reversed(missing))


def reduced(problem: Problem) -> Problem:
    """Leave out options that are too large for the capacity, and blocks that cannot be in without one.

    What a block needs must stand before it.
    """
    options = (option for block in problem.blocks for member in block.members for option in member.options)
    if all(option.tokens <= problem.capacity for option in options):
        return problem
    kept: list[Block] = []
    renamed: dict[int, int] = {}
    for number, block in enumerate(problem.blocks):
        members = block.members
        if any(option.tokens > problem.capacity for member in members for option in member.options):
            members = tuple(
                Member(tuple(option for option in member.options if option.tokens <= problem.capacity), member.kind)
                for member in members
            )
        if all(member.options for member in members) and all(other in renamed for other in block.needs):
            renamed[number] = len(kept)
            kept.append(Block(members, tuple(renamed[other] for other in block.needs)))
    exclusive = (tuple(renamed[block] for block in blocks if block in renamed) for blocks in problem.exclusive)
    return Problem(
        kept, problem.capacity, [blocks for blocks in exclusive if len(blocks) > 1], problem.caps, problem.floors
    )


EVERY = -2
"""In place of a kind: all of them."""


class Row(NamedTuple):
    """`sum of what is in <= most`: blocks with a factor each, or the tokens of a kind with one sign."""

    most: int
    blocks: tuple[tuple[int, int], ...] = ()
    kind: int = -1
    sign: int = 0


def rows_of(problem: Problem) -> list[Row]:
    """Return the rules of a problem, the capacity first; that a member has one option at most is not among them."""
    rows = [Row(problem.capacity, kind=EVERY, sign=1)]
    rows += [Row(0, ((number, 1), (other, -1))) for number, block in enumerate(problem.blocks) for other in block.needs]
    rows += [Row(1, tuple((block, 1) for block in blocks)) for blocks in problem.exclusive]
    for kind, cap in enumerate(problem.caps):
        if cap.members is not None:
            rows.append(Row(cap.members, _counts(problem, kind, 1)))
        if cap.tokens is not None:
            rows.append(Row(cap.tokens, kind=kind, sign=1))
    for least in problem.floors:
        if least.in_tokens:
            rows.append(Row(-least.amount, kind=least.kind, sign=-1))
        else:
            rows.append(Row(-least.amount, _counts(problem, least.kind, -1)))
    return rows


def _counts(problem: Problem, kind: int, sign: int) -> tuple[tuple[int, int], ...]:
    """Return the blocks with members of a kind, and how many, with a sign."""
    counts = (sum(member.kind == kind for member in block.members) for block in problem.blocks)
    return tuple((number, sign * count) for number, count in enumerate(counts) if count)


class Filling:
    """A choice that grows; floors are the caller's business."""

    def __init__(self, problem: Problem, start: Choice | None = None) -> None:
        self.choice: Choice = [None] * len(problem.blocks)
        self._problem = problem
        self._left = problem.capacity
        self._room = [[inf if most is None else most for most in cap] for cap in problem.caps]
        """For each kind the members and tokens that still fit."""
        self._taken_sets: set[int] = set()
        self._put({block: places for block, places in enumerate(start or ()) if places is not None})

    def fill(self, order: Iterable[int], best: Callable[[int], tuple[int, ...]]) -> None:
        """Take each block that adds value or costs nothing, in this order, then the larger forms there is room for."""
        choice, singles = self.choice, self._problem.singles
        for block in order:
            if choice[block] is not None:
                continue
            single = singles[block]
            if single is None:
                self._add(block, best)
            elif single.tokens <= self._left and (single.value or not single.tokens):
                choice[block] = (0,)
                self._left -= single.tokens
        self._upgrade_all()

    def _add(self, block: int, best: Callable[[int], tuple[int, ...]]) -> None:
        """Take a block with all it needs in their best options, or else in the largest that fit."""
        blocks = self._problem.closure(block, self.choice)
        if not self._is_worth_it(blocks) or not self._sets_allow(blocks):
            return
        wanted = {one: best(one) for one in blocks}
        if self._fits(wanted):
            self._put(wanted)
            return
        cheapest = {one: tuple(map(_cheapest, self._problem.blocks[one].members)) for one in blocks}
        if self._fits(cheapest):
            self._put(cheapest)
            for one in blocks:
                self._upgrade(one)

    def _is_worth_it(self, blocks: list[int]) -> bool:
        """Tell whether blocks add value or cost nothing."""
        members = [member for block in blocks for member in self._problem.blocks[block].members]
        return any(option.value for member in members for option in member.options) or not any(
            min(option.tokens for option in member.options) for member in members
        )

    def _sets_allow(self, blocks: list[int]) -> bool:
        sets = [one for block in blocks for one in self._problem.sets_of.get(block, ())]
        return len(set(sets)) == len(sets) and self._taken_sets.isdisjoint(sets)

    def _fits(self, taken: Mapping[int, tuple[int, ...]]) -> bool:
        left = self._left
        used: dict[int, tuple[int, int]] = {}
        for member, option in self._options(taken):
            left -= option.tokens
            if member.kind >= 0:
                members, tokens = used.get(member.kind, (0, 0))
                used[member.kind] = members + 1, tokens + option.tokens
        return left >= 0 and all(
            members <= self._room[kind][0] and tokens <= self._room[kind][1] for kind, (members, tokens) in used.items()
        )

    def _put(self, taken: Mapping[int, tuple[int, ...]]) -> None:
        for member, option in self._options(taken):
            self._spend(member.kind, 1, option.tokens)
        for block, places in taken.items():
            self.choice[block] = places
            self._taken_sets.update(self._problem.sets_of.get(block, ()))

    def _spend(self, kind: int, members: int, tokens: int) -> None:
        self._left -= tokens
        if kind >= 0:
            self._room[kind][0] -= members
            self._room[kind][1] -= tokens

    def _options(self, taken: Mapping[int, tuple[int, ...]]) -> Iterator[tuple[Member, Option]]:
        for block, places in taken.items():
            for member, place in zip(self._problem.blocks[block].members, places, strict=True):
                yield member, member.options[place]

    def _upgrade_all(self) -> None:
        """Change to options of more value where they fit, those with the greatest gain first."""
        steps: list[tuple[int, int]] = []
        for number, places in enumerate(self.choice):
            if places is not None:
                for member, place in zip(self._problem.blocks[number].members, places, strict=True):
                    if len(member.options) > 1:
                        top = max(option.value for option in member.options)
                        if top > member.options[place].value:
                            steps.append((member.options[place].value - top, number))
        for _, number in sorted(steps):
            self._upgrade(number)

    def _upgrade(self, block: int) -> None:
        """Give each member of a block that is in the option of the greatest value that fits, if it is worth more."""
        places = list(self.choice[block] or ())
        for number, (member, now) in enumerate(zip(self._problem.blocks[block].members, places, strict=True)):
            value, tokens, _ = member.options[now]
            for place in sorted(range(len(member.options)), key=lambda place: -member.options[place].value):
                option = member.options[place]
                if option.value <= value:
                    break
                extra = option.tokens - tokens
                if extra <= self._left and (member.kind < 0 or extra <= self._room[member.kind][1]):
                    self._spend(member.kind, 0, extra)
                    places[number] = place
                    break
        self.choice[block] = tuple(places)


def _cheapest(member: Member) -> int:
    return min(range(len(member.options)), key=lambda place: member.options[place].tokens)


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


_HALF = 0.5


class Line(NamedTuple):
    """A row of the matrix: `least <= sum of factor * column <= most`; no least where it is None."""

    columns: list[int]
    factors: list[int]
    most: int
    least: int | None = None


class Model:
    """Columns between 0 and 1.

    A block of one member with several options has a column for each. Any other block has one column for itself and all
    members with a single option, and further members have one for each option, which add up to the first. What is
    decided already has no column.
    """

    def __init__(self, problem: Problem, rows: Iterable[Row], core: Core | None = None) -> None:
        self.values: list[int] = []
        self.constant = 0
        """The value of what is decided."""
        self.lines: list[Line] = []
        self._tokens: dict[int, tuple[list[int], list[int]]] = {EVERY: ([], [])}
        """For each kind the columns with tokens of it, and how many."""
        self._decided_tokens: dict[int, int] = {}
        self._presence: list[list[int] | bool] = []
        """For each block the columns that add up to its being in, or whether it is in."""
        self._members: list[list[tuple[list[int], tuple[int, ...]]]] = []
        """For each block and member the columns of its options, none for a single one, and the options' places."""
        for number, block in enumerate(problem.blocks):
            options = core.options[number] if core is not None else _all_options(block)
            if options is None:
                self._presence.append(False)
                self._members.append([])
            else:
                self._add_block(block, options, is_in=core is not None and core.forced[number])
        self.first_rule = len(self.lines)
        """Where the lines of the rows given begin."""
        self.lines += map(self._rule, rows)

    def _add_block(self, block: Block, options: tuple[tuple[int, ...], ...], *, is_in: bool) -> None:
        pairs = list(zip(block.members, options, strict=True))
        single = [(member, places[0]) for member, places in pairs if len(places) == 1]
        head: int | None = None
        if is_in:
            self._decide(single)
        elif single or len(pairs) > 1:
            head = self._column(single)
        columns = [
            [self._column([(member, place)]) for place in places] if len(places) > 1 else list[int]()
            for member, places in pairs
        ]
        self._presence.append(is_in or ([head] if head is not None else columns[0]))
        self._members.append(list(zip(columns, options, strict=True)))
        for own in columns:
            if own and head is not None:
                self.lines.append(Line([*own, head], [1] * len(own) + [-1], 0, 0))
            elif own:
                self.lines.append(Line(own, [1] * len(own), 1, 1 if is_in else None))

    def _column(self, taken: list[tuple[Member, int]]) -> int:
        value, tokens = _sums(taken)
        column = len(self.values)
        self.values.append(value)
        for kind, cost in tokens.items():
            columns, costs = self._tokens.setdefault(kind, ([], []))
            columns.append(column)
            costs.append(cost)
        return column

    def _decide(self, taken: list[tuple[Member, int]]) -> None:
        value, tokens = _sums(taken)
        self.constant += value
        for kind, cost in tokens.items():
            self._decided_tokens[kind] = self._decided_tokens.get(kind, 0) + cost

    def _rule(self, row: Row) -> Line:
        if row.sign:
            costly, costs = self._tokens.get(row.kind, (list[int](), list[int]()))
            most = row.most - row.sign * self._decided_tokens.get(row.kind, 0)
            return Line(costly, [row.sign * cost for cost in costs], most)
        columns: list[int] = []
        factors: list[int] = []
        most = row.most
        for block, factor in row.blocks:
            presence = self._presence[block]
            if isinstance(presence, bool):
                most -= factor * presence
            else:
                columns += presence
                factors += [factor] * len(presence)
        return Line(columns, factors, most)

    def read(self, solution: Sequence[float]) -> Choice:
        """Return the choice that a solution stands for, rounded."""
        return [
            tuple(
                places[max(range(len(columns)), key=lambda place: solution[columns[place]])] if columns else places[0]
                for columns, places in members
            )
            if share > _HALF
            else None
            for share, members in zip(self.shares(solution), self._members, strict=True)
        ]

    def shares(self, solution: Sequence[float]) -> list[float]:
        """Return how much of each block a solution has."""
        return [
            float(presence) if isinstance(presence, bool) else sum(solution[column] for column in presence)
            for presence in self._presence
        ]

    def write(self, choice: Choice) -> list[float]:
        """Return a choice as a solution."""
        solution = [0.0] * len(self.values)
        for presence, members, taken in zip(self._presence, self._members, choice, strict=True):
            if taken is None:
                continue
            if not isinstance(presence, bool) and len(presence) == 1:
                solution[presence[0]] = 1.0
            for (columns, places), place in zip(members, taken, strict=True):
                if columns:
                    solution[columns[places.index(place)]] = 1.0
        return solution


def _all_options(block: Block) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(len(member.options))) for member in block.members)


def _sums(taken: list[tuple[Member, int]]) -> tuple[int, dict[int, int]]:
    """Add up the value, and the tokens of each kind and of all."""
    value = total = 0
    tokens: dict[int, int] = {}
    for member, place in taken:
        option = member.options[place]
        value += option.value
        total += option.tokens
        if member.kind >= 0:
            tokens[member.kind] = tokens.get(member.kind, 0) + option.tokens
    tokens[EVERY] = total
    return value, tokens


_TOLERANCE = 1e-9
_LARGEST = 1 << 30
"""Up to here whole numbers are far enough apart for the solver's own tolerances, whatever a float rounds."""


class Solved(NamedTuple):
    """What the solver found."""

    solution: Sequence[float]
    prices: Sequence[float]
    """For each line how much value one unit more of it would bring; of a relaxation only."""
    bound: float
    """What no solution exceeds, by the solver's own account."""


def check_solver() -> None:
    """Raise when the solver is not installed."""
    _highspy()


def is_exact_for(model: Model) -> bool:
    """Tell whether the solver's floats can hold the numbers of a model and their sums without doubt."""
    largest = max(map(abs, chain(model.values, *(line.factors for line in model.lines))), default=0)
    return largest * max(1, len(model.values)) <= _LARGEST << 10 and largest <= _LARGEST


def relax(model: Model) -> Solved | None:
    """Solve a model whose columns may be cut; None if the solver failed, which says nothing about the model."""
    # The dense row of the capacity makes presolve most of the time.
    return _run(model, {"presolve": "off", "solver": "simplex"})


def branch(model: Model, start: Sequence[float], gap: float) -> Solved | None:
    """Solve a model in whole columns, from a solution that is known; None if the solver failed."""
    options = {
        "mip_rel_gap": gap,
        "mip_abs_gap": 0.5,
        "mip_feasibility_tolerance": _TOLERANCE,
        "primal_feasibility_tolerance": _TOLERANCE,
    }
    return _run(model, options, start)


def _highspy() -> Any:
    try:
        import highspy  # an extra, and slow to import
    except ImportError:
        raise MissingExtraError("highspy", "optimal") from None
    return highspy


def _run(model: Model, options: Mapping[str, object], start: Sequence[float] | None = None) -> Solved | None:
    """Solve with one thread; where other code in the process has started HiGHS with more, with as many as that."""
    for threads in (1, 0):
        solved = _attempt(model, {**options, "threads": threads}, start)
        if solved is not None:
            return solved
    return None


def _attempt(model: Model, options: Mapping[str, object], start: Sequence[float] | None) -> Solved | None:
    highspy = _highspy()
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)  # noqa: FBT003
    for name, value in {"parallel": "off", "random_seed": 0, **options}.items():
        solver.setOptionValue(name, value)
    scale = max(1.0, max(map(abs, model.values), default=0) / _LARGEST)
    solver.passModel(_matrix(highspy, model, scale, is_whole=start is not None))
    if start is not None:
        known = highspy.HighsSolution()
        known.col_value = list(start)
        solver.setSolution(known)
    if solver.run() == highspy.HighsStatus.kError or solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    found, info = solver.getSolution(), solver.getInfo()
    bound = info.mip_dual_bound if start is not None else info.objective_function_value
    return Solved(found.col_value, [-price * scale for price in found.row_dual], -bound * scale)


def _matrix(highspy: Any, model: Model, scale: float, *, is_whole: bool) -> Any:
    """Write a model as the solver's, which minimises."""
    matrix = highspy.HighsLp()
    width, height = len(model.values), len(model.lines)
    matrix.num_col_, matrix.num_row_ = width, height
    matrix.col_cost_ = [-value / scale for value in model.values]
    matrix.offset_ = -model.constant / scale
    matrix.col_lower_ = [0.0] * width
    matrix.col_upper_ = [1.0] * width
    matrix.row_lower_ = [-highspy.kHighsInf if line.least is None else float(line.least) for line in model.lines]
    matrix.row_upper_ = [float(line.most) for line in model.lines]
    matrix.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    matrix.a_matrix_.num_col_, matrix.a_matrix_.num_row_ = width, height
    matrix.a_matrix_.start_ = [0, *accumulate(len(line.columns) for line in model.lines)]
    matrix.a_matrix_.index_ = list(chain.from_iterable(line.columns for line in model.lines))
    matrix.a_matrix_.value_ = [float(factor) for line in model.lines for factor in line.factors]
    if is_whole:
        matrix.integrality_ = [highspy.HighsVarType.kInteger] * width
    return matrix


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
