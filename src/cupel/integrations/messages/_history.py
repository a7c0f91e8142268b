"""A history, read and grouped and weighed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from cupel.integrations.messages._dialect import Dialect, dialect_of
from cupel.integrations.messages._ends import Ends
from cupel.integrations.messages._media import ImageRule, ImageTokens
from cupel.integrations.messages._plain import JSON, compact_json, plain
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
    """The units of a history and what each message weighs."""

    dialect: Dialect
    readings: Sequence[Reading]
    units: Sequence[Unit]
    ends: Ends
    counter: TokenCounter

    def item(self, index: int) -> ContextItem:
        """The candidate that stands for a unit.

        Its timestamp is its last message's position, in seconds: provider messages carry no time, and only the order
        matters to recency and to the chronological placer.
        """
        unit = self.units[index]
        members = [self.readings[position] for position in unit.positions]
        return ContextItem(
            "\n".join(f"{member.role}: {' '.join(filter(None, member.texts))}" for member in members),
            sum(self.weigh(member) for member in members),
            kind=_KINDS.get(unit.role, ContextKind.MESSAGE),
            source=ContextSource.TOOL if unit.role == "exchange" else ContextSource.CHAT,
            tags=tuple(dict.fromkeys(tool for member in members for tool in member.tools)),
            metadata={POSITIONS_KEY: tuple(unit.positions)},
            timestamp=_EPOCH + timedelta(seconds=unit.positions[-1]),
            pinned=unit.pinned and unit.flaw is None,
        )

    def describe(self, index: int) -> str:
        """A unit in words, for an error."""
        unit = self.units[index]
        where = ", ".join(f"messages[{position}]" for position in unit.positions)
        return f"{where} ({unit.note or unit.role})"

    def positions(self, indexes: Iterable[int]) -> list[int]:
        """Where the messages of these units stand, in order."""
        return sorted(position for index in indexes for position in self.units[index].positions)

    def weigh(self, reading: Reading) -> int:
        """The tokens of one message."""
        return reading.extra + sum(self.counter.count(text) for text in reading.texts if text)


def read_history(
    messages: Sequence[M],
    *,
    provider: str | None = None,
    counter: TokenCounter | None = None,
    system: object = None,
    pin: Callable[[M], bool] | None = None,
    image_tokens: ImageTokens | None = None,
    dialect: Dialect | None = None,
    view: Callable[[M], JSON] | None = None,
) -> History:
    """Read `messages`; a framework's module passes the `dialect` it translates to, and `view`, the translation."""
    if not isinstance(messages, (list, tuple)):  # a generator could be read only once
        msg = f"messages must be a list of messages, got {type(messages).__name__}: {messages!r}"
        raise TypeError(msg)
    views = [_view(message, index, view) for index, message in enumerate(messages)]
    dialect = dialect or dialect_of(views, provider, system=system)
    images = ImageRule(image_tokens)
    readings = [dialect.read(message, f"messages[{index}]", images) for index, message in enumerate(views)]
    units = dialect.group(readings)
    ends = Ends.strict(len(readings)) if dialect.strict_ends else Ends.lenient(units)
    _pin(units, [pin is not None and bool(pin(message)) for message in messages], ends)
    return History(dialect, readings, units, ends, counter if counter is not None else default_counter())


def _view(message: Any, index: int, view: Callable[[Any], JSON] | None) -> JSON:
    read = plain(view(message) if view else message, f"messages[{index}]")
    if not isinstance(read, dict):
        msg = f"messages[{index}] must be a message, got {type(message).__name__}: {message!r}"
        raise TypeError(msg)
    return read  # pyright: ignore[reportUnknownVariableType]


def _pin(units: Sequence[Unit], asked: Sequence[bool], ends: Ends) -> None:
    """Pin the newest thing the user said, what the caller asked for, and what these need to be sent."""
    users = [unit for unit in units if unit.opens == "user" and unit.flaw is None]
    if users:
        users[-1].pinned = True
    for unit in units:
        unit.pinned = unit.pinned or any(asked[position] for position in unit.positions)
    sendable = [index for index, unit in enumerate(units) if unit.role != "system" and unit.flaw is None]
    for index in ends.companions(units, [index for index in sendable if units[index].pinned], sendable):
        units[index].pinned = True
        units[index].note = "needed beside another pinned message"


def fixed_items(history: History, system: object, tools: object) -> list[ContextItem]:
    """Pinned items for what a request costs besides its messages."""
    count, dialect = history.counter.count, history.dialect
    costs = [("request", dialect.request, ContextKind("Request"))]
    if system is not None:
        text = system if isinstance(system, str) else compact_json(plain(system, "system"))
        costs.append((f"system: {text}", count(text), ContextKind.SYSTEM_PROMPT))
    if tools:
        schemas = compact_json(plain(tools, "tools"))
        costs.append((f"tools: {schemas}", count(schemas) + dialect.tools, ContextKind("ToolSchema")))
    return [ContextItem(content, tokens, kind=kind, pinned=True) for content, tokens, kind in costs]
