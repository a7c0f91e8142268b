"""Work on the provider's side: server tools, and code that calls the caller's tools.

Such work begins in one message of the model and may end in a later one, with results of calls that it made in between.
From beginning to end it is one unit. Without its end it can only be sent where the next request goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupel.messages._plain import fields
from cupel.messages._units import TWO_CALLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.messages._plain import JSON
    from cupel.messages._units import Message, Unit

NO_END = "a server tool call without its result"
NO_BEGINNING = "a server tool result without its call"
NO_CODE = "a call by code that is missing"
WORDS = "the user's words where only results may be, while code or a server tool is at work"
_BEGINNINGS = frozenset(("server_tool_use", "mcp_tool_use"))


def note_server_work(block: JSON, info: Message) -> None:
    """Note in `info` the work on the provider's side that a content block begins, ends or calls for."""
    kind, caller = str(block.get("type")), fields(block.get("caller"))
    if kind in _BEGINNINGS:
        _begin(str(block.get("id")), info)
    elif kind.endswith("_tool_result") and block.get("tool_use_id") is not None:
        _end(str(block["tool_use_id"]), info)
    elif kind == "tool_use" and "tool_id" in caller:
        info.within.append(str(caller["tool_id"]))


def _begin(work: str, info: Message) -> None:
    if info.role != "assistant":
        info.reject(f"a server tool call in a message of role {info.role}")
    if work in info.begun:
        info.reject(TWO_CALLS)
    info.begun.append(work)


def _end(work: str, info: Message) -> None:
    if info.role != "assistant":
        info.reject(f"a server tool result in a message of role {info.role}")
    if work in info.begun:
        info.begun.remove(work)
    else:
        info.ended.append(work)


def join_server_work(units: Sequence[Unit], infos: Sequence[Message]) -> list[Unit]:
    """Return the units, those that hold the beginning, the calls and the end of one work joined, rejections noted."""
    if not any(info.begun or info.ended or info.within for info in infos):
        return list(units)
    kept: list[Unit] = []
    worker: Unit | None = None
    open_work: set[str] = set()
    for unit in units:
        members = [infos[position] for position in unit.positions]
        if unit.role == "system" or (unit.rejection and not any(member.begun or member.ended for member in members)):
            kept.append(unit)
            continue
        continued = any(open_work.intersection([*member.ended, *member.within]) for member in members)
        if worker is not None and open_work and not continued:
            worker.reject(NO_END)
            open_work = set()
        open_work = _follow(unit, members, open_work)
        if worker is not None and continued:
            worker.absorb(unit, infos)
        else:
            worker = unit
            kept.append(unit)
    if worker is not None and open_work:
        worker.waiting = True
    return kept


def _follow(unit: Unit, members: Sequence[Message], open_work: set[str]) -> set[str]:
    """Return the work that is still open after a unit, its rejections noted."""
    for member in members:
        if not open_work.issuperset(member.ended):
            unit.reject(NO_BEGINNING)
        open_work = open_work.difference(member.ended)
        if not open_work.isdisjoint(member.begun):
            unit.reject(TWO_CALLS)
        open_work = open_work.union(member.begun)
        if not open_work.issuperset(member.within):
            unit.reject(NO_CODE)
    by_code = open_work or any(member.within for member in members)
    if by_code and any(member.results and member.speaks for member in members):
        unit.reject(WORDS)
    return open_work
