"""A history, read and grouped and weighed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec.structs import replace

from cupel.integrations.messages._alternation import alternating
from cupel.integrations.messages._dialect import REPLY_FRAME, Dialect, dialect_of
from cupel.integrations.messages._ends import Ends
from cupel.integrations.messages._loops import Loops
from cupel.integrations.messages._media import ImageRule, ImageTokens
from cupel.integrations.messages._memory import Known, Memory, weigh
from cupel.integrations.messages._parts import with_texts
from cupel.integrations.messages._pins import SystemMessages, keep_system, pin_units
from cupel.integrations.messages._plain import JSON, compact_json, is_sequence, plain, wrong_type
from cupel.integrations.messages._rules import Rules
from cupel.model import ContextItem, ContextKind, ContextSource
from cupel.tokens import TokenCounter, counter_or_default

if TYPE_CHECKING:
    from cupel.integrations.messages._reading import Reading
    from cupel.integrations.messages._unit import Unit

M = TypeVar("M")

POSITIONS_KEY = "cupel:positions"
"""Metadata key: where an item's messages stand in the history it was made from."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = {"system": ContextKind.SYSTEM_PROMPT, "exchange": ContextKind.TOOL_OUTPUT}


@dataclass(frozen=True, slots=True)
class History:
    """The units of a history, what must hold between those that are sent, and what each message weighs."""

    dialect: Dialect
    known: Sequence[Known]
    """The messages as plain data, and what each weighs."""
    readings: Sequence[Reading]
    units: Sequence[Unit]
    rules: Rules
    counter: TokenCounter
    images: ImageRule
    memory: Memory

    def items(self, room: int | None = None) -> list[ContextItem]:
        """The candidates that stand for the units, pinned what must be sent and what that needs beside it.

        Where one of several would do, it is the nearest that fits into `room`, or else the cheapest.
        """
        before, self.memory.items = self.memory.items, {}
        items = [self._item(unit, before) for unit in self.units]
        costs = [item.tokens for item in items]
        pinned = {index for index, unit in enumerate(self.units) if unit.pinned and unit.flaw is None}
        left = sum(costs) if room is None else room - sum(costs[index] for index in pinned)
        pinned |= self.rules.complete(self.units, pinned, costs, left)
        return [replace(item, pinned=True) if index in pinned else item for index, item in enumerate(items)]

    def _item(self, unit: Unit, before: Mapping[tuple[int, ...], tuple[bytes, ContextItem]]) -> ContextItem:
        if not self.memory.lasts:
            return self._new_item(unit)
        positions = tuple(unit.positions)
        digest = b"".join(self.known[position].digest for position in positions)
        found = before.get(positions)
        item = found[1] if found is not None and found[0] == digest else self._new_item(unit)
        self.memory.items[positions] = digest, item
        return item

    def _new_item(self, unit: Unit) -> ContextItem:
        # Provider messages carry no time, and only the order matters to recency and to the chronological placer.
        members = [self.readings[position] for position in unit.positions]
        return ContextItem(
            _content(members),
            sum(self.known[position].tokens for position in unit.positions),
            kind=_KINDS.get(unit.role, ContextKind.MESSAGE),
            source=ContextSource.TOOL if unit.role == "exchange" else ContextSource.CHAT,
            tags=tuple(dict.fromkeys(tool for member in members for tool in member.tools)),
            metadata={POSITIONS_KEY: tuple(unit.positions)},
            timestamp=_EPOCH + timedelta(seconds=unit.positions[-1]),
        )

    def describe(self, index: int) -> str:
        """A unit in words, for an error."""
        unit = self.units[index]
        why = unit.note or (unit.role if unit.pinned else "needed beside another pinned message")
        return f"{', '.join(ranges(unit.positions))} ({why})"

    def asked(self) -> str | None:
        """The newest thing that the user said, which is what a scorer looks for unless the caller says otherwise."""
        spoken = (reading for reading in reversed(self.readings) if reading.role == "user" and reading.speaks)
        return " ".join(next((reading.texts for reading in spoken), ())).strip() or None

    def positions(self, indexes: Iterable[int]) -> list[int]:
        """Where the messages of these units stand, in order."""
        return sorted(position for index in indexes for position in self.units[index].positions)

    def with_texts(self, position: int, texts: Sequence[str], parts: Collection[str]) -> Shorter | None:
        """Return a message with other texts for those of some parts; None if it could not be sent."""
        view = with_texts(self.known[position].view, texts, parts)
        reading = self.dialect.read(view, f"messages[{position}]", self.images)
        return None if reading.flaw else Shorter(view, texts, reading, weigh(reading, self.counter))

    def shortened(self, item: ContextItem, positions: Sequence[int], shorter: Mapping[int, Shorter]) -> ContextItem:
        """Return a unit's item as it stands where some of its messages are shorter."""
        members = [shorter[at].reading if at in shorter else self.readings[at] for at in positions]
        tokens = sum(shorter[at].tokens if at in shorter else self.known[at].tokens for at in positions)
        return replace(item, content=_content(members), tokens=tokens, original_tokens=item.tokens)


class Shorter(NamedTuple):
    """A message with shorter texts: as plain data, these texts, and what it weighs."""

    view: JSON
    texts: Sequence[str]
    reading: Reading
    tokens: int


def _content(members: Iterable[Reading]) -> str:
    return "\n".join(f"{member.role}: {' '.join(filter(None, member.texts))}" for member in members)


def ranges(positions: Sequence[int]) -> Iterable[str]:
    """Return where messages stand, in words."""
    for _, run in groupby(enumerate(positions), lambda pair: pair[1] - pair[0]):
        first, *rest = (position for _, position in run)
        yield f"messages[{first}:{rest[-1] + 1}]" if rest else f"messages[{first}]"


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
    dialect: Dialect | None = None
    """What a framework's module translates to."""
    view: Callable[[Any], JSON] | None = None
    """Its translation of one message."""

    def __post_init__(self) -> None:
        if self.pin is not None and not callable(self.pin):
            raise wrong_type("pin", "a function of a message", self.pin)
        if self.tools is not None and not is_sequence(self.tools):
            raise wrong_type("tools", "a list of tools", self.tools)


def read_history(messages: Sequence[M], options: Options, memory: Memory | None = None) -> History:
    """Read `messages`, group them, mark what cannot be sent and pin what must be; `memory` is of earlier turns."""
    if not is_sequence(messages):  # a generator could be read only once
        raise wrong_type("messages", "a list of messages", messages)
    memory = Memory(lasts=False) if memory is None else memory
    known = memory.recall(messages, options.view)
    dialect = options.dialect or dialect_of(
        [one.view for one in known], options.provider, system=options.system, tools=plain(options.tools, "tools")
    )
    memory.speak(dialect, known)
    images, counter = ImageRule(options.image_tokens), counter_or_default(options.counter)
    readings = [one.read(f"messages[{index}]", dialect, images, counter) for index, one in enumerate(known)]
    units = dialect.group(readings)
    keep_system(units, readings, options.system_messages)
    if options.alternate:
        units = alternating(units, readings, results_are_user=dialect.results_are_user)
    strict = dialect.strict_ends or options.alternate
    ends = Ends.strict(len(readings)) if strict else Ends.lenient(units)
    rules = Rules(ends, Loops.of(readings) if dialect.thinking else None)
    rules.settle(units)
    pin = options.pin
    pin_units(units, readings, [pin is not None and bool(pin(message)) for message in messages])
    return History(dialect, known, readings, units, rules, counter, images, memory)


def fixed_items(history: History, system: object, tools: Sequence[object] | None) -> list[ContextItem]:
    """Pinned items for what a request costs besides its messages."""
    counter = history.counter
    costs = [("request", REPLY_FRAME, ContextKind("Request"))]
    if system is not None:
        text = system if isinstance(system, str) else compact_json(plain(system, "system"))
        costs.append((f"system: {text}", counter.count(text), ContextKind.SYSTEM_PROMPT))
    if tools:
        schemas = plain(tools, "tools")
        cost = history.dialect.tools(schemas, counter)
        costs.append((f"tools: {compact_json(schemas)}", cost, ContextKind("ToolSchema")))
    return [ContextItem(content, tokens, kind=kind, pinned=True) for content, tokens, kind in costs]
