"""Ids of the texts of a history, by which a model asks for those that a request omits."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from cupel.messages._formats import OUTPUTS, PROSE
from cupel.messages._notes import OmittedStep, step_of, without_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.messages._plain import JSON
    from cupel.messages._reading import HistoryReader
    from cupel.messages._units import Message

RECALL_TOOL: Final[JSON] = {
    "name": "recall",
    "description": (
        "Get back text of this conversation that was omitted. Give the id after # in [cupel: …], optionally with the "
        "line to begin at or text to find in it; text alone searches everything omitted."
    ),
    "parameters": {
        "type": "object",
        "properties": {"id": {"type": "string"}, "line": {"type": "integer"}, "text": {"type": "string"}},
    },
}
"""The tool, as a declaration of a function; a format's `tool` spells it."""
MESSAGE: Final = 0
"""The number of the id of a whole message."""
UNTIL: Final = 1
"""The number of the id of all steps up to a message; those of several texts in it follow."""
_DIGITS: Final = 5
_MARKER: Final = re.compile(r"(\[cupel: [^\[\]\n]* omitted)\]")


class Ids:
    """The ids of one history, made in its order when one is first asked for.

    An id is the beginning of a hash over a message and how often it has occurred: the same in every process, and after
    other messages were removed. It is longer where an earlier id begins like it.
    """

    def __init__(self, reader: HistoryReader, messages: Sequence[Any] = ()) -> None:
        self._reader = reader
        self.follow(messages, 0)

    def follow(self, messages: Sequence[Any], same: int) -> None:
        """Go on with a history whose first messages are the same as before; begin anew if fewer are than were read."""
        self._messages = messages
        if not same or same < len(self._names):
            self._names: list[list[str]] = []
            self._places: dict[str, tuple[str, int, int]] = {}
            self._seen = Counter[str]()

    def name(self, at: int, number: int = MESSAGE) -> str:
        """Return the id of a message, of all steps up to it, or of one of its texts."""
        self._read(at + 1)
        return self._names[at][number]

    def names(self, message: Message) -> list[str]:
        """Return the ids of the texts of a message."""
        self._read(message.at + 1)
        own = self._names[message.at]
        return own[UNTIL + 1 :] or own[:1]

    def place(self, name: str) -> tuple[int, int] | None:
        """Return the position and the number that an id stands for, with digits that it needs no more; None if none."""
        self._read(len(self._messages))
        found = (self._places.get(name[:size]) for size in range(len(name), _DIGITS - 1, -1))
        return next(((at, number) for digits, at, number in filter(None, found) if digits.startswith(name)), None)

    def _read(self, end: int) -> None:
        positions = range(len(self._names), end)
        for message in self._reader.read(self._messages, positions, more=True) if positions else ():
            self._seen[message.digest] += 1
            texts = len(originals(message, self._reader))
            numbers = range(UNTIL + 1 + (texts if texts > 1 else 0))
            self._names.append([self._new(message, number) for number in numbers])

    def _new(self, message: Message, number: int) -> str:
        text = f"{message.digest} {self._seen[message.digest]} {number}"
        digits = blake2b(text.encode(), digest_size=16).hexdigest()
        name = next(digits[:size] for size in range(_DIGITS, len(digits)) if digits[:size] not in self._places)
        self._places[name] = digits, message.at, number
        return name


def originals(message: Message, reader: HistoryReader) -> list[str]:
    """Return the texts of a message that have ids, as they came: outputs, the user's words, or all it says."""
    fmt = reader.format
    assert fmt is not None  # noqa: S101  (a message was read)
    if message.role == "assistant":
        calls = zip(message.tools, message.arguments, strict=False)
        said = [*fmt.texts_in(message.view, PROSE), *(f"{tool} {arguments}" for tool, arguments in calls)]
        return ["\n".join(filter(None, said if message.tools else message.texts))]
    view = without_note(fmt.normal(message.raw), fmt, reader.own)
    return fmt.texts_in(view, OUTPUTS if message.results else PROSE) or [message.text]


def parted(members: Sequence[Message], reader: HistoryReader) -> tuple[Message, list[Message]]:
    """Return the message of a unit whose id stands for all of it, and the others that have texts."""
    first = next((one for one in members if one.calls), members[0])
    return first, [one for one in members if one is not first and any(originals(one, reader))]


def noted_step(members: Sequence[Message], reader: HistoryReader) -> OmittedStep:
    """Return what a note says of a unit: with its id, if notes have ids.

    That is the id of its only output, if the line says all that there is beside it.
    """
    fmt, ids = reader.format, reader.ids
    assert fmt is not None  # noqa: S101  (a message was read)
    places, views = tuple(one.at for one in members), [one.view for one in members]
    if ids is None:
        return step_of(places, views, fmt, reader.counter)
    first, others = parted(members, reader)
    step = step_of(places, views, fmt, reader.counter, ids.name(first.at))
    if len(others) != 1 or step.lines[0].endswith("…") or (first.calls and fmt.said(first.view)[1].strip()):
        return step
    return step_of(places, views, fmt, reader.counter, ids.name(others[0].at))


def with_ids(form: str, name: str) -> str:
    """Return a shorter form of a text with its id in each marker; a form without a marker gets one."""
    marked, count = _MARKER.subn(rf"\1, #{name}]", form, count=1)
    return marked if count or not form else f"{form}\n[cupel: partly omitted, #{name}]"
