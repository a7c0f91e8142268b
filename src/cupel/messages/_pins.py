"""What the next request must contain.

The model is asked to go on, so it has to see what it is to answer: the newest thing the user said, the results that it
asked for and has not seen, and work that goes on with the next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cupel._checks import shown, wrong_type
from cupel.errors import ConfigurationError
from cupel.messages._unit import holders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.messages._reading import Reading
    from cupel.messages._unit import Unit

SystemMessages = Literal["keep", "compete"] | int
"""What becomes of system messages behind the opening ones: all stay, they compete, or only the newest so many stay."""

EXPIRED = "a system message that newer ones have replaced"


def keep_system(units: Sequence[Unit], readings: Sequence[Reading], which: SystemMessages) -> None:
    """Pin the system messages that open the conversation, and of the later ones those that the caller wants to keep."""
    _check(which)
    talk = min((at for at, reading in enumerate(readings) if reading.role != "system"), default=len(readings))
    later: list[Unit] = []
    for unit in units:
        if unit.role != "system" or unit.flaw is not None:
            continue
        if unit.positions[0] < talk or readings[unit.positions[0]].standing:
            unit.pin()
        else:
            later.append(unit)
    if which == "compete":
        return
    kept = len(later) if which == "keep" else min(which, len(later))
    for number, unit in enumerate(reversed(later)):
        if number < kept:
            unit.pin()
        else:
            unit.spoil(EXPIRED)


def _check(which: object) -> None:
    if isinstance(which, bool) or not isinstance(which, (int, str)):
        raise wrong_type("system_messages", "'keep', 'compete' or an integer", which)
    if isinstance(which, str) and which not in ("keep", "compete"):
        msg = f"system_messages must be 'keep', 'compete' or an integer, got {shown(which)}"
        raise ConfigurationError(msg)
    if isinstance(which, int) and which < 0:
        msg = f"system_messages must not be negative, got {which}"
        raise ConfigurationError(msg)


def pin_units(units: Sequence[Unit], readings: Sequence[Reading], asked: Sequence[bool]) -> None:
    """Pin what the next request must contain and what the caller asked for."""
    sendable = [unit for unit in units if unit.flaw is None]
    holder = holders(sendable)
    spoken = [at for at in holder if readings[at].speaks and readings[at].role in ("user", "tool")]
    if spoken:
        holder[max(spoken)].pin("the newest user message")
    last_word = max((position for position in holder if readings[position].role == "assistant"), default=-1)
    for position, unit in holder.items():
        if position > last_word and readings[position].results:
            unit.pin("results that the model has yet to see")
    for unit in sendable:
        if unit.waiting:
            unit.pin("work that goes on with this request")
        if any(asked[position] for position in unit.positions):
            unit.pin()
