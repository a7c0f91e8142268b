"""How Anthropic messages hang together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.integrations.messages._hosted import hold_hosted
from cupel.integrations.messages._reading import NO_CALL, NO_RESULT, TWO_CALLS
from cupel.integrations.messages._unit import Unit, forbid_repeated_calls, holders, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.integrations.messages._reading import Reading


def group(readings: Sequence[Reading]) -> list[Unit]:
    """Assistant turns with the results of their calls, work of server tools from beginning to end, other messages."""
    units = hold_hosted(_turns(readings), readings)
    forbid_repeated_calls(units, readings)
    _forbid_blank_end(units, readings)
    _place_system(units, readings)
    return units


def _turns(readings: Sequence[Reading]) -> list[Unit]:
    units: list[Unit] = []
    position = 0
    while position < len(readings):
        start = position
        if readings[start].role != "assistant":
            units.append(unit_of([start], readings, NO_CALL if readings[start].role == "tool" else None))
            position += 1
            continue
        # The provider joins neighbours of one role, so a run of assistant messages is one turn.
        while position < len(readings) and readings[position].role == "assistant":
            position += 1
        calls = [call for at in range(start, position) for call in readings[at].calls]
        end = position
        while calls and position < len(readings) and readings[position].role == "tool":
            position += 1
        results = [result for at in range(end, position) for result in readings[at].results]
        flaw = _turn_flaw(calls, results, ends_thinking=readings[end - 1].ends_thinking)
        units.append(unit_of(list(range(start, position)), readings, flaw))
    return units


def _turn_flaw(calls: list[str], results: list[str], *, ends_thinking: bool) -> str | None:
    if len(set(calls)) < len(calls):
        return TWO_CALLS
    if len(set(results)) < len(results):
        return "two results for one call"
    if set(calls) - set(results):
        return NO_RESULT
    if set(results) - set(calls):
        return NO_CALL
    return "thinking without the block that must follow it" if ends_thinking else None


def _forbid_blank_end(units: Sequence[Unit], readings: Sequence[Reading]) -> None:
    """A final assistant message is continued by the model and must not end in white space."""
    if units and units[-1].closes == "assistant" and readings[-1].ends_blank:
        units[-1].spoil("a final assistant text that ends in white space")


def _place_system(units: Sequence[Unit], readings: Sequence[Reading]) -> None:
    """A system message needs its neighbours: it must follow a user turn, and precede an assistant turn or the end."""
    holder = holders(units)
    end = max((position for position, unit in holder.items() if unit.flaw is None), default=-1)
    for position, reading in enumerate(readings):
        unit = holder[position]
        if reading.role != "system" or unit.flaw:
            continue
        last = position >= end
        if position == 0 or readings[position - 1].role not in ("user", "tool"):
            unit.spoil("a system message that follows no user turn")
        elif not last and readings[position + 1].role != "assistant":
            unit.spoil("a system message that precedes no assistant turn")
        unit.requires = (position - 1,) if last else (position - 1, position + 1)
