"""How Anthropic messages hang together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.integrations.messages._ends import Ends
from cupel.integrations.messages._unit import Unit, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.integrations.messages._reading import Reading


def group(readings: Sequence[Reading]) -> list[Unit]:
    """Assistant turns with the results of their calls, user messages, and system messages with both neighbours."""
    units = _turns(readings)
    _forbid_repeated_calls(units, readings)
    _forbid_blank_end(units, readings)
    units = _hold_thinking(units, readings)
    _open_with_thinking(units, readings)
    Ends.strict(len(readings)).spoil(units)
    return _hold_system(units, readings)


def _turns(readings: Sequence[Reading]) -> list[Unit]:
    units: list[Unit] = []
    position = 0
    while position < len(readings):
        start = position
        if readings[start].role != "assistant":
            orphan = "result without its call" if readings[start].role == "tool" else None
            units.append(unit_of([start], readings, orphan))
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
        return "two calls with one id"
    if len(set(results)) < len(results):
        return "two results for one call"
    if set(calls) - set(results):
        return "call without its result"
    if set(results) - set(calls):
        return "result without its call"
    return "thinking without the block that must follow it" if ends_thinking else None


def _forbid_repeated_calls(units: list[Unit], readings: Sequence[Reading]) -> None:
    """Ids must be unique in a request: of two exchanges with one id only the first can be sent."""
    seen: set[str] = set()
    for unit in units:
        calls = {call for position in unit.positions for call in readings[position].calls}
        if unit.flaw is None and calls & seen:
            unit.flaw = "two calls with one id"
        if unit.flaw is None:
            seen |= calls


def _forbid_blank_end(units: list[Unit], readings: Sequence[Reading]) -> None:
    """A final assistant message is continued by the model and must not end in white space."""
    if units and units[-1].closes == "assistant" and readings[-1].ends_blank:
        units[-1].flaw = units[-1].flaw or "a final assistant text that ends in white space"


def _hold_thinking(units: list[Unit], readings: Sequence[Reading]) -> list[Unit]:
    """Join the steps of a tool loop to the thinking they continue.

    A turn lasts from one user message to the next. With thinking on, its tool steps must begin with thinking; what has
    none of its own continues the last that has, and as long as another step follows, can only be sent with it.
    """
    joined: set[int] = set()
    thinker: Unit | None = None
    following: list[Unit] = []
    for unit in units:
        if unit.opens == "user":
            thinker, following = None, []
        if unit.opens != "assistant":
            continue
        thinks = _thinks(unit, readings)
        if thinker is not None and not thinks and unit.flaw is None:
            following.append(unit)
        if thinker is not None and unit.role == "exchange" and unit.flaw is None:
            for part in following:
                thinker.absorb(part, readings)
                joined.add(id(part))
            following = []
        if thinks:
            thinker, following = unit, []
    return [unit for unit in units if id(unit) not in joined]


def _open_with_thinking(units: Sequence[Unit], readings: Sequence[Reading]) -> None:
    """Where the running turn begins with thinking, drop what an unsendable user message no longer parts from it."""
    last_user = max((at for at, unit in enumerate(units) if unit.opens == "user"), default=-1)
    turn = [unit for unit in units[last_user + 1 :] if unit.opens == "assistant"]
    if not turn or not _thinks(turn[0], readings):
        return
    last_sent = max((at for at, unit in enumerate(units) if unit.opens == "user" and unit.flaw is None), default=-1)
    for unit in units[last_sent + 1 : last_user + 1]:
        if unit.opens == "assistant" and not _thinks(unit, readings):
            unit.flaw = unit.flaw or "a turn without thinking that would run into one with it"


def _thinks(unit: Unit, readings: Sequence[Reading]) -> bool:
    return readings[unit.positions[0]].opens_thinking


def _hold_system(units: list[Unit], readings: Sequence[Reading]) -> list[Unit]:
    """Join a system message to its neighbours: it must follow a user turn, and precede an assistant turn or the end."""
    holder = {position: unit for unit in units for position in unit.positions}
    end = max((position for position, unit in holder.items() if unit.flaw is None), default=-1)
    for position, reading in enumerate(readings):
        unit = holder[position]
        if reading.role != "system" or unit.flaw:
            continue
        before = holder.get(position - 1)
        after = holder[position + 1] if position < end else None
        if before is None or before.flaw or readings[position - 1].role not in ("user", "tool"):
            unit.flaw = "a system message that follows no user turn"
        elif after is not None and (after.flaw or readings[position + 1].role != "assistant"):
            unit.flaw = "a system message that precedes no assistant turn"
        else:
            for part in (unit, after):
                if part is not None and part is not before:
                    before.absorb(part, readings)
                    holder.update(dict.fromkeys(part.positions, before))
    kept = {id(unit): unit for unit in holder.values()}
    return sorted(kept.values(), key=lambda unit: unit.positions[0])
