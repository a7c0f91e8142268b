"""Strict alternation, for chat templates that refuse two messages of one side in a row."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from cupel.messages._unit import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.messages._reading import Reading
    from cupel.messages._unit import Unit

UNANSWERED = "alternation: another user message follows without an answer between"
UNFINISHED = "alternation: another assistant message follows"
IN_A_ROW = "alternation: messages of one side in a row that cannot be parted"


def alternating(units: Sequence[Unit], readings: Sequence[Reading], *, results_are_user: bool) -> list[Unit]:
    """Return the units with every question joined to its answer; the calls in between need both, but can go.

    Any selection of such units alternates. What cannot stand in any alternating sequence is marked. Calls and results
    in messages of their own are steps on the way to the answer and count for neither side, unless `results_are_user`.
    """
    turns: list[list[Unit]] = [[]]
    for unit in units:
        sides = _sides(unit, readings, results_are_user=results_are_user)
        if any(one == other for one, other in pairwise(sides)):
            unit.spoil(IN_A_ROW)
        if unit.role == "system" or unit.flaw:
            continue
        if unit.opens == "user":
            turns.append([])
        turns[-1].append(unit)
    joined = {id(answer) for turn in turns[1:] if (answer := _join(turn, readings, last=turn is turns[-1]))}
    return in_order(unit for unit in units if id(unit) not in joined)


def _sides(unit: Unit, readings: Sequence[Reading], *, results_are_user: bool) -> list[bool]:
    """Whose turn each of a unit's messages is that counts for a turn: True for the assistant's."""
    members = [readings[position] for position in unit.positions]
    counted = members if results_are_user else [one for one in members if one.speaks and not one.calls]
    return [member.role == "assistant" for member in counted if member.role != "system"]


def _join(turn: list[Unit], readings: Sequence[Reading], *, last: bool) -> Unit | None:
    """Join a turn's question with its answer and return the answer, if it has one."""
    question, *steps = turn
    saying = [step for step in steps if True in _sides(step, readings, results_are_user=False)]
    for step in saying:
        if step is not steps[-1]:
            step.spoil(UNFINISHED)
    answer = steps[-1] if steps and steps[-1] in saying else None
    if answer is None and not last:
        for unit in turn:
            unit.spoil(UNANSWERED)
        return None
    for step in steps:
        step.requires = (*step.requires, question.positions[0])
    if answer is not None:
        question.absorb(answer, readings)
    return answer
