"""Ids of the texts of a history, by which a model asks for those that a request omits.

An id is a position in the history, in disguise: it is written without reading or remembering anything, two texts never
share one, and it stays the same in every process, because a history only grows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from cupel.messages._formats import OUTPUTS, PROSE
from cupel.messages._notes import without_note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cupel.messages._formats import Format
    from cupel.messages._plain import JSON
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
_SIZE, _NUMBERS = 16**5, 4096
_FACTOR, _SHIFT = 0x9E377, 0x5A827
"""An odd factor makes five digits of any number below `_SIZE`, each once, and not in their order."""
_INVERSE = pow(_FACTOR, -1, _SIZE)
_ID = re.compile(r"([0-9a-f]{5})([0-9a-f]{0,12})")
_MARKER = re.compile(r"(\[cupel: [^\[\]\n]* omitted)\]")


class TextId(NamedTuple):
    """What an id stands for: a message, one of several texts of it (from 1), or all messages before it."""

    at: int
    number: int = 0
    is_group: bool = False

    @property
    def name(self) -> str:
        """The id: five digits, more for one of several texts.

        >>> TextId(7).name, TextId(7, 2).name, TextId(8).name, TextId.of("018a92")
        ('018a9', '018a92', '3df97', TextId(at=7, number=2, is_group=False))
        """
        high, low = divmod(2 * self.at + self.is_group, _SIZE)
        rest = high * _NUMBERS + (self.number if self.number < _NUMBERS else 0)
        return f"{(low * _FACTOR + _SHIFT) % _SIZE:05x}{f'{rest:x}' if rest else ''}"

    @classmethod
    def of(cls, name: str) -> TextId | None:
        """Return what an id stands for; None if it is none."""
        if (match := _ID.fullmatch(name)) is None:
            return None
        high, number = divmod(int(match[2] or "0", 16), _NUMBERS)
        value = high * _SIZE + (int(match[1], 16) - _SHIFT) * _INVERSE % _SIZE
        return cls(value // 2, number, value % 2 == 1)


def originals(message: Message, fmt: Format, written: Collection[str] = ()) -> list[str]:
    """Return the texts of a message that have ids, as they came: outputs, the user's words, or all it says."""
    if message.role == "assistant":
        calls = zip(message.tools, message.arguments, strict=False)
        said = [*fmt.texts_in(message.view, PROSE), *(f"{tool} {arguments}" for tool, arguments in calls)]
        return ["\n".join(filter(None, said if message.tools else message.texts))]
    view = without_note(fmt.normal(message.raw), fmt, written)
    return fmt.texts_in(view, OUTPUTS if message.results else PROSE) or [message.text]


def text_ids(message: Message, count: int) -> list[str]:
    """Return the ids of the texts of a message."""
    return [TextId(message.at, number if count > 1 else 0).name for number in range(1, count + 1)]


def step_id(members: Sequence[Message]) -> str:
    """Return the id of a unit: of its only output, or else of its first message with calls, or of its first message."""
    outputs = [one for one in members if one.results or one.is_output]
    calls = [one for one in members if one.calls]
    is_single = len(outputs) == 1 and sum(len(one.calls) for one in calls) <= 1
    return TextId((outputs if is_single else calls or list(members))[0].at).name


def with_ids(form: str, name: str) -> str:
    """Return a shorter form of a text with its id in each marker; a form without a marker gets one."""
    marked, count = _MARKER.subn(rf"\1, #{name}]", form, count=1)
    return marked if count or not form else f"{form}\n[cupel: partly omitted, #{name}]"
