"""The rules that tie blocks together, each as a sum that must not exceed a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cupel._optimum._problem import Problem

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
    for floor in problem.floors:
        if floor.in_tokens:
            rows.append(Row(-floor.amount, kind=floor.kind, sign=-1))
        else:
            rows.append(Row(-floor.amount, _counts(problem, floor.kind, -1)))
    return rows


def _counts(problem: Problem, kind: int, sign: int) -> tuple[tuple[int, int], ...]:
    """Return the blocks with members of a kind, and how many, with a sign."""
    counts = (sum(member.kind == kind for member in block.members) for block in problem.blocks)
    return tuple((number, sign * count) for number, count in enumerate(counts) if count)
