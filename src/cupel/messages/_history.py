"""A history: its messages read and counted, grouped into units, and written as a request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from cupel._internal.checks import wrong_type
from cupel.errors import ConfigurationError, InvalidItemError
from cupel.messages._formats import OUTPUTS, REPLY_FRAME, Format, SentMessage, detect_format
from cupel.messages._formats.media import ImageRule, ImageTokens
from cupel.messages._memory import Memory, ParsedMessage, message_tokens
from cupel.messages._notes import Slot, with_note
from cupel.messages._plain import JSON, compact_json, is_sequence, plain
from cupel.messages._rules import COMPACTED, Ends, Loops, Rules, SystemMessages, keep_system, outdate, pin_units
from cupel.messages._units import NO_RESULT, alternating
from cupel.model import ContextItem, ContextKind, ContextSource
from cupel.tokens import CachedCounter, TokenCounter, counter_or_default

if TYPE_CHECKING:
    from cupel.messages._framework import Framework
    from cupel.messages._units import MessageInfo, Unit

POSITIONS_KEY = "cupel:positions"
"""Metadata key: the positions of an item's messages in the history it was made from."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = {"system": ContextKind.SYSTEM_PROMPT, "exchange": ContextKind.TOOL_OUTPUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a history is to be read, whatever is done with it."""

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
    sends: bool = True
    """Whether the history becomes a request, which may have to list its tools."""

    def __post_init__(self) -> None:
        if self.pin is not None and not callable(self.pin):
            raise wrong_type("pin", "a function of a message", self.pin)
        if self.tools is not None and not is_sequence(self.tools):
            raise wrong_type("tools", "a list of tools", self.tools)


class Shorter(NamedTuple):
    """A message with shorter texts: as plain data, these texts, and its tokens."""

    view: JSON
    texts: Sequence[str]
    info: MessageInfo
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The units of a history, the rules for sequences of them, and the tokens of each message."""

    messages: Sequence[Any]
    """The caller's own."""
    framework: Framework[Any] | None
    format: Format
    parsed: Sequence[ParsedMessage]
    """The messages as plain data, and the tokens of each."""
    infos: Sequence[MessageInfo]
    units: Sequence[Unit]
    """In the order of their first messages."""
    rules: Rules
    fixed: Sequence[ContextItem]
    """The costs of a request besides its messages, as pinned items."""
    counter: TokenCounter
    images: ImageRule
    memory: Memory
    alternate: bool = False
    """Whether neighbouring messages of the user are merged when they are sent."""

    @property
    def fixed_tokens(self) -> int:
        """Tokens of a request besides its messages."""
        return sum(item.tokens for item in self.fixed)

    def costs(self) -> list[int]:
        """Return the tokens of each unit."""
        return [sum(self.parsed[at].tokens for at in unit.positions) for unit in self.units]

    def items(self, room: int | None = None) -> list[ContextItem]:
        """Return one item per unit; pin mandatory units and those that they require.

        Where one of several would do, it is the nearest that fits into `room`, or else the cheapest.
        """
        costs = self.costs()
        pinned = {index for index, unit in enumerate(self.units) if unit.pinned and unit.rejection is None}
        left = sum(costs) if room is None else room - sum(costs[index] for index in pinned)
        pinned |= self.rules.complete(pinned, costs, left)
        before, self.memory.items = self.memory.items, {}
        items: list[ContextItem] = []
        for index, unit in enumerate(self.units):
            key, members = (index in pinned, *unit.positions), [self.infos[at] for at in unit.positions]
            said, item = before.get(key, (None, None))
            # The same object for the same unit: a scorer that caches its last pool then reads only the new items.
            if item is None or said != members or item.tokens != costs[index]:
                item = _item(unit, members, costs[index], pinned=index in pinned)
            self.memory.items[key] = members, item
            items.append(item)
        return items

    def drop_stale(self, room: int) -> None:
        """Reject the units that a compaction replaces if not everything fits."""
        if not any(unit.is_stale for unit in self.units):
            return
        sendable = [unit for unit in self.units if unit.rejection is None]
        if sum(self.parsed[at].tokens for unit in sendable for at in unit.positions) > room:
            for unit in sendable:
                if unit.is_stale and not unit.pinned:
                    unit.reject(COMPACTED)

    def describe(self, index: int) -> str:
        """Return a unit in words, for an error."""
        unit = self.units[index]
        why = unit.pin_reason or (unit.role if unit.pinned else "needed beside another pinned message")
        return f"{ranges(unit.positions)} ({why})"

    def asked(self) -> str | None:
        """Return the text of the newest user message: the default query of a scorer."""
        spoken = (info for info in reversed(self.infos) if info.role == "user" and info.speaks)
        return " ".join(next((info.texts for info in spoken), ())).strip() or None

    def positions(self, indexes: Iterable[int]) -> list[int]:
        """Return the positions of the messages of these units, in order."""
        return sorted(position for index in indexes for position in self.units[index].positions)

    def request(
        self,
        positions: Iterable[int],
        shorter: Mapping[int, Shorter] | None = None,
        notes: Mapping[Slot, str] | None = None,
    ) -> list[SentMessage]:
        """Return messages as they are sent.

        Args:
            positions: the messages to send, in order.
            shorter: those of them that are sent with shorter texts.
            notes: the notes on omitted steps.
        """
        placed: list[SentMessage] = []
        shorter, notes = shorter or {}, notes or {}
        for at in positions:
            if before := notes.get(Slot(at, in_result=False)):
                note = self.format.sendable(self.messages[at], self.format.user_message(before), f"messages[{at}]")
                placed.append(SentMessage(note, ()))
            placed.append(SentMessage(self._sent(at, shorter.get(at), notes.get(Slot(at, in_result=True))), (at,)))
        return placed if self.framework is not None else self.format.joined(placed, alternate=self.alternate)

    def _sent(self, position: int, shorter: Shorter | None, note: str | None) -> Any:
        message, parsed = self.messages[position], self.parsed[position]
        if self.framework is not None:
            if shorter is None and note is None and not parsed.is_altered:
                return message
            texts = list(self.format.texts_in(parsed.view, OUTPUTS) if shorter is None else shorter.texts)
            if note is not None and texts:
                texts[0] = f"{note}\n{texts[0]}"
            return self.framework.shortened(message, texts)
        view = parsed.view if shorter is None else shorter.view
        changed = parsed.is_altered or shorter is not None
        if note is not None:
            view, changed = with_note(view, note, self.format), True
        return self.format.sendable(message, view if changed else None, f"messages[{position}]")

    def with_texts(self, position: int, texts: Sequence[str], parts: Collection[str]) -> Shorter | None:
        """Return a message with other texts for those of some parts; None if it could not be sent."""
        view = self.format.with_texts(self.parsed[position].view, texts, parts)
        info = self.format.read(view, f"messages[{position}]", self.images)
        return None if info.rejection else Shorter(view, texts, info, message_tokens(info, self.counter))

    def shortened(self, item: ContextItem, positions: Sequence[int], shorter: Mapping[int, Shorter]) -> ContextItem:
        """Return a unit's item with the texts and tokens of its shorter messages."""
        members = [shorter[at].info if at in shorter else self.infos[at] for at in positions]
        tokens = sum(shorter[at].tokens if at in shorter else self.parsed[at].tokens for at in positions)
        return replace(item, content=_content(members), tokens=tokens, original_tokens=item.tokens)


def _item(unit: Unit, members: Sequence[MessageInfo], tokens: int, *, pinned: bool) -> ContextItem:
    # Provider messages carry no time, and only the order matters to recency and to the chronological placer.
    return ContextItem(
        _content(members),
        tokens,
        kind=_KINDS.get(unit.role, ContextKind.MESSAGE),
        source=ContextSource.TOOL if unit.role == "exchange" else ContextSource.CHAT,
        tags=tuple(dict.fromkeys(tool for member in members for tool in member.tools)),
        metadata={POSITIONS_KEY: tuple(unit.positions)},
        timestamp=_EPOCH + timedelta(seconds=unit.positions[-1]),
        pinned=pinned,
    )


def _content(members: Iterable[MessageInfo]) -> str:
    return "\n".join(f"{member.role}: {' '.join(filter(None, member.texts))}" for member in members)


def ranges(positions: Sequence[int]) -> str:
    """Return positions in words."""
    runs = [[at for _, at in run] for _, run in groupby(enumerate(positions), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"messages[{run[0]}:{run[-1] + 1}]" if len(run) > 1 else f"messages[{run[0]}]" for run in runs)


def read_history(messages: Sequence[Any], options: Options, memory: Memory | None = None) -> History:
    """Read messages, group them into units, reject those that cannot be sent and pin those that must be.

    Args:
        messages: the history.
        options: how to read it.
        memory: messages read on earlier turns.
    """
    if not is_sequence(messages):  # a generator could be read only once
        raise wrong_type("messages", "a list of messages", messages)
    counter = counter_or_default(options.counter)
    if memory is None:
        memory, counter = Memory(), CachedCounter(counter)  # a long text is counted to be read, cut and shortened
    framework, tools = options.framework, plain(options.tools, "tools")
    parsed = memory.recall(messages if framework is None else framework.translated(messages), messages)
    if framework is None:
        traits = [one.traits for one in parsed] if options.provider is None else []
        fmt = detect_format(traits, options.provider, system=options.system, tools=tools)
    else:
        fmt = framework.rules
    images = ImageRule(options.image_tokens)
    infos = [one.read(f"messages[{index}]", fmt, images, counter) for index, one in enumerate(parsed)]
    units, rules = _grouped(infos, fmt, options)
    if options.sends:
        _check_needs(fmt, infos, units, has_tools=bool(tools))
    pin = options.pin
    pin_units(units, infos, [pin is not None and bool(pin(message)) for message in messages])
    return History(
        messages=messages,
        framework=framework,
        format=fmt,
        parsed=parsed,
        infos=infos,
        units=units,
        rules=rules,
        fixed=_fixed_items(fmt, options.system, tools, counter),
        counter=counter,
        images=images,
        memory=memory,
        alternate=options.alternate,
    )


def _grouped(infos: Sequence[MessageInfo], fmt: Format, options: Options) -> tuple[list[Unit], Rules]:
    """Return the units, those rejected that can never be sent, and the rules for a sequence of them."""
    units = fmt.group(infos)
    keep_system(units, infos, options.system_messages)
    outdate(units, infos)
    if options.alternate:
        merges = options.framework is None
        units = alternating(units, infos, results_are_user=fmt.results_are_user, merges=merges)
    strict = fmt.strict_ends or options.alternate
    ends = Ends.strict(0 if fmt.ends_with_user else len(infos)) if strict else Ends.lenient(units)
    rules = Rules(units, ends, Loops.of(infos) if fmt.thinking else None)
    rules.reject_unsendable()
    return units, rules


def _check_needs(fmt: Format, infos: Sequence[MessageInfo], units: Sequence[Unit], *, has_tools: bool) -> None:
    """Raise if a history lacks something without which its provider refuses every request."""
    if fmt.needs_tools and not has_tools and any(info.calls or info.results for info in infos):
        msg = f"tools must be given: messages hold tool calls, which {fmt.name} accepts only with its list of tools"
        raise ConfigurationError(msg)
    unanswered = [unit.positions[0] for unit in units if unit.rejection == NO_RESULT]
    if fmt.needs_results and unanswered:
        msg = f"messages[{unanswered[0]}] has a call without its result: append one for each call, or remove the call"
        raise InvalidItemError(msg)


def _fixed_items(fmt: Format, system: object, tools: Sequence[Any], counter: TokenCounter) -> list[ContextItem]:
    """Return pinned items for the costs of a request besides its messages."""
    costs = [("request", REPLY_FRAME, ContextKind("Request"))]
    if system is not None:
        text = system if isinstance(system, str) else compact_json(plain(system, "system"))
        costs.append((f"system: {text}", counter.count(text), ContextKind.SYSTEM_PROMPT))
    if tools:
        costs.append((f"tools: {compact_json(tools)}", fmt.tool_tokens(tools, counter), ContextKind("ToolSchema")))
    return [ContextItem(content, tokens, kind=kind, pinned=True) for content, tokens, kind in costs]
