"""The interface of a format: everything that `fit` and sessions ask of a provider's messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cupel.messages._formats import chat
from cupel.messages._plain import JSON, fields

if TYPE_CHECKING:
    from cupel.messages._formats.marks import Mark
    from cupel.messages._formats.media import ImageRule
    from cupel.messages._formats.texts import Rewrite
    from cupel.messages._prices import Prices
    from cupel.messages._units import Message, Unit
    from cupel.tokens import TokenCounter


class NotePlace(NamedTuple):
    """Where the content is that a note goes into: that of a message's first tool result, or else the user's words."""

    path: tuple[str | int, ...]
    """The fields and indexes that lead to a text, a list of blocks, or an object."""
    in_result: bool

    def read(self, message: JSON) -> Any:
        """Return the content."""
        value: Any = message
        for step in self.path:
            value = value[step] if isinstance(step, int) else fields(value).get(step)
        return value

    def write(self, message: JSON, content: Any) -> JSON:
        """Return a copy of a message with other content."""
        return fields(_replaced(message, self.path, content))


def _replaced(value: Any, path: Sequence[str | int], new: Any) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return [*value[:step], _replaced(value[step], rest, new), *value[step + 1 :]]
    return {**fields(value), step: _replaced(fields(value).get(step), rest, new)}


class SentMessage(NamedTuple):
    """A message to send, and the positions of its content in the history; a note has none."""

    message: Any
    positions: tuple[int, ...]

    @property
    def position(self) -> int | None:
        """The position of its first content."""
        return self.positions[0] if self.positions else None


class Join(Protocol):
    """Joins neighbouring messages; with `alternate`, user and assistant must take turns."""

    def __call__(self, message: Any, other: Any, *, alternate: bool) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format of chat histories. Its module builds it, and the table lists it.

    The defaults are those of OpenAI's and Anthropic's messages, whose content is a text or a list of typed blocks.
    """

    name: str
    read: Callable[[JSON, str, ImageRule], Message]
    """Read one message; the string is its path, for errors."""
    group: Callable[[Sequence[Message]], list[Unit]]
    """Group messages into units, and reject those that can never be sent."""
    tool: Callable[[JSON], JSON]
    """Return the definition of a tool, given its name, its description and its parameters."""
    tool_tokens: Callable[[Sequence[Any], TokenCounter], int]
    """Count the tokens of tool definitions."""
    recognises: Callable[[JSON], bool]
    """Whether a message has a trait that only this format has."""
    recognises_tool: Callable[[JSON], bool]
    """Whether a tool definition is one of this format."""
    prices: Prices
    """How the provider caches prompts, where the caller does not say."""
    change_texts: Callable[[JSON, Collection[str], Rewrite], JSON]
    """Return a copy of a message whose texts of some parts are replaced by a function of them."""
    calls: Callable[[JSON], list[tuple[str, Any]]]
    """Return the name and the arguments of each tool call in a message, calls of the provider's own tools too."""
    note_place: Callable[[JSON], NotePlace | None]
    """Return where a note goes; None for a message that can hold none."""
    check: Callable[[JSON, str], None] = chat.unchecked
    """Raise if a message has the shape of another format, or holds what its provider refuses in every request."""
    said: Callable[[JSON], tuple[str, str]] = chat.said
    """Return the role and the words of a message without calls, for a line of a note."""
    text_block: Callable[[str], JSON] = chat.text_block
    user_message: Callable[[str], JSON] = chat.user_message
    canonical: Callable[[JSON], JSON] = chat.canonical
    """Return the fields that a provider is sent, without cache breakpoints, in one way of writing them."""
    normal: Callable[[JSON], JSON] = chat.same
    """Return a message in the spelling that the other functions read."""
    sendable: Callable[[Any, JSON | None, str], Any] = chat.sendable
    """Return a message of the caller's, or its changed view, as it can be sent; the string is its path, for errors."""
    split: Callable[[Any], Sequence[Any]] = chat.unsplit
    """Return a message as those that it must be sent as."""
    join: Join = chat.join
    """Return two neighbouring messages as one; None if they stay two."""
    mark: Mark | None = None
    """How a cache breakpoint is written."""
    strict_ends: bool = False
    """Whether the first message must be the user's, and the last one too unless the history ends with the assistant."""
    ends_with_user: bool = False
    """Whether the last message must be the user's even if the history ends with the assistant."""
    without_thinking: Callable[[JSON], JSON] | None = None
    """Return a message without the thinking that its provider binds to what came before; None if it binds none."""
    thinking_opens_loops: bool = False
    """Whether older models demand that a running tool loop begins with the thinking that it began with."""
    has_bytes: bool = False
    """Whether messages may hold bytes, as images and files."""
    needs_tools: bool = False
    """Whether a request with calls must list its tools."""
    needs_results: bool = False
    """Whether a call without its result is an error; elsewhere it is left out."""
    results_are_user: bool = False
    """Whether tool results are part of user messages, rather than separate messages."""

    def texts_in(self, view: JSON, parts: Collection[str]) -> list[str]:
        """Return the texts of a message that are of these parts."""
        found: list[str] = []

        def note(text: str) -> str:
            found.append(text)
            return text

        self.change_texts(view, parts, note)
        return found

    def with_texts(self, view: JSON, texts: Sequence[str], parts: Collection[str]) -> JSON:
        """Return a copy of a message with the texts of these parts replaced."""
        following = iter(texts)
        return self.change_texts(view, parts, lambda _: next(following))

    def joined(self, placed: Sequence[SentMessage], *, alternate: bool) -> list[SentMessage]:
        """Return messages, those split that must be several, and neighbours joined that must be one.

        With `alternate`, calls and results in separate messages may be between messages that are joined.
        """
        found: list[SentMessage] = []
        for message, positions in ((piece, one.positions) for one in placed for piece in self.split(one.message)):
            at = len(found) - 1
            while alternate and not self.results_are_user and at > 0 and chat.is_step(found[at].message):
                at -= 1
            one = self.join(found[at].message, message, alternate=alternate) if found else None
            if one is None:
                found.append(SentMessage(message, positions))
            else:
                found[at] = SentMessage(one, (*found[at].positions, *positions))
        return found
