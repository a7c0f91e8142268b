"""Which selections of units can be sent, and which units must be.

Units are valid by themselves; everything else that a provider demands of their sequence is checked after selecting,
because leaving one out moves its neighbours together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Literal

from cupel._internal.checks import shown, wrong_type
from cupel.errors import ConfigurationError
from cupel.messages._units import holders

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from cupel.messages._units import Message, Unit


NO_COMPANION = "a message that it cannot be sent without is missing"


@dataclass(frozen=True, slots=True)
class Rules:
    """Conditions on the units of a request: `requires` met, valid ends, the running tool loop with its thinking."""

    units: Sequence[Unit]
    ends: Ends
    loops: Loops | None = None

    def reject_unsendable(self) -> None:
        """Reject the units that cannot be sent even if nothing is left out."""
        for index, reason in self.drop_violations(set(self._sendable())).items():
            self.units[index].reject(reason)

    def drop_violations(self, chosen: AbstractSet[int], held: AbstractSet[int] | None = None) -> dict[int, str]:
        """Return the units of `chosen` that have to go, with the reason; the rest can be sent.

        `held` units, by default the pinned ones, go only if they cannot be sent by themselves.
        """
        if held is None:
            held = {index for index in chosen if self.units[index].pinned}
        dropped: dict[int, str] = {}
        while gone := self._violations(chosen - dropped.keys(), held):
            dropped |= gone
        return dropped

    def complete(self, chosen: AbstractSet[int], cost: Callable[[int], int], room: int) -> set[int]:
        """Return the sendable units that `chosen` needs beside it, and those that they need in turn.

        Where one of several would do, it is the nearest whose tokens fit into `room`, or else the cheapest.
        """
        added: set[int] = set()
        while ways := self._ways(chosen | added):
            left = room - sum(map(cost, added))
            prices = [sum(map(cost, way)) for way in ways]
            fitting = [way for way, price in zip(ways, prices, strict=True) if price <= left]
            added |= fitting[0] if fitting else ways[prices.index(min(prices))]
        return added

    def _violations(self, chosen: AbstractSet[int], held: AbstractSet[int]) -> dict[int, str]:
        holder = self._holder(chosen)
        alone = {i: NO_COMPANION for i in chosen if any(at not in holder for at in self.units[i].requires)}
        return alone or self.ends.trim(self.units, chosen) or self._without_thinking(holder, held)

    def _without_thinking(self, holder: dict[int, int], held: AbstractSet[int]) -> dict[int, str]:
        if self.loops is None:
            return {}
        positions = sorted(holder)
        loop, early = self.loops.out_of_place(positions)
        gone = {holder[at] for at in early}
        if gone & held:
            # The held units are valid by themselves: then other units of the loop have to go, or those that make it a
            # loop of its own: the user's words before it, or the answer that those came after.
            border = self.loops.border(positions, loop[0])
            ways = ({holder[at] for at in way} - held for way in (loop, border[:-1], border))
            gone = next(filter(None, ways), gone)
        return dict.fromkeys(gone, NO_THINKING)

    def _ways(self, chosen: AbstractSet[int]) -> list[set[int]]:
        """Return ways to mend one thing that is wrong with `chosen`, the best first: sets of units to add."""
        anywhere = self._holder(self._sendable())
        required = {anywhere[at] for index in chosen for at in self.units[index].requires if at in anywhere} - chosen
        if required:
            return [required]
        ways = [{index} for index in self.ends.companions(self.units, chosen)]
        if not ways and self.loops is not None:
            mends = self.loops.mends(sorted(self._holder(chosen)))
            ways = [{anywhere[at] for at in mend if at in anywhere} - chosen for mend in mends]
        return [way for way in ways if way]

    def _sendable(self) -> list[int]:
        return [index for index, unit in enumerate(self.units) if unit.rejection is None]

    def _holder(self, indexes: Collection[int]) -> dict[int, int]:
        """Return for each message of these units the unit that holds it."""
        return {position: index for index in indexes for position in self.units[index].positions}


NO_OPENING = "nothing the user said comes before it"
NO_CLOSING = "nothing comes after it that the model could answer"


@dataclass(frozen=True, slots=True)
class Ends:
    """Which units may be first and last: those of the user, and those that were in the history."""

    first: int
    """Where the assistant may begin."""
    last: int
    """Where the assistant may end."""

    @classmethod
    def strict(cls, size: int) -> Ends:
        """Return the ends for `size` messages: the assistant never begins, and ends with its last message only."""
        return cls(-1, size - 1)

    @classmethod
    def lenient(cls, units: Sequence[Unit]) -> Ends:
        """Return ends that let the assistant begin and end where everything that can be sent does."""
        talk = [unit for unit in units if unit.role != "system" and unit.rejection is None]
        return cls(
            min((unit.positions[0] for unit in talk), default=-1),
            max((unit.positions[-1] for unit in talk), default=-1),
        )

    def opens(self, unit: Unit) -> bool:
        """Return whether the unit may be first."""
        return unit.opens == "user" or unit.positions[0] == self.first

    def closes(self, unit: Unit) -> bool:
        """Return whether the unit may be last."""
        return unit.closes != "assistant" or unit.positions[-1] == self.last

    def companions(self, units: Sequence[Unit], chosen: Collection[int]) -> list[int]:
        """Return the units of which any would mend the beginning of `chosen`, or else its end; the nearest first."""
        talk = _talk(units, chosen)
        if not talk:
            return []
        others = [i for i in _talk(units, range(len(units))) if units[i].rejection is None]
        if not self.opens(units[talk[0]]):
            return [i for i in reversed(others) if i < talk[0] and self.opens(units[i])]
        final = max((units[index] for index in talk), key=_end)
        if self.closes(final):
            return []
        closers = [i for i in others if self.closes(units[i]) and _end(units[i]) > _end(final)]
        return sorted(closers, key=lambda index: _end(units[index]))

    def trim(self, units: Sequence[Unit], chosen: Collection[int]) -> dict[int, str]:
        """Return the units at the ends of `chosen` that have to go, with the reason."""
        talk = _talk(units, chosen)
        early = list(takewhile(lambda index: not self.opens(units[index]), talk))
        rest = sorted(talk[len(early) :], key=lambda index: -_end(units[index]))
        late = takewhile(lambda index: not self.closes(units[index]), rest)
        return dict.fromkeys(early, NO_OPENING) | dict.fromkeys(late, NO_CLOSING)


def _talk(units: Sequence[Unit], chosen: Collection[int]) -> list[int]:
    """Return the units of the user and the assistant, in order."""
    return sorted(index for index in chosen if units[index].role != "system")


def _end(unit: Unit) -> int:
    return unit.positions[-1]


NO_THINKING = "the running tool loop would not begin with its thinking"


@dataclass(frozen=True, slots=True)
class Loops:
    """Where the loops of a history begin, and which of them began with thinking."""

    infos: Sequence[Message]
    openers: dict[int, int]
    """For every message of a loop that began with thinking: the message it began with."""
    borders: dict[int, tuple[int, ...]]
    """For the first message of a loop: the last of the loop before, and the user messages in between."""

    @classmethod
    def of(cls, infos: Sequence[Message]) -> Loops:
        """Return the loops of a whole history."""
        loops = [loop for loop in _loops(range(len(infos)), infos) if loop]
        openers = {position: loop[0] for loop in loops if infos[loop[0]].opens_thinking for position in loop}
        borders = {after[0]: tuple(range(before[-1], after[0])) for before, after in pairwise(loops)}
        return cls(infos, openers, borders)

    def out_of_place(self, positions: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return the running loop of a selection, and the messages of it that come before its thinking."""
        loop = _loops(positions, self.infos)[-1]
        if not any(self.infos[at].calls for at in loop) or not any(at in self.openers for at in loop):
            return loop, []
        return loop, list(takewhile(lambda at: not self.infos[at].opens_thinking, loop))

    def border(self, positions: Sequence[int], first: int) -> list[int]:
        """Return the messages of a selection that make a loop begin at `first`: the user's, and the one before them."""
        before = [at for at in reversed(positions) if at < first]
        said = list(takewhile(lambda at: self.infos[at].role != "assistant", before))
        return [*(at for at in said if self.infos[at].role == "user"), *before[len(said) : len(said) + 1]]

    def mends(self, positions: Iterable[int]) -> list[set[int]]:
        """Return sets of messages of which any would put a selection right, the best first.

        That is a thinking step of the same loop, the nearest before its first step, or the message between two loops.
        """
        loop, early = self.out_of_place(positions)
        if not early:
            return []
        first = early[0]
        opener = self.openers.get(first, first)
        ways = [{at} for at in range(first - 1, opener - 1, -1) if self.infos[at].opens_thinking]
        merged = (self.openers[at] for at in loop if self.openers.get(at, opener) != opener)
        return [*ways, *(set(self.borders.get(at, ())) for at in merged)]


def _loops(positions: Iterable[int], infos: Sequence[Message]) -> list[list[int]]:
    """Return the assistant's messages, loop by loop; the last is the running one, empty if it has yet to begin."""
    loops: list[list[int]] = [[]]
    between: list[Message] = []
    for position in positions:
        info = infos[position]
        if info.role == "assistant":
            if _is_border(between):
                loops.append([])
            loops[-1].append(position)
            between = []
        elif info.role != "system":
            between.append(info)
    if _is_border(between):
        loops.append([])
    return loops


def _is_border(between: Sequence[Message]) -> bool:
    # Neighbours of one role are one turn to the provider: words after a result do not begin a new loop.
    return bool(between) and not any(info.results for info in between)


SystemMessages = Literal["keep", "compete"] | int
"""Which system messages after the opening ones stay: all, those that win a place, or this number of the newest."""

COMPACTED = "a later compaction replaces it"
EXPIRED = "a system message that newer ones have replaced"


def keep_system(units: Sequence[Unit], infos: Sequence[Message], which: SystemMessages) -> None:
    """Pin the system messages that open the conversation, and those later ones that the caller wants to keep."""
    _check(which)
    talk = min((at for at, info in enumerate(infos) if info.role != "system"), default=len(infos))
    later: list[Unit] = []
    for unit in units:
        if unit.role != "system" or unit.rejection is not None:
            continue
        if unit.positions[0] < talk or infos[unit.positions[0]].is_setting:
            unit.pin()
        else:
            later.append(unit)
    if which == "compete":
        return
    kept = len(later) if which == "keep" else min(which, len(later))
    for number, unit in enumerate(reversed(later)):
        if number < kept:
            unit.pin()
        else:
            unit.reject(EXPIRED)


def _check(which: object) -> None:
    if isinstance(which, bool) or not isinstance(which, (int, str)):
        raise wrong_type("system_messages", "'keep', 'compete' or an integer", which)
    if isinstance(which, str) and which not in ("keep", "compete"):
        msg = f"system_messages must be 'keep', 'compete' or an integer, got {shown(which)}"
        raise ConfigurationError(msg)
    if isinstance(which, int) and which < 0:
        msg = f"system_messages must not be negative, got {which}"
        raise ConfigurationError(msg)


def outdate(units: Sequence[Unit], infos: Sequence[Message]) -> None:
    """Pin the newest compaction and mark the units before it as stale.

    If it is part of an assistant's message, the nearest message of the user before it stays. System messages stay,
    unless they belong to messages that go. Older compactions that are part of the assistant's messages are rejected:
    only one of a request may carry content.
    """
    sendable = [unit for unit in units if unit.rejection is None]
    compactions = [unit for unit in sendable if any(infos[at].is_compaction for at in unit.positions)]
    if not compactions:
        return
    *older, newest = sorted(compactions, key=lambda unit: unit.positions[-1])
    newest.pin("the newest compaction")
    before = [unit for unit in units if unit.positions[-1] < newest.positions[0]]
    asked = [unit for unit in before if unit.opens == "user" and unit.rejection is None]
    opening = asked[-1] if asked and newest.role != "system" else None
    for unit in before:
        stays = unit.role == "system" and not unit.requires and not any(unit is one for one in older)
        unit.is_stale = unit is not opening and not stays
        unit.pinned = unit.pinned and not unit.is_stale
    for unit in older:
        if unit.role != "system":
            unit.reject(COMPACTED)


def pin_units(units: Sequence[Unit], infos: Sequence[Message], asked: Sequence[bool]) -> None:
    """Pin the messages that the model has yet to answer and those that the caller asked for."""
    sendable = [unit for unit in units if unit.rejection is None]
    holder = holders(unit for unit in sendable if not unit.is_stale)
    spoken = [at for at in holder if infos[at].speaks and infos[at].role in ("user", "tool")]
    if spoken:
        holder[max(spoken)].pin("the newest user message")
    last_word = max((position for position in holder if infos[position].role == "assistant"), default=-1)
    for position, unit in holder.items():
        if position > last_word and infos[position].results:
            unit.pin("results that the model has yet to see")
    for unit in sendable:
        if unit.waiting:
            unit.pin("work that goes on with this request")
        if any(asked[position] for position in unit.positions):
            unit.pin()
