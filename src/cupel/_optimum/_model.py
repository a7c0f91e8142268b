"""A problem, or what of it is undecided, as the matrix of a solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cupel._optimum._rows import EVERY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel._optimum._prices import Core
    from cupel._optimum._problem import Block, Choice, Member, Problem
    from cupel._optimum._rows import Row

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
