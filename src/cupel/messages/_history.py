"""A view of a history: the messages that are read, grouped into units, and written as a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cupel._internal.checks import wrong_type
from cupel.errors import ConfigurationError, InvalidItemError
from cupel.messages._formats import OUTPUTS, REPLY_FRAME, Format, SentMessage
from cupel.messages._formats.marks import count_marks
from cupel.messages._ids import RECALL_TOOL
from cupel.messages._notes import with_note
from cupel.messages._plain import compact_json, is_sequence, plain
from cupel.messages._reading import PLACEHOLDER, HistoryReader, Options
from cupel.messages._rules import COMPACTED, Ends, Loops, Rules, keep_system, outdate, pin_units
from cupel.messages._units import NO_RESULT, alternating
from cupel.model import ContextItem, ContextKind, ContextSource
from cupel.scorers import REUSE_KEY, trace_reuse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container

    from cupel.messages._units import Message, Unit
    from cupel.tokens import TokenCounter

POSITIONS_KEY: Final = "cupel:positions"
"""Metadata key: the positions of an item's messages in the history it was made from."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = {"system": ContextKind.SYSTEM_PROMPT, "exchange": ContextKind.TOOL_OUTPUT}


class Opening(NamedTuple):
    """Tools and system prompt, which come before the messages of a request."""

    costs: tuple[tuple[str, int, str], ...]
    """What a request costs besides its messages: its text, tokens and kind."""
    digest: str
    tokens: int
    marks: int = 0
    """The cache breakpoints that they carry."""

    @property
    def items(self) -> list[ContextItem]:
        """The costs as pinned items."""
        return [ContextItem(text, tokens, kind=ContextKind(kind), pinned=True) for text, tokens, kind in self.costs]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Messages of a history, their units, and the rules for sequences of them.

    A view leaves old messages out that no request will contain again. Units hold positions in the view; the messages
    know their positions in the history.
    """

    messages: Sequence[Message]
    units: Sequence[Unit]
    """In the order of their first messages."""
    rules: Rules
    opening: Opening
    reader: HistoryReader
    format: Format

    @property
    def counter(self) -> TokenCounter:
        """Counts the tokens of texts."""
        return self.reader.counter

    @property
    def options(self) -> Options:
        """How the history was read."""
        return self.reader.options

    def sendable(self) -> list[int]:
        """Return the units that can be sent."""
        return [index for index, unit in enumerate(self.units) if unit.rejection is None]

    def of(self, index: int) -> list[Message]:
        """Return the messages of a unit."""
        return [self.messages[at] for at in self.units[index].positions]

    def places(self, index: int) -> tuple[int, ...]:
        """Return the positions of a unit's messages in the history."""
        return self.units[index].places

    def is_read(self, index: int) -> bool:
        """Return whether a unit holds messages, and is no placeholder for some that were not read."""
        return self.units[index].places[0] >= 0

    def drop_stale(self) -> None:
        """Reject the units that a compaction replaces."""
        for unit in self.units:
            if unit.is_stale and not unit.pinned:
                unit.reject(COMPACTED)

    def describe(self, index: int) -> str:
        """Return a unit in words, for an error."""
        unit = self.units[index]
        why = unit.pin_reason or (unit.role if unit.pinned else "needed beside another pinned message")
        return f"{ranges(self.places(index))} ({why})"

    def asked(self) -> str | None:
        """Return the text of the newest user message: the default query of a scorer."""
        spoken = (message for message in reversed(self.messages) if message.role == "user" and message.speaks)
        return " ".join(next((message.texts for message in spoken), ())).strip() or None

    def items(self) -> list[ContextItem]:
        """Return one item for each unit that can be sent; pin mandatory units and those that they require."""
        indexes = self.sendable()
        pinned = {index for index in indexes if self.units[index].pinned}

        def cost(index: int) -> int:
            return sum(message.tokens for message in self.of(index))

        room = sum(map(cost, range(len(self.units))))  # all are counted, so that one that cannot be is an error
        pinned |= self.rules.complete(pinned, cost, room)
        reuse = self.reuse(indexes)
        return [
            self.item(index, self.of(index), pinned=index in pinned, metadata={REUSE_KEY: reuse[index]})
            for index in indexes
        ]

    def reuse(self, indexes: Sequence[int], superseded: Container[int] = ()) -> dict[int, dict[str, float]]:
        """Return how each of some units was used by later ones, for its metadata; superseded ones are repeated."""
        traced = trace_reuse(_texts(self.of(index)) for index in indexes)
        said = [self._said(index) for index in indexes]
        return {
            index: reuse._replace(said=words, repeated=1.0 if index in superseded else reuse.repeated).to_dict()
            for index, reuse, words in zip(indexes, traced, said, strict=True)
        }

    def _said(self, index: int) -> int:
        """Return the tokens of what the assistant said beside the calls of a unit."""
        words = [self.format.said(one.view)[1] for one in self.of(index) if one.calls and one.speaks]
        return sum(self.counter.count(text) for text in words)

    def item(
        self, index: int, messages: Sequence[Message], *, pinned: bool, metadata: Mapping[str, Any] | None = None
    ) -> ContextItem:
        """Return a unit as an item, with the texts and tokens of its messages as they are sent."""
        unit = self.units[index]
        tokens, whole = sum(message.tokens for message in messages), sum(message.tokens for message in self.of(index))
        places = self.places(index)
        # Provider messages carry no time, and only the order matters to recency and to the chronological placer.
        return ContextItem(
            "\n".join(f"{message.role}: {' '.join(filter(None, message.texts))}" for message in messages),
            tokens,
            kind=_KINDS.get(unit.role, ContextKind.MESSAGE),
            source=ContextSource.TOOL if unit.role == "exchange" else ContextSource.CHAT,
            tags=tuple(dict.fromkeys(tool for message in messages for tool in message.tools)),
            metadata={POSITIONS_KEY: places, **(metadata or {})},
            timestamp=_EPOCH + timedelta(seconds=places[-1]),
            pinned=pinned,
            original_tokens=None if tokens == whole else whole,
        )

    def request(
        self,
        messages: Iterable[Message],
        notes: Mapping[int, str] | None = None,
        asides: Mapping[int, str] | None = None,
    ) -> list[SentMessage]:
        """Return messages as they are sent, in the given order.

        Args:
            messages: the messages, in the form in which they are sent.
            notes: notes on omitted steps in tool results, by the position of the message that holds them.
            asides: notes in a message of the user, by the position of the message that they precede.
        """
        placed: list[SentMessage] = []
        notes, asides, fmt = notes or {}, asides or {}, self.format
        for message in messages:
            if before := asides.get(message.at):
                note = fmt.sendable(message.source, fmt.user_message(before), f"messages[{message.at}]")
                placed.append(SentMessage(note, ()))
            placed.append(SentMessage(self._sent(message, notes.get(message.at)), (message.at,)))
        if self.options.framework is not None:
            return placed
        return fmt.joined(placed, alternate=self.options.alternate)

    def _sent(self, message: Message, note: str | None) -> Any:
        framework = self.options.framework
        if framework is not None:
            if not message.is_altered and note is None:
                return message.source
            texts = self.format.texts_in(message.view, OUTPUTS)
            if note is not None and texts:
                texts[0] = f"{note}\n{texts[0]}"
            source = framework.bare(message.source) if message.bare else message.source
            return framework.shortened(source, texts) if texts else source
        if note is None and not message.is_altered:
            if message.is_sent_as_is:
                return message.source
            sent = self.format.sendable(message.source, None, f"messages[{message.at}]")
            message.is_sent_as_is = sent is message.source
            return sent
        view = message.view if note is None else with_note(message.view, note, self.format)
        return self.format.sendable(message.source, view, f"messages[{message.at}]")


def _texts(messages: Sequence[Message]) -> tuple[str, str]:
    """Return the texts that a unit brought in, and the arguments of its calls."""
    brought = "\n".join(text for one in messages if not one.calls for text in one.texts)
    asked = "\n".join(text for one in messages if one.calls for text in one.texts)
    return brought, asked.replace("\\n", "\n").replace('\\"', '"')


def ranges(positions: Sequence[int]) -> str:
    """Return positions in words."""
    runs = [[at for _, at in run] for _, run in groupby(enumerate(positions), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"messages[{run[0]}:{run[-1] + 1}]" if len(run) > 1 else f"messages[{run[0]}]" for run in runs)


def read_history(
    messages: Sequence[Any], source: Options | HistoryReader, positions: Collection[int] | None = None
) -> History:
    """Read messages, group them into units, reject those that cannot be sent and pin those that must be.

    Args:
        messages: the history.
        source: how to read it, or the reader of its conversation.
        positions: the messages to read, in order; by default all.
    """
    if not is_sequence(messages):  # a generator could be read only once
        raise wrong_type("messages", "a list of messages", messages)
    reader = source if isinstance(source, HistoryReader) else HistoryReader(source)
    options = reader.options
    read = reader.read(messages, range(len(messages)) if positions is None else positions)
    fmt = reader.format
    assert fmt is not None  # noqa: S101  (reading finds it)
    view = read if positions is None else _with_placeholders(read)
    units, rules = _grouped(view, fmt, options)
    if options.sends:
        _check_needs(fmt, view, units, has_tools=bool(reader.tools))
    for unit in units:
        unit.places = tuple([view[at].at for at in unit.positions])
    pin: Callable[[Any], bool] | None = options.pin
    pin_units(units, view, [pin is not None and one.at >= 0 and bool(pin(one.source)) for one in view])
    return History(messages=view, units=units, rules=rules, opening=opening_of(reader), reader=reader, format=fmt)


def opening_tokens(
    provider: str, *, system: object = None, tools: Sequence[object] | None = None, counter: TokenCounter | None = None
) -> int:
    """Return the tokens of a request besides its messages: its frame, the system prompt and the tools.

    >>> from cupel.tokens import CharacterEstimate
    >>> opening_tokens("anthropic", system="Answer in one sentence.", counter=CharacterEstimate()) > 3
    True
    """
    options = Options(provider=provider, system=system, tools=tools, counter=counter, sends=False)
    return read_history([], options).opening.tokens


def _with_placeholders(read: Sequence[Message]) -> list[Message]:
    """Return messages with a placeholder for each run of messages that is left out between or before them."""
    view: list[Message] = []
    before = -1
    for message in read:
        if message.at > before + 1:
            view.append(PLACEHOLDER)
        view.append(message)
        before = message.at
    return view


def _grouped(messages: Sequence[Message], fmt: Format, options: Options) -> tuple[list[Unit], Rules]:
    """Return the units, those rejected that can never be sent, and the rules for a sequence of them."""
    units = _with_observations(fmt.group(messages), messages)
    keep_system(units, messages, options.system_messages)
    outdate(units, messages)
    if options.alternate:
        merges = options.framework is None
        units = alternating(units, messages, results_are_user=fmt.results_are_user, merges=merges)
    strict = fmt.strict_ends or options.alternate
    ends = Ends.strict(0 if fmt.ends_with_user else len(messages)) if strict else Ends.lenient(units)
    has_loops = fmt.thinking_opens_loops and options.thinking == "loop"
    rules = Rules(units, ends, Loops.of(messages) if has_loops else None)
    rules.reject_unsendable()
    return units, rules


def _with_observations(units: list[Unit], messages: Sequence[Message]) -> list[Unit]:
    """Return the units with each observation joined to the action before it."""
    found: list[Unit] = []
    for unit in units:
        last = found[-1] if found else None
        observes = messages[unit.positions[0]].is_output and unit.rejection is None
        if observes and last is not None and last.rejection is None and last.opens == "assistant":
            last.absorb(unit, messages)
        else:
            found.append(unit)
    return found


def _check_needs(fmt: Format, messages: Sequence[Message], units: Sequence[Unit], *, has_tools: bool) -> None:
    """Raise if a history lacks something without which its provider refuses every request."""
    if fmt.needs_tools and not has_tools and any(message.calls or message.results for message in messages):
        msg = f"tools must be given: messages hold tool calls, which {fmt.name} accepts only with its list of tools"
        raise ConfigurationError(msg)
    unanswered = [unit.positions[0] for unit in units if unit.rejection == NO_RESULT]
    if fmt.needs_results and unanswered:
        at = messages[unanswered[0]].at
        msg = f"messages[{at}] has a call without its result: append one for each call, or remove the call"
        raise InvalidItemError(msg)


def opening_of(reader: HistoryReader) -> Opening:
    """Return the costs of a request besides its messages; they are the same for all requests of a conversation."""
    fmt = reader.format
    known = reader.openings.get(id(fmt))
    if known is not None or fmt is None:
        return known or Opening((), "", 0)
    costs = [("request", REPLY_FRAME, "Request")]
    system, counter = reader.options.system, reader.counter
    if system is not None:
        text = system if isinstance(system, str) else compact_json(plain(system, "system"))
        costs.append((f"system: {text}", counter.count(text), "SystemPrompt"))
    is_listed = f'"name":"{RECALL_TOOL["name"]}"' in compact_json(reader.tools)
    if tools := [*reader.tools, *([fmt.tool(RECALL_TOOL)] if reader.options.recall and not is_listed else [])]:
        content = f"tools: {compact_json(tools)}"
        costs.append((content, fmt.tool_tokens(tools, counter), "ToolSchema"))
    text = "".join(f"{tokens}:{content}\n" for content, tokens, _ in costs)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    is_marked = fmt.mark is not None and fmt.mark.needed
    marks = count_marks(plain([system, reader.tools], "system")) if is_marked else 0
    opening = Opening(tuple(costs), digest, sum(tokens for _, tokens, _ in costs), marks)
    reader.openings[id(fmt)] = opening
    return opening
