"""Ids for the calls of frameworks that do not always have any."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class CallIds:
    """Ids for calls and their results, message by message.

    A call without an id is known by its place in its message. A result answers the call whose id it gives, or else the
    first that still waits and is the same call: equal calls are answered in their order.

    >>> ids = CallIds()
    >>> ids.ask([(None, "roll"), (None, "roll")]), ids.answer(None, "roll"), ids.answer(None, "roll")
    (['call 0', 'call 1'], 'call 0', 'call 1')
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[str, object]] = []

    def ask(self, calls: Iterable[tuple[str | None, object]]) -> list[str]:
        """Return the ids of a message's calls, each given as its id, if it has one, and what it is."""
        self._waiting = [(key or f"call {place}", call) for place, (key, call) in enumerate(calls)]
        return [key for key, _ in self._waiting]

    def answer(self, key: str | None, call: object = None) -> str:
        """Return the id of the call that a result answers; without `call` any that waits will do."""
        found = [one for one in self._waiting if one[0] == key] if key else []
        found = found or [one for one in self._waiting if call is None or one[1] == call]
        if not found:
            return str(key)
        self._waiting.remove(found[0])
        return found[0][0]
