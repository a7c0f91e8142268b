"""Single messages as every provider's rules see them, and the smallest groups that a request can contain."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from cupel._internal.counter import count_tokens
from cupel.errors import InvalidItemError
from cupel.tokens import counter_or_default

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.messages._plain import JSON
    from cupel.tokens import TokenCounter

Role = Literal["assistant", "system", "tool", "user"]
"""The role of a message; `tool` is a message with tool results, whatever its provider calls it."""


@dataclass(slots=True, eq=False)
class Message:
    """One message as a provider's rules see it: its role, its calls and results, its texts, its tokens.

    A format's reader fills in the first part; whoever reads a history adds the fields from `at` on.
    """

    role: Role
    speaks: bool = False
    """It holds words of the user or the assistant; a message of results, if there are words beside them."""
    is_setting: bool = False
    """It holds for the rest of the conversation, also where later system messages are left out."""
    is_compaction: bool = False
    """It holds the provider's summary of everything before it, which the provider no longer reads."""
    calls: list[str] = field(default_factory=list[str])
    """Ids of the calls that must be answered."""
    results: list[str] = field(default_factory=list[str])
    """Ids of the calls that this answers."""
    call_ids: list[str | None] = field(default_factory=list[str | None])
    """The id of each call or result, where they are matched by name and may have an id too."""
    begun: list[str] = field(default_factory=list[str])
    """Ids of work on the provider's side that begins here and ends in a later message: server tools, programs."""
    ended: list[str] = field(default_factory=list[str])
    """Ids of such work that began in an earlier message."""
    within: list[str] = field(default_factory=list[str])
    """Ids of the work that made this message's calls, where the model did not make them itself."""
    tools: list[str] = field(default_factory=list[str])
    """Names of the tools called."""
    arguments: list[str] = field(default_factory=list[str])
    """The arguments of each of `calls`, as JSON or, for custom tools, as text."""
    texts: list[str] = field(default_factory=list[str])
    """Everything that is counted as text."""
    extra: int = 0
    """Tokens that are not text: the message's frame, images, calls' frames."""
    item_id: str | None = None
    """The id that the message has for itself, where those must differ."""
    opens_thinking: bool = False
    """Its first block is the model's reasoning."""
    ends_thinking: bool = False
    """Its last block is the model's reasoning, which something must follow."""
    ends_blank: bool = False
    """Its last text ends in white space."""
    rejection: str | None = None
    """Why no provider would accept this message in any request."""
    at: int = -1
    """Its position in the history; -1 for a placeholder."""
    source: Any = None
    """The caller's own object."""
    raw: JSON = field(default_factory=dict[str, Any])
    """The message as plain data, as it came."""
    view: JSON = field(default_factory=dict[str, Any])
    """The message as it is sent: in the format's spelling, imitations of notes escaped, texts cut."""
    is_output: bool = False
    """Whether a message of the user is a tool's output."""
    is_altered: bool = False
    """Whether the message is sent in another wording than it came."""
    is_sent_as_is: bool = False
    """Whether the caller's own object can be sent; looked up once."""
    marks: int = 0
    """The cache breakpoints that it brought along."""
    limit: int | None = None
    """The most tokens of each of its texts, where they were cut."""
    bare: bool = False
    """Whether its thinking was removed."""
    called_again: bool = False
    """Whether its texts were cut because the same call was made again later."""
    asked: tuple[int, ...] = ()
    """The positions of the messages that told what mattered in its texts, where they were cut."""
    counter: TokenCounter | None = None
    digest: str = ""
    """A hash of the message as it came, whatever the order of its fields, its null fields and its cache marks."""
    made: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """What was made of it before: other forms, the line of a note."""
    counted: int = -1

    @property
    def tokens(self) -> int:
        """Tokens of the message, counted when they are first asked for."""
        if self.counted < 0:
            counter = counter_or_default(self.counter)
            try:
                self.counted = self.extra + sum(count_tokens(counter, text) for text in self.texts if text)
            except InvalidItemError as error:
                msg = f"messages[{self.at}]: {error}"
                raise InvalidItemError(msg) from error
        return self.counted

    @property
    def text(self) -> str:
        """Its texts, one below the other."""
        return "\n".join(filter(None, self.texts))

    def reject(self, rejection: str) -> None:
        """Note that the message cannot be sent; the first reason stays."""
        if self.rejection is None:
            self.rejection = rejection


EMPTY_CONTENT = "empty content"
"""The rejection of an empty message, or of an empty block in it."""
TWO_CALLS = "two calls with one id"
NO_CALL = "result without its call"
NO_RESULT = "call without its result"


UnitRole = Literal["assistant", "exchange", "system", "user"]
"""The type of a unit: the role of a message, or an `exchange`: calls with all their results."""


@dataclass(slots=True)
class Unit:
    """Messages that can only be sent together, by position in the history."""

    positions: list[int]
    role: UnitRole
    opens: Role
    """The role of its first message."""
    closes: Role
    """The role of its last message."""
    requires: tuple[int, ...] = ()
    """Positions of messages without whose units this one cannot be sent, though they can without it."""
    waiting: bool = False
    """It ends in work on the provider's side that goes on with the next request."""
    pinned: bool = False
    is_stale: bool = False
    """A later compaction replaces it: it goes first where not everything fits, and leaves no note."""
    rejection: str | None = None
    """Why it can never be sent."""
    pin_reason: str | None = None
    """Why it is pinned, if not by role or by the caller."""
    places: tuple[int, ...] = ()
    """The positions of its messages in the history; `positions` are those in what was read of it."""

    def absorb(self, other: Unit, infos: Sequence[Message]) -> None:
        """Make `other` part of this unit."""
        self.positions = sorted({*self.positions, *other.positions})
        self.opens = infos[self.positions[0]].role
        self.closes = infos[self.positions[-1]].role
        self.requires = tuple(sorted({*self.requires, *other.requires} - {*self.positions}))
        self.waiting = self.waiting or other.waiting
        self.pinned = self.pinned or other.pinned
        self.is_stale = self.is_stale and other.is_stale
        self.rejection = self.rejection or other.rejection
        if "exchange" in (self.role, other.role):
            self.role = "exchange"

    def reject(self, rejection: str) -> None:
        """Note that the unit cannot be sent; the first reason stays."""
        self.rejection = self.rejection or rejection

    def pin(self, reason: str | None = None) -> None:
        """Keep the unit whatever the budget; the first reason stays."""
        self.pinned = True
        self.pin_reason = self.pin_reason or reason


def unit_of(positions: list[int], infos: Sequence[Message], rejection: str | None = None) -> Unit:
    """Return a unit over `positions`, with the role and the rejection that its messages give it."""
    members = [infos[position] for position in positions]
    first, last = members[0].role, members[-1].role
    paired = any(member.calls or member.results for member in members)
    role: UnitRole = "exchange" if paired or first == "tool" else first
    rejection = rejection or next((member.rejection for member in members if member.rejection), None)
    return Unit(positions, role, opens=first, closes=last, rejection=rejection)


def holders(units: Iterable[Unit]) -> dict[int, Unit]:
    """Return the unit that each message is part of, by position."""
    return {position: unit for unit in units for position in unit.positions}


def in_order(units: Iterable[Unit]) -> list[Unit]:
    """Return the units by their first messages, each once."""
    distinct = {id(unit): unit for unit in units}
    return sorted(distinct.values(), key=lambda unit: unit.positions[0])


def forbid_repeated_calls(units: Iterable[Unit], infos: Sequence[Message]) -> None:
    """Reject all but the newest of the exchanges that share a call id: ids must be unique in a request."""
    seen: set[str] = set()
    for unit in sorted(units, key=lambda unit: unit.positions[-1], reverse=True):
        calls = [call for position in unit.positions for call in infos[position].calls]
        if seen.intersection(calls) or len(set(calls)) < len(calls):
            unit.reject(TWO_CALLS)
        if unit.rejection is None:
            seen.update(calls)


UNANSWERED = "alternation: another user message follows without an answer between"
UNFINISHED = "alternation: another assistant message follows"
IN_A_ROW = "alternation: messages of one side in a row that cannot be parted"


def alternating(units: Sequence[Unit], infos: Sequence[Message], *, results_are_user: bool, merges: bool) -> list[Unit]:
    """Make the answer and the calls of every turn require its question, so that any selection alternates.

    Questions without an answer between them are merged when they are sent, also where steps come between them. Where
    messages cannot be merged (`merges` is False), answers are joined to their questions, and unanswered questions are
    rejected. Calls and results in separate messages are steps on the way to the answer and count for neither side,
    unless `results_are_user`.
    """
    turns: list[list[Unit]] = [[]]
    for unit in units:
        sides = _sides(unit, infos, results_are_user=results_are_user)
        if any(one == other and (one or not merges) for one, other in pairwise(sides)):
            unit.reject(IN_A_ROW)
        if unit.role == "system" or unit.rejection:
            continue
        if unit.opens == "user":
            turns.append([])
        turns[-1].append(unit)
    joined: set[int] = set()
    for turn in turns[1:]:
        answer = _answer(turn, infos)
        if answer is None and turn is not turns[-1] and not merges:
            for unit in turn:
                unit.reject(UNANSWERED)
            continue
        ends = [turn[0], *([answer] if answer is not None and merges else [])]
        for step in turn[1:]:
            step.requires = (*step.requires, *(end.positions[0] for end in ends if end is not step))
        if answer is not None and not merges:
            turn[0].absorb(answer, infos)
            joined.add(id(answer))
    return in_order(unit for unit in units if id(unit) not in joined)


def _sides(unit: Unit, infos: Sequence[Message], *, results_are_user: bool) -> list[bool]:
    """Return for each message of a unit that counts for a side whether it is the assistant's."""
    members = [infos[position] for position in unit.positions]
    counted = members if results_are_user else [one for one in members if one.speaks and not one.calls]
    return [member.role == "assistant" for member in counted if member.role != "system"]


def _answer(turn: list[Unit], infos: Sequence[Message]) -> Unit | None:
    """Return the answer of a turn, if it has one; earlier words of the assistant are rejected."""
    speaking = [step for step in turn[1:] if True in _sides(step, infos, results_are_user=False)]
    for step in speaking:
        if step is not turn[-1]:
            step.reject(UNFINISHED)
    return turn[-1] if speaking and turn[-1] is speaking[-1] else None
