"""Work on the provider's side: server tools, and code that calls the caller's tools.

Such work begins in one message of the model and may end in a later one, with results of calls that it made in between.
From beginning to end it is one unit. Without its end it can only be sent where the next request goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.messages._plain import fields
from cupel.messages._reading import TWO_CALLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.messages._plain import JSON
    from cupel.messages._reading import Reading
    from cupel.messages._unit import Unit

NO_END = "a server tool call without its result"
NO_BEGINNING = "a server tool result without its call"
NO_CODE = "a call by code that is missing"
WORDS = "the user's words where only results may stand, while code or a server tool is at work"
_BEGINNINGS = frozenset(("server_tool_use", "mcp_tool_use"))


def note_hosted(block: JSON, reading: Reading) -> None:
    """Note in `reading` what a content block of the model begins, ends or calls on the provider's side."""
    kind, caller = str(block.get("type")), fields(block.get("caller"))
    if kind in _BEGINNINGS:
        _begin(str(block.get("id")), reading)
    elif kind.endswith("_tool_result") and block.get("tool_use_id") is not None:
        _end(str(block["tool_use_id"]), reading)
    elif kind == "tool_use" and "tool_id" in caller:
        reading.within.append(str(caller["tool_id"]))


def _begin(work: str, reading: Reading) -> None:
    if reading.role != "assistant":
        reading.spoil(f"a server tool call in a message of role {reading.role}")
    if work in reading.begun:
        reading.spoil(TWO_CALLS)
    reading.begun.append(work)


def _end(work: str, reading: Reading) -> None:
    if reading.role != "assistant":
        reading.spoil(f"a server tool result in a message of role {reading.role}")
    if work in reading.begun:
        reading.begun.remove(work)
    else:
        reading.ended.append(work)


def hold_hosted(units: Sequence[Unit], readings: Sequence[Reading]) -> list[Unit]:
    """Return the units, those that hold the beginning, the calls and the end of one work joined, flaws marked."""
    if not any(reading.begun or reading.ended or reading.within for reading in readings):
        return list(units)
    kept: list[Unit] = []
    worker: Unit | None = None
    open_work: set[str] = set()
    for unit in units:
        members = [readings[position] for position in unit.positions]
        if unit.role == "system" or (unit.flaw and not any(member.begun or member.ended for member in members)):
            kept.append(unit)
            continue
        continued = any(open_work.intersection([*member.ended, *member.within]) for member in members)
        if worker is not None and open_work and not continued:
            worker.spoil(NO_END)
            open_work = set()
        open_work = _follow(unit, members, open_work)
        if worker is not None and continued:
            worker.absorb(unit, readings)
        else:
            worker = unit
            kept.append(unit)
    if worker is not None and open_work:
        worker.waiting = True
    return kept


def _follow(unit: Unit, members: Sequence[Reading], open_work: set[str]) -> set[str]:
    """Return what is still open behind a unit, its flaws marked."""
    for member in members:
        if not open_work.issuperset(member.ended):
            unit.spoil(NO_BEGINNING)
        open_work = open_work.difference(member.ended).union(member.begun)
        if not open_work.issuperset(member.within):
            unit.spoil(NO_CODE)
    by_code = open_work or any(member.within for member in members)
    if by_code and any(member.results and member.speaks for member in members):
        unit.spoil(WORDS)
    return open_work
