"""Messages of a conversation, read once for as long as they stay the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from cupel._internal.checks import as_flag, as_function, as_text, shown, wrong_type
from cupel.errors import ConfigurationError
from cupel.messages._formats import Format, detect_format, traits_of
from cupel.messages._formats.marks import count_marks
from cupel.messages._formats.media import ImageRule, ImageTokens
from cupel.messages._ids import Ids
from cupel.messages._notes import cleaned, signatures
from cupel.messages._plain import JSON, compact_json, is_sequence, plain, plain_message, refuse_bytes
from cupel.messages._units import Message
from cupel.tokens import TokenCounter, counter_or_default

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cupel.messages._framework import Framework
    from cupel.messages._rules import SystemMessages

Thinking = Literal["bound", "loop"]
"""What a model demands of its thinking: that everything before it is as it was, or that a tool loop begins with it."""
ONLY_A_NOTE: Final = "a note of an earlier request"
PLACEHOLDER: Final = Message("system", rejection="a gap between messages that are read")
"""Never sent: its neighbours in a view must not become one unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a history is read, whatever is done with it."""

    provider: str | None = None
    counter: TokenCounter | None = None
    system: object = None
    tools: object = None
    pin: Callable[[Any], bool] | None = None
    image_tokens: ImageTokens | None = None
    alternate: bool = False
    system_messages: SystemMessages = "keep"
    framework: Framework[Any] | None = None
    """Whose messages they are, if not a provider's."""
    observation: Callable[[Any], bool] | None = None
    thinking: Thinking = "bound"
    recall: bool = False
    """Whether notes and markers have ids, and the request has the tool that takes them."""
    sends: bool = True
    """Whether the history becomes a request, which may have to list its tools."""

    def __post_init__(self) -> None:
        if self.pin is not None and not callable(self.pin):
            raise wrong_type("pin", "a function of a message", self.pin)
        if self.observation is not None:
            as_function("observation", self.observation)
        if self.tools is not None and not is_sequence(self.tools):
            raise wrong_type("tools", "a list of tools", self.tools)
        as_flag("alternate", self.alternate)
        as_flag("recall", self.recall)
        if as_text("thinking", self.thinking) not in get_args(Thinking):
            msg = f"thinking must be 'bound' or 'loop', got {shown(self.thinking)}"
            raise ConfigurationError(msg)


class HistoryReader:
    """Reads the messages of one conversation; one that is the same as before is not read again.

    A dict is the same if it is equal to what was read, so a change in place is seen. Another object is the same as
    long as it is the same object, or reads the same.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.counter = counter_or_default(options.counter)
        self.images = ImageRule(options.image_tokens)
        self.format: Format | None = None
        self.openings: dict[int, Any] = {}
        """The opening of every request, by the format that it was counted for."""
        self.written: Collection[str] = ()
        """The signatures of the texts that the session put a note in front of, and of its other notes."""
        self.quoted: set[str] = set()
        """Those of them by which nothing is recognised, since the user or a tool quoted them."""
        self._seen = 0
        self.notes: dict[int, Any] = {}
        """The notes of the last request, by the positions of the messages that hold them."""
        self.ids = Ids(self) if options.recall else None
        self._known: dict[int, Message] = {}
        self._traits: dict[int, frozenset[str]] = {}

    def recognise(self, written: Collection[str], quoted: Collection[str], seen: int) -> None:
        """Remove what a session wrote from the first `seen` messages, unless it was quoted; later ones are new."""
        self.written, self.quoted, self._seen = written, {*quoted}, seen

    @property
    def own(self) -> Collection[str]:
        """The signatures by which a session's own notes are recognised."""
        return [one for one in self.written if one not in self.quoted] if self.quoted else self.written

    @cached_property
    def tools(self) -> list[Any]:
        """The tools of every request, as plain data."""
        return plain(self.options.tools, "tools") or []

    def read(self, messages: Sequence[Any], positions: Iterable[int], *, more: bool = False) -> list[Message]:
        """Return the messages at some positions of a history, in order.

        Args:
            messages: the history.
            positions: the messages to read.
            more: whether they are read for others that were read before, and in the same format.
        """
        wanted = list(positions)
        raws = self._raws(messages, [at for at in wanted if not self._is_same(messages, at)])
        fmt = self._detected(wanted, raws, self.format if more else None)
        if fmt is not self.format:
            raws = {at: raws[at] if at in raws else self._known[at].raw for at in wanted}
            self._known, self.format = {}, fmt
        for at, raw in raws.items():
            known = self._known.get(at)
            if known is None or known.raw != raw:
                self._known[at] = self._message(raw, messages[at], at, fmt)
        found = [self._known[at] for at in wanted]
        for message in found:
            message.source = messages[message.at]  # equal to the object that was read, but the caller's own today
        return found

    def keep(self, positions: Collection[int]) -> None:
        """Forget all messages but those at some positions."""
        self._known = {at: self._known[at] for at in positions if at in self._known}
        self._traits = {at: self._traits[at] for at in positions if at in self._traits}

    def _is_same(self, messages: Sequence[Any], at: int) -> bool:
        known, message = self._known.get(at), messages[at]
        if known is None:
            return False
        if type(message) is dict or isinstance(message, Mapping):
            return bool(message == known.raw)
        return message is known.source

    def _raws(self, messages: Sequence[Any], positions: Sequence[int]) -> dict[int, JSON]:
        framework = self.options.framework
        given = [messages[at] for at in positions]
        if framework is not None:
            given = framework.translated(given, positions)
        return {at: plain_message(one, f"messages[{at}]") for at, one in zip(positions, given, strict=True)}

    def _detected(self, wanted: Sequence[int], raws: Mapping[int, JSON], known: Format | None) -> Format:
        """Return the format of some messages, of which `raws` are new."""
        options = self.options
        if options.framework is not None:
            return options.framework.rules
        if options.provider is not None:
            return detect_format((), options.provider, system=None, tools=None)
        self._traits |= {at: traits_of(raw) for at, raw in raws.items()}
        if known is not None:
            return known
        return detect_format([self._traits[at] for at in wanted], None, system=options.system, tools=self.tools)

    def _message(self, raw: JSON, source: Any, at: int, fmt: Format) -> Message:
        path = f"messages[{at}]"
        if not fmt.has_bytes:
            refuse_bytes(raw, path)
        fmt.check(raw, path)
        observation = self.options.observation
        spoken = raw.get("role") == "user" or not {"role", "type"} & raw.keys()
        is_output = spoken and observation is not None and bool(observation(source))
        normal = fmt.normal(raw)
        if self.written and at >= self._seen:
            self.quoted.update({*signatures(normal, fmt)} & {*self.written})
        clean = cleaned(normal, fmt, self.own, is_output=is_output)
        view = normal if clean is None else clean
        message = fmt.read(view, path, self.images)
        if clean is None:
            message.reject(ONLY_A_NOTE)
        message.at, message.source, message.raw, message.view = at, source, raw, view
        message.is_output, message.is_altered = is_output, view is not normal
        message.counter, message.digest = self.counter, _digest(fmt.canonical(view))
        message.marks = count_marks(raw) if fmt.mark is not None and fmt.mark.needed else 0
        return message

    def changed(self, message: Message, view: JSON, **differences: Any) -> Message | None:
        """Return a message that is sent with another view; None if it could not be sent."""
        fmt = self.format
        assert fmt is not None  # noqa: S101  (a message was read)
        other = fmt.read(view, f"messages[{message.at}]", self.images)
        if other.rejection is not None:
            return None
        other.at, other.source, other.raw, other.view = message.at, message.source, message.raw, view
        other.counter, other.digest, other.is_altered = message.counter, message.digest, True
        other.is_output, other.limit, other.bare = message.is_output, message.limit, message.bare
        other.called_again, other.asked = message.called_again, message.asked
        other.marks = message.marks
        for name, value in differences.items():
            setattr(other, name, value)
        return other


def _digest(view: JSON) -> str:
    try:
        text = msgspec.json.encode(view, order="sorted")
    except (OverflowError, UnicodeEncodeError, TypeError):
        text = compact_json(view).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=12).hexdigest()
