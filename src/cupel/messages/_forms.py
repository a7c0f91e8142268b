"""The forms that long texts of a message are sent in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cupel._checks import as_function, as_text
from cupel.messages._formats import OUTPUTS, texts_in, thinks
from cupel.shorten import shorten

if TYPE_CHECKING:
    from cupel.messages._formats import Part
    from cupel.messages._history import History, Shorter
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter

WHOLE, SHORT, CUT, BEGUN = "", "short", "cut:", "begun"
"""Names of forms: a message as it is, its standard short form, one for a limit of its own, and one that has grown."""
_SHRINKS = 0.85
"""A form that keeps more of the tokens is not worth changing a message for."""


class MessageForm(NamedTuple):
    """A form of some messages: their tokens, and the messages that are other in it, by position."""

    tokens: int
    messages: Mapping[int, Shorter]


class Shortening(NamedTuple):
    """What may be shorter, and how."""

    shortener: Shortener | None
    """What shortens a text; None for the built-in forms."""
    parts: Collection[Part]
    """Which texts of messages."""

    def form(self, history: History, positions: Sequence[int], name: str, limit: int) -> MessageForm | None:
        """Return messages with texts of about `limit` tokens; None if that is hardly shorter, or cannot be sent."""
        messages: dict[int, Shorter] = {}
        tokens = whole = sum(history.parsed[position].tokens for position in positions)
        parts = self.parts if name == SHORT and not self._are_fixed(history, positions) else OUTPUTS
        for position in positions:
            texts = texts_in(history.parsed[position].view, parts)
            forms = [self._text(text, name, limit, history.counter) for text in texts]
            if forms == texts:
                continue
            shorter = history.with_texts(position, forms, parts)
            if shorter is not None and shorter.tokens < history.parsed[position].tokens:
                tokens -= history.parsed[position].tokens - shorter.tokens
                messages[position] = shorter
        most = _SHRINKS * whole if name == SHORT else whole
        return MessageForm(tokens, messages) if messages and tokens <= most else None

    def _are_fixed(self, history: History, positions: Sequence[int]) -> bool:
        """Return whether words and calls of these messages stand beside reasoning, and stay as they are."""
        return self.parts != OUTPUTS and any(thinks(history.parsed[position].view) for position in positions)

    def _text(self, text: str, name: str, limit: int, counter: TokenCounter) -> str:
        if self.shortener is not None:
            form = as_text("what forms returned", self.shortener(text, limit))
            if name == SHORT or counter.count(form) <= limit:
                return form or text
        return shorten(text, limit, counter=counter) or text


def shortening_of(forms: object, *, built_in: object, parts: Collection[Part] = OUTPUTS) -> Shortening | None:
    """Return what a caller's `forms` ask for: nothing if False, the `built_in` ones, or a shortener's."""
    if forms is False:
        return None
    return Shortening(None if forms is built_in else as_function("forms", forms), parts)
