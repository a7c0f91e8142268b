"""A history, read and grouped and weighed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from cupel.integrations.messages._alternation import alternating
from cupel.integrations.messages._dialect import REPLY_FRAME, Dialect, dialect_of
from cupel.integrations.messages._ends import Ends
from cupel.integrations.messages._loops import Loops
from cupel.integrations.messages._media import ImageRule, ImageTokens
from cupel.integrations.messages._pins import SystemMessages, keep_system, pin_units
from cupel.integrations.messages._plain import JSON, compact_json, is_sequence, plain, wrong_type
from cupel.integrations.messages._rules import Rules
from cupel.model import ContextItem, ContextKind, ContextSource
from cupel.tokens import TokenCounter, default_counter

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
    readings: Sequence[Reading]
    units: Sequence[Unit]
    rules: Rules
    counter: TokenCounter

    def items(self, room: int | None = None) -> list[ContextItem]:
        """The candidates that stand for the units, pinned what must be sent and what that needs beside it.

        Where one of several would do, it is the nearest that fits into `room`, or else the cheapest.
        """
        items = [self._item(unit) for unit in self.units]
        costs = [item.tokens for item in items]
        pinned = {index for index, unit in enumerate(self.units) if unit.pinned and unit.flaw is None}
        left = sum(costs) if room is None else room - sum(costs[index] for index in pinned)
        pinned |= self.rules.complete(self.units, pinned, costs, left)
        return [replace(item, pinned=True) if index in pinned else item for index, item in enumerate(items)]

    def _item(self, unit: Unit) -> ContextItem:
        # Provider messages carry no time, and only the order matters to recency and to the chronological placer.
        members = [self.readings[position] for position in unit.positions]
        return ContextItem(
            "\n".join(f"{member.role}: {' '.join(filter(None, member.texts))}" for member in members),
            sum(self.weigh(member) for member in members),
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
        return f"{', '.join(_ranges(unit.positions))} ({why})"

    def positions(self, indexes: Iterable[int]) -> list[int]:
        """Where the messages of these units stand, in order."""
        return sorted(position for index in indexes for position in self.units[index].positions)

    def weigh(self, reading: Reading) -> int:
        """The tokens of one message."""
        return reading.extra + sum(self.counter.count(text) for text in reading.texts if text)


def _ranges(positions: Sequence[int]) -> Iterable[str]:
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
        if self.counter is not None and not isinstance(self.counter, TokenCounter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("counter", "an object with a method count(text)", self.counter)
        if self.tools is not None and not is_sequence(self.tools):
            raise wrong_type("tools", "a list of tools", self.tools)


def read_history(messages: Sequence[M], options: Options) -> History:
    """Read `messages`, group them, mark what cannot be sent and pin what must be."""
    if not is_sequence(messages):  # a generator could be read only once
        raise wrong_type("messages", "a list of messages", messages)
    views = [_view(message, index, options.view) for index, message in enumerate(messages)]
    dialect = options.dialect or dialect_of(
        views, options.provider, system=options.system, tools=plain(options.tools, "tools")
    )
    images = ImageRule(options.image_tokens)
    readings = [dialect.read(message, f"messages[{index}]", images) for index, message in enumerate(views)]
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
    return History(dialect, readings, units, rules, options.counter or default_counter())


def _view(message: Any, index: int, view: Callable[[Any], JSON] | None) -> JSON:
    read = plain(view(message) if view else message, f"messages[{index}]")
    if not isinstance(read, dict):
        raise wrong_type(f"messages[{index}]", "a message", message)
    return read  # pyright: ignore[reportUnknownVariableType]


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
