"""Gaps in a request, and the notes on them: every omitted step is in a note, with a line of its own or counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from cupel._internal.checks import MOST_TOKENS
from cupel.messages._ids import UNTIL, Ids, noted_step
from cupel.messages._notes import OmittedStep, can_hold_note, note_text, told
from cupel.messages._present import MESSAGE_FRAME
from cupel.messages._reading import ONLY_A_NOTE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from cupel.messages._history import History
    from cupel.messages._units import Message
    from cupel.tokens import TokenCounter

NOTES_SHARE: Final = 10
"""All notes of a request together take at most this fraction (one tenth) of the budget."""
ANSWER_SHARE: Final = 20
"""A note that the caller writes takes at most this fraction (one twentieth) of the budget."""

_LARGE = 9_999
_WIDE_ID = "4f8e2b7"
"""An id of more tokens than most."""
Amount = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A note of the last request, without its text: how many steps it tells of, and where those with a line are."""

    tokens: Amount
    steps: Amount
    names: dict[str, Amount]
    """How often it tells of each tool, or of a message of a role."""
    lines: tuple[tuple[Amount, ...], ...]
    """The positions of the steps that have a line, oldest first."""
    newest: Amount
    """The position of the newest step that it tells of."""
    in_result: bool
    """Whether it is part of a tool result, rather than a message of its own."""
    words: str = ""
    """The words that the caller wrote."""


class Last(NamedTuple):
    """The last request, as far as the next one depends on it."""

    sent: AbstractSet[int] = frozenset()
    """The positions of its messages."""
    notes: Mapping[int, Note] = MappingProxyType({})
    """Its notes, by the positions of the messages that they were in, or preceded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Omitted steps that share a note."""

    holder: int
    """The position of the message that the note goes into, or precedes."""
    in_result: bool = False
    steps: tuple[OmittedStep, ...] = ()
    """Those that were read, oldest first."""
    older: int = 0
    """The number of steps before them that were not."""
    names: Counter[str] = field(default_factory=Counter[str])
    """How often these called each tool."""
    before: tuple[Note, ...] = ()
    """The notes of the last request that told of some of them."""

    @property
    def count(self) -> int:
        """The number of omitted steps."""
        return self.older + len(self.steps)

    def joined(self, later: Gap) -> Gap:
        """Return this gap and a later one as one, told of at the later one's place."""
        return replace(
            later,
            steps=(*self.steps, *later.steps),
            older=self.older + later.older,
            names=self.names + later.names,
            before=self.before + later.before,
        )

    def newest(self, count: int) -> tuple[OmittedStep, ...]:
        """Return the newest of the steps that were read."""
        return self.steps[len(self.steps) - count :]

    def counted(self, lines: int) -> Counter[str]:
        """Return how often the steps that have no line called each tool."""
        older = self.steps[: len(self.steps) - lines]
        return self.names + Counter(name for step in older for name in step.names)

    @property
    def last(self) -> int:
        """The position of the newest step."""
        return max(
            [*(step.positions[0] for step in self.steps[-1:]), *(note.newest for note in self.before)], default=0
        )

    def text(self, lines: int, ids: Ids | None = None) -> str:
        """Return the note: the newest steps line by line, the older ones counted."""
        newest = self.newest(lines)
        name = counted_id(ids, [step.positions for step in newest], self.last)
        return note_text(self.count, told(self.counted(lines), newest, name))

    def number(self, words: str = "", ids: Ids | None = None) -> str:
        """Return the note that gives the number of steps, with words of the caller."""
        return note_text(self.count, words, counted_id(ids, (), self.last))

    def noted(self, text: str, lines: int, counter: TokenCounter, words: str = "") -> PlacedNote:
        """Return the note in its place."""
        places = tuple(step.positions for step in self.newest(lines))
        names = dict(sorted(self.counted(0).items()))
        tokens = note_tokens(text, counter, in_result=self.in_result)
        return PlacedNote(text, Note(tokens, self.count, names, places, self.last, self.in_result, words))


def counted_id(ids: Ids | None, lines: Sequence[tuple[int, ...]], last: int) -> str:
    """Return the id of the steps of a note that are only counted: those before the first with a line."""
    return "" if ids is None else ids.name(max(0, lines[0][0] - 1) if lines else last, UNTIL)


@dataclass(frozen=True, slots=True)
class PlacedNote:
    """A note in a request."""

    text: str
    note: Note
    """Everything about it that the next turn needs."""


def note_tokens(text: str, counter: TokenCounter, *, in_result: bool) -> int:
    """Return the tokens that a note adds: the line break before the result, or the frame of a separate message."""
    return counter.count(f"{text}\n") if in_result else counter.count(text) + MESSAGE_FRAME


def placed_again(text: str, note: Note, counter: TokenCounter) -> PlacedNote | None:
    """Return a note with its text; None if it is not the one that was sent."""
    return PlacedNote(text, note) if note_tokens(text, counter, in_result=note.in_result) == note.tokens else None


def find_gaps(
    history: History, sent: Mapping[int, Sequence[Message]], last: Last, *, separate: bool, start: int = 0
) -> list[Gap]:
    """Return the omitted steps of a history in groups that share a note, oldest first.

    A note goes into the next tool result that is sent; neighbouring gaps without one between them share the note of the
    later. Where no result follows, it goes before the first message after the last omitted step. Messages at the end
    that cannot be sent, such as a call without its result, are no earlier steps: alone, they have no note.

    Args:
        history: what was read of the history.
        sent: the messages of the units that are sent, by unit.
        last: the last request.
        separate: whether a note may be a separate message.
        start: the position from which on steps are told of.
    """
    earlier = untold(history, last)
    gaps: list[Gap] = []
    pending: Gap | None = None
    place, newest, is_open = -1, -1, False
    for index in range(len(history.units)):
        places = history.places(index)
        if not history.is_read(index) or places[0] < start:
            continue
        for holder in [holder for holder in earlier if holder <= places[-1]]:
            pending, is_open = _joined(pending, earlier.pop(holder)), True
        if index not in sent:
            if is_noted(history, index):
                pending, is_open = _joined(pending, Gap(holder=-1, steps=(step_in(history, index),))), True
            continue
        newest = sent[index][0].at if sent[index] else newest
        if pending is None or not pending.count:
            continue
        place, is_open = (newest if is_open else place), False
        result = note_holder(history, sent[index])
        if result is not None:
            gaps.append(replace(pending, holder=result, in_result=True))
            pending, place = None, -1
    if pending is not None and pending.count:
        result = None if place >= 0 else _later_result(history, sent, pending)
        if result is not None:
            gaps.append(replace(pending, holder=result, in_result=True))
        elif separate and place >= 0:
            gaps.append(replace(pending, holder=place))
    return gaps


def _later_result(history: History, sent: Mapping[int, Sequence[Message]], gap: Gap) -> int | None:
    """Return the first result after a gap that answers a call before it."""
    if not gap.steps:
        return None
    first = gap.steps[0].positions[0]
    return note_holder(history, sorted((m for one in sent.values() for m in one if m.at > first), key=lambda m: m.at))


def _joined(pending: Gap | None, gap: Gap) -> Gap:
    return gap if pending is None else pending.joined(gap)


def is_noted(history: History, index: int) -> bool:
    """Return whether a note tells of a unit that is left out: not of system messages, or what was compacted."""
    unit = history.units[index]
    return unit.role != "system" and not unit.is_stale and unit.rejection != ONLY_A_NOTE


def step_in(history: History, index: int) -> OmittedStep:
    """Return what a note says of a unit."""
    messages, places = history.of(index), history.places(index)
    key = "step", places
    made = messages[0].made
    if key not in made:
        made[key] = noted_step(messages, history.reader)
    step: OmittedStep = made[key]
    return step


def note_holder(history: History, messages: Iterable[Message]) -> int | None:
    """Return the position of the first of some messages that a note can go into."""
    holds = (one.at for one in messages if one.is_output or can_hold_note(one.view, history.format))
    return next(holds, None)


def untold(history: History, last: Last) -> dict[int, Gap]:
    """Return what the last request's notes told of, by their places: steps that are not read now go with the oldest.

    Whatever is not read is older than all that is, whichever note told of it.
    """
    notes = sorted(last.notes.items())
    newest = max((note.newest for _, note in notes), default=-1)
    steps, names = 0, Counter[str]()
    for _, note in notes:
        steps, names = steps + note.steps, names + Counter(note.names)
    for index in range(len(history.units)):
        places = history.places(index)
        told = any(0 <= at <= newest and at not in last.sent for at in places)  # of a part that was sent, or of all
        if told and (is_noted(history, index) or history.units[index].is_stale):
            steps -= 1
            names.subtract(step_in(history, index).names)
    found = {holder: Gap(holder=holder, before=(note,)) for holder, note in notes}
    for holder, _ in notes[:1]:
        found[holder] = replace(found[holder], older=max(0, steps), names=+names)
    return found


def write_notes(
    gaps: Sequence[Gap], counter: TokenCounter, limit: int, ids: Ids | None = None
) -> dict[int, PlacedNote]:
    """Return the notes on gaps by the positions of their holders, within `limit` tokens in all if possible.

    The newest steps have a line, older ones are counted by name. Where that is too much, the oldest gaps are told of
    in the note of the next, and the last note that is left gives a number alone.
    """
    gaps = list(gaps)
    lines = _newest_within([len(gap.steps) for gap in gaps], [step.tokens for gap in gaps for step in gap.steps], limit)
    while True:
        notes = [(gap, gap.text(count, ids), count) for gap, count in zip(gaps, lines, strict=True)]
        excess = sum(counter.count(text) for _, text, _ in notes) - limit
        if excess <= 0 or not notes:
            return {gap.holder: gap.noted(text, count, counter) for gap, text, count in notes}
        if any(lines):
            told = sum(step.tokens for gap, count in zip(gaps, lines, strict=True) for step in gap.newest(count))
            tokens = [step.tokens for gap in gaps for step in gap.steps]
            fewer = _newest_within([len(gap.steps) for gap in gaps], tokens, told - excess)
            lines = fewer if fewer != lines else _without_oldest(lines)
        elif len(gaps) > 1:
            gaps = [gaps[0].joined(gaps[1]), *gaps[2:]]
            lines = [0] * len(gaps)
        else:
            return {gaps[0].holder: gaps[0].noted(gaps[0].number(ids=ids), 0, counter)}


def _newest_within(counts: Sequence[int], tokens: Sequence[int], limit: int) -> list[int]:
    """Return how many of the newest steps of each gap are together within a limit, newest gaps first."""
    found = [0] * len(counts)
    at = len(tokens)
    for gap in reversed(range(len(counts))):
        for _ in range(counts[gap]):
            at -= 1
            limit -= tokens[at]
            if limit < 0:
                return found
            found[gap] += 1
    return found


def _without_oldest(lines: Sequence[int]) -> list[int]:
    first = next(at for at, count in enumerate(lines) if count)
    return [*lines[:first], lines[first] - 1, *lines[first + 1 :]]


def smallest_note(counter: TokenCounter, *, ids: bool = False) -> int:
    """Return the tokens of a note that only gives a number, and an id."""
    return counter.count(note_text(_LARGE, name=_WIDE_ID if ids else "")) + MESSAGE_FRAME


def clipped(text: str, limit: int, counter: TokenCounter) -> str:
    """Return the beginning of a text, within a limit of tokens."""
    text = " ".join(text.split())
    size = len(text)
    while size > 0 and counter.count(text[:size]) > limit:
        size = min(size - 1, size * max(limit, 1) // counter.count(text[:size]))
    return text if size == len(text) else f"{text[:size].rstrip()}…"
