"""What a way sends on one turn, and what it says about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cupel._checks import as_list
from cupel.messages import Fitted
from cupel.messages import Turn as SessionTurn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Note:
    """Why some messages of the history do not stand in a request as they stood in the one before."""

    positions: tuple[int, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Request:
    """The messages of a request, where they stood in the recording, and what the way says about them."""

    messages: tuple[Any, ...]
    positions: tuple[int | None, ...]
    """The place of each message in the recording; None for one that the way brought itself."""
    reason: str = ""
    notes: tuple[Note, ...] = ()


def request_of(filled: Sequence[Any] | Fitted[Any], history: Sequence[Any], before: Request | None) -> Request:
    """Return the request that a way filled for a history; `before` is the last one of the conversation."""
    if not isinstance(filled, Fitted):
        places = {id(message): at for at, message in enumerate(history)}
        messages = tuple(as_list("what a way filled", filled, "a list of messages, or what fit returned"))
        return Request(messages, tuple(places.get(id(message)) for message in messages))
    dropped = {at for unit in filled.dropped for at in unit.positions}
    kept = tuple(at for at in range(len(history)) if at not in dropped)
    if isinstance(filled, SessionTurn):
        notes = tuple(Note(change.positions, str(change)) for change in filled.changes)
        return Request(tuple(filled.messages), kept, filled.reason, notes)
    stood: frozenset[int | None] = frozenset() if before is None else frozenset(before.positions)
    return Request(tuple(filled.messages), kept, notes=tuple(_leaving(filled, stood)))


def _leaving(fitted: Fitted[Any], stood: Collection[int | None]) -> Iterator[Note]:
    """Yield the reason of each unit that stood in the last request and does not in this one."""
    for unit in fitted.dropped:
        if any(at in stood for at in unit.positions):
            yield Note(unit.positions, unit.reason.say())
