"""How Responses items hang together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cupel.integrations.messages._reading import NO_CALL, NO_RESULT
from cupel.integrations.messages._unit import Unit, forbid_repeated_calls, holders, in_order, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.integrations.messages._reading import Reading

NO_PROGRAM = "a call by a program that is missing"
REPEATED_ID = "a newer item has the same id"


def group(readings: Sequence[Reading]) -> list[Unit]:
    """Runs of model items with the results of their calls, programs with theirs; every other item by itself.

    A run is what the model said between two inputs. Reasoning must be followed by what it led to, and what it led to
    must be preceded by it, so a run that holds reasoning stands or falls whole; and so does a program with every run
    that it called from.
    """
    readings = _without_repeated_ids(readings)
    answers = _pair(readings)
    answered = set(answers.values())
    units: list[Unit] = []
    position = 0
    while position < len(readings):
        if readings[position].role != "assistant":
            if position not in answered:
                units.append(unit_of([position], readings, NO_CALL if readings[position].results else None))
            position += 1
            continue
        end = position
        while end < len(readings) and readings[end].role == "assistant":
            end += 1
        units += _run(position, end, readings, answers)
        position = end
    units = _hold_programs(in_order(units), readings)
    forbid_repeated_calls(units, readings)
    _forbid_open_programs(units, readings, answers)
    return units


def _without_repeated_ids(readings: Sequence[Reading]) -> list[Reading]:
    """Items have ids of their own, which must differ: of two with one id only the newest can be sent."""
    seen: set[str] = set()
    checked: list[Reading] = []
    for reading in reversed(readings):
        repeated = reading.item_id in seen
        checked.append(replace(reading, flaw=reading.flaw or REPEATED_ID) if repeated else reading)
        if reading.item_id is not None:
            seen.add(reading.item_id)
    return checked[::-1]


def _pair(readings: Sequence[Reading]) -> dict[int, int]:
    """Return for each answered call its result's position: the nearest that asked, wherever it stands."""
    open_calls: dict[str, list[int]] = {}
    answers: dict[int, int] = {}
    for position, reading in enumerate(readings):
        if reading.flaw is not None:
            continue
        for call in reading.calls:
            open_calls.setdefault(call, []).append(position)
        for result in reading.results:
            if open_calls.get(result):
                answers[open_calls[result].pop()] = position
    return answers


def _run(start: int, end: int, readings: Sequence[Reading], answers: dict[int, int]) -> list[Unit]:
    units: list[Unit] = []
    while end > start and readings[end - 1].ends_thinking:
        end -= 1
        units.append(unit_of([end], readings, "reasoning without the item that must follow it"))
    unanswered = {at for at in range(start, end) if readings[at].calls and at not in answers}
    unanswered -= {at for at in unanswered if readings[at].begun}  # a program may go on with the next request
    whole = any(readings[at].opens_thinking for at in range(start, end))
    kept = [at for at in range(start, end) if whole or (at not in unanswered and readings[at].flaw is None)]
    if not whole:
        units += [
            unit_of([at], readings, NO_RESULT if at in unanswered else None)
            for at in range(start, end)
            if at not in kept
        ]
    if kept:
        results = [answers[at] for at in kept if at in answers]
        flaw = NO_RESULT if whole and unanswered else None
        units.append(unit_of(sorted([*kept, *results]), readings, flaw))
    return units


def _hold_programs(units: Sequence[Unit], readings: Sequence[Reading]) -> list[Unit]:
    """Join the calls that a program made to the program."""
    holder = holders(units)
    programs: dict[str, int] = {}
    for position, reading in enumerate(readings):
        programs |= dict.fromkeys(reading.begun, position)
        for program in reading.within:
            calling = holder[position]
            if program not in programs:
                calling.spoil(NO_PROGRAM)
            elif (whole := holder[programs[program]]) is not calling:
                whole.absorb(calling, readings)
                holder |= dict.fromkeys(calling.positions, whole)
    return in_order(holder.values())


def _forbid_open_programs(units: Sequence[Unit], readings: Sequence[Reading], answers: dict[int, int]) -> None:
    """A program without an output has calls that were answered, and nothing comes after it but the next request."""
    end = max((unit.positions[-1] for unit in units if unit.flaw is None and unit.role != "system"), default=-1)
    for unit in units:
        if all(at in answers for at in unit.positions if readings[at].begun):
            continue
        unit.waiting = unit.positions[-1] == end and readings[end].role == "tool"
        if not unit.waiting:
            unit.spoil(NO_RESULT)
