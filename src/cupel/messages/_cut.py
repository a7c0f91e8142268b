"""A request that is cut: what must stay, and the steps that a pipeline selects beside it, as items with forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from cupel._internal.checks import warn
from cupel.errors import ConfigurationWarning
from cupel.messages._forms import LEAST_LIMIT, Forms
from cupel.messages._gaps import (
    ANSWER_SHARE,
    NOTES_SHARE,
    Gap,
    Last,
    PlacedNote,
    clipped,
    find_gaps,
    is_noted,
    smallest_note,
    step_in,
    untold,
    write_notes,
)
from cupel.messages._notes import LINE_TOKENS
from cupel.messages._present import PRESENT_SHARE, Present
from cupel.messages._results import too_large
from cupel.model import ID_KEY, WORTH_KEY, ContextBudget
from cupel.presets import conversation
from cupel.scorers import REUSE_KEY

if TYPE_CHECKING:
    from cupel.diagnostics import SelectionReport
    from cupel.messages._formats import SentMessage
    from cupel.messages._history import History
    from cupel.messages._present import Held
    from cupel.messages._units import Message
    from cupel.model import ContextItem
    from cupel.pipeline import Pipeline
    from cupel.shorten import Shortener


_LIMITS: Final = (160, 32, 8)
"""Texts of older steps may be cut to these parts of the window."""
_SHRINKS: Final = 0.8
"""A form that keeps more of the tokens than this is not offered."""
_WORDS: Final = 10
"""So many tokens of words beside the calls, which every form keeps, are worth as much as the rest of a step."""
_WINDOWS: Final = 3
"""A step can be selected while at most this many windows of tokens came after it."""
_MARKS: Final = 4
_TOO_MANY_MARKS: Final = (
    f"the request carries more than {_MARKS} cache breakpoints, which the provider refuses: send turn.marked() of a "
    f"session, which sets its own, or remove all but the newest"
)
_ATTEMPTS: Final = 5
"""How often a selection is made again without the units that the provider's rules exclude."""


class Reach:
    """How far back from the end of a history messages can still be selected."""

    def __init__(self, window: int) -> None:
        self._left = _WINDOWS * window
        self._largest = int(PRESENT_SHARE * window)  # longer outputs are cut, so one of them counts no more

    @property
    def is_passed(self) -> bool:
        """Whether messages before those that were added are too old."""
        return self._left < 0

    def add(self, tokens: int) -> None:
        """Go back by a message or a unit."""
        self._left -= min(tokens, self._largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Tokens for the messages of a request."""

    window: int
    """Tokens of a whole request."""
    hard: int
    """What the window leaves beside tools and system prompt."""
    soft: int
    """The same for the target, less the safety margin and reserved slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTerms:
    """How requests are cut, whatever the history."""

    pipeline: Pipeline | None = None
    """None for `presets.conversation()`."""
    keep: float = 1.0
    """The share of the free room that a cut fills."""
    shortener: Shortener | Literal[False] | None = None
    notes: bool = True
    gaps: bool = True
    query: str | None = None
    asks: bool = False
    """Whether the caller writes notes."""

    def filled(self, room: Room) -> int:
        """Return the tokens up to which a long output may fill a request beside what came with it."""
        return int(self.keep * room.soft) if self.keep < 1 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequest:
    """A request: messages in the form in which they are sent, and the notes on those that are not."""

    history: History
    """What was read of the history."""
    messages: tuple[Message, ...]
    notes: Mapping[int, PlacedNote]
    """By the position of the message that holds the note, or follows it."""
    cut: KeptUnits | None = None
    """How its units were selected, if it was cut."""

    @property
    def tokens(self) -> int:
        """Tokens of messages and notes."""
        return sum(one.tokens for one in self.messages) + sum(placed.note.tokens for placed in self.notes.values())

    def sent(self) -> list[SentMessage]:
        """Return the messages as they are sent."""
        if self.history.opening.marks + sum(one.marks for one in self.messages) > _MARKS:
            warn(ConfigurationWarning(_TOO_MANY_MARKS))
        results = {at: placed.text for at, placed in self.notes.items() if placed.note.in_result}
        asides = {at: placed.text for at, placed in self.notes.items() if not placed.note.in_result}
        return self.history.request(self.messages, results, asides)

    def described(self, sent: Sequence[SentMessage], size: int) -> dict[str, Any]:
        """Return what a result says about a request that is made of a history of some size."""
        return {
            "messages": [one.message for one in sent],
            "positions": tuple(one.positions[0] if one.positions else None for one in sent),
            "notes": tuple(placed.text for _, placed in sorted(self.notes.items())),
            "noted": tuple(sorted(self.notes)),
            "total_tokens": self.history.opening.tokens + self.tokens,
            "provider": self.history.format.name,
            "shortened": tuple(one.at for one in self.messages if one.limit is not None),
            "omitted": size - len(self.messages),
        }


class PipelineRun(NamedTuple):
    """A run of a pipeline, which a report repeats."""

    pipeline: Pipeline
    items: list[ContextItem]
    budget: ContextBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptUnits:
    """The units that a cut keeps."""

    chosen: Mapping[int, int | None]
    """The limits of the texts of the units that are sent; None for whole texts."""
    held: Held
    barred: Mapping[int, str]
    """Units that the provider's rules exclude, with the reason."""
    run: PipelineRun
    """What the pipeline selected from."""
    forms: Mapping[int, tuple[int, int | None]]
    """The unit and the limit that an item stands for, by the item's id."""
    gaps: tuple[Gap, ...]
    must: int
    """Tokens of what is held."""
    free: int
    """Tokens that are left for the rest."""

    def report(self) -> SelectionReport:
        """Return the pipeline's report: the run is repeated, with the same result."""
        return self.run.pipeline.dry_run(self.run.items, self.run.budget)


@dataclass(frozen=True)
class Cut:
    """One cut of a history that does not fit."""

    history: History
    terms: CutTerms
    room: Room
    last: Last
    source: Sequence[Any]
    """The whole history."""

    @cached_property
    def forms(self) -> Forms:
        """The forms that may be sent: without thinking that is bound to another prefix than the request will have."""
        bare = self.history.options.thinking == "bound"
        again = {at for index in self._superseded for at in self.history.places(index)}
        return Forms(
            self.history,
            self.terms.shortener,
            bare=bare,
            called_again=again,
            source=self.source,
        )

    @cached_property
    def _superseded(self) -> dict[int, int]:
        """The units whose calls were all made again later, each with the newest unit that made its first one."""
        found: dict[int, int] = {}
        newest: dict[tuple[str, str], int] = {}
        for index in reversed(self.history.sendable()):
            calls = [call for one in self.history.of(index) for call in zip(one.tools, one.arguments, strict=False)]
            if calls and newest.keys() >= {*calls}:
                found[index] = newest[calls[0]]
            for call in calls:
                newest.setdefault(call, index)
        return found

    @cached_property
    def recent(self) -> list[int]:
        """The newest units, as far back as one can still be selected."""
        found: list[int] = []
        reach = Reach(self.room.window)
        for index in reversed(self.history.sendable()):
            if reach.is_passed:
                break
            reach.add(self.forms.tokens(index))
            found.append(index)
        return found[::-1]

    def present(self, room: int) -> Present:
        """Return what must be in a request with some room."""
        total = sum(self.forms.tokens(index) for index in self.recent)
        excess = total - self.terms.filled(self.room)
        return Present(
            history=self.history,
            forms=self.forms,
            room=room,
            excess=excess,
            gaps=self.terms.gaps,
            superseded=self._superseded,
        )

    @cached_property
    def smallest_note(self) -> int:
        """Tokens of the note that every request has room for, if it could leave anything out."""
        history = self.history
        may_omit = any(gap.count for gap in untold(history, self.last).values()) or any(
            is_noted(history, index) and not (unit.pinned and unit.rejection is None)
            for index, unit in enumerate(history.units)
        )
        return (
            smallest_note(self.history.counter, ids=self.history.options.recall) if self.terms.notes and may_omit else 0
        )

    def choose(self) -> KeptUnits:
        """Select the units to send; raise if what must be sent does not fit."""
        pipeline = conversation() if self.terms.pipeline is None else self.terms.pipeline
        pipeline = pipeline.bind(query) if (query := self._query()) is not None else pipeline
        present, held = self._held(pipeline)
        must = sum(present.tokens(index, limit) for index, limit in held.items())
        free = max(0, self.room.soft - must)
        reserve = min(self._note_limit(held), max(free // 2, self.smallest_note), free)
        target = must + free - reserve - self._spare(free - reserve)
        run, forms, chosen, barred = self._selected(replace(pipeline, pins=()), present, held, target)
        sent = {index: self.forms.messages(index, limit) for index, limit in chosen.items()}
        separate = self.history.options.framework is None  # a framework's message cannot be created
        gaps = find_gaps(self.history, sent, self.last, separate=separate) if self.terms.notes else []
        return KeptUnits(
            chosen=chosen,
            held=held,
            barred=barred,
            run=run,
            forms=forms,
            gaps=tuple(gaps),
            must=must,
            free=free,
        )

    def _selected(
        self, pipeline: Pipeline, present: Present, held: Held, target: int
    ) -> tuple[PipelineRun, dict[int, tuple[int, int | None]], dict[int, int | None], dict[int, str]]:
        """Return the pipeline's run, its items' units and limits, the units that are sent, and those barred by rules.

        Units that cannot be sent because others are missing are barred, and their tokens are for others.
        """
        barred = {index: why for index, why in self._barred().items() if index not in held}
        attempts = 0
        while True:
            run, forms = self._offer(pipeline, present, held, barred, target)
            items = run.pipeline.run(run.items, run.budget)
            chosen = dict(sorted(forms[id(item)] for item in items if id(item) in forms))
            gone = self.history.rules.drop_violations({*chosen}, {*held})
            barred |= {index: why for index, why in gone.items() if index not in held}
            attempts += 1
            if not gone or attempts == _ATTEMPTS:
                return run, forms, {index: limit for index, limit in chosen.items() if index not in gone}, barred

    def _spare(self, free: int) -> int:
        """Return the tokens that a cut leaves to the next turns, of those that are free beside what must stay."""
        return int((1 - self.terms.keep) * free)

    def _query(self) -> str | None:
        if self.terms.pipeline is None:
            return None
        return self.history.asked() if self.terms.query is None else self.terms.query

    def _note_limit(self, held: Held) -> int:
        """Return the tokens that all notes may take together, if nothing but what is held is sent."""
        if not self.terms.notes:
            return 0
        limit = self.room.window // NOTES_SHARE
        limit += self.room.window // ANSWER_SHARE if self.terms.asks else 0
        lines = sum(step_in(self.history, index).tokens for index in self.recent if index not in held)
        before = sum(note.tokens for note in self.last.notes.values())
        return max(self.smallest_note, min(limit, self.smallest_note + lines + before))

    def _barred(self) -> dict[int, str]:
        """Return the units that cannot be sent, with the reason."""
        units = enumerate(self.history.units)
        return {index: unit.rejection for index, unit in units if unit.rejection is not None}

    def _held(self, pipeline: Pipeline) -> tuple[Present, Held]:
        """Return the units that are sent whatever their score; raise if the least does not fit."""
        rules, noted = self.history.rules, self.smallest_note
        named = noted + min(LINE_TOKENS, self.room.window // NOTES_SHARE) if noted else 0
        soft, hard = self.present(self.room.soft - named), self.present(self.room.hard - noted)
        counted = self.present(self.room.soft - noted)
        levels = (soft.levels(self._ruled(pipeline, soft)), soft.levels(), counted.levels(), hard.least())
        for held in chain.from_iterable(levels) if hard.room >= 0 else ():
            if not rules.drop_violations({*held}, {*held}):
                return soft, held
        raise too_large(self.history, self.room.window, sorted(hard.needed(set())), noted)

    def _ruled(self, pipeline: Pipeline, present: Present) -> frozenset[int]:
        """Return the units that the pipeline's rules pin, the newest first, while they fit.

        What must be sent has its place already. Others may be old outputs larger than the window: they compete.
        """
        if not pipeline.pins:
            return frozenset()
        indexes = self.history.sendable()
        items = [self.history.item(index, self.history.of(index), pinned=False) for index in indexes]
        left = present.room - sum(present.tokens(index, None) for index in present.needed(set()))
        found: set[int] = set()
        for at in sorted(pipeline.pinned(items), reverse=True):
            if items[at].tokens <= left:
                left -= items[at].tokens
                found.add(indexes[at])
        return frozenset(found)

    def _offer(
        self, pipeline: Pipeline, present: Present, held: Held, barred: Mapping[int, str], target: int
    ) -> tuple[PipelineRun, dict[int, tuple[int, int | None]]]:
        """Return what the pipeline selects from, and the unit and limit of each item, by the item's id."""
        offered: list[tuple[ContextItem, int, int | None]] = []
        for index in sorted({*self.recent, *held}):
            if index in held:
                item = self._item(index, held[index], pinned=True)
                offered.append((item, index, held[index]))
            elif index not in barred and self.terms.gaps:
                offered += [(item, index, limit) for item, limit in self._forms(index, present)]
        if not self.terms.gaps:
            offered = self._unbroken(offered, present, held, barred, target)
        opening = self.history.opening
        tokens = opening.tokens + target
        budget = ContextBudget(max(tokens, self.room.window), tokens)
        run = PipelineRun(pipeline, [*opening.items, *(item for item, _, _ in offered)], budget)
        return run, {id(item): (index, limit) for item, index, limit in offered}

    def _unbroken(
        self,
        offered: list[tuple[ContextItem, int, int | None]],
        present: Present,
        held: Held,
        barred: Mapping[int, str],
        target: int,
    ) -> list[tuple[ContextItem, int, int | None]]:
        """Return held items with the newest others, as many in a row as fit: messages leave from the old end only."""
        left = target - sum(item.tokens for item, _, _ in offered)
        found = list(offered)
        for index in reversed(self.recent):
            if index in held:
                continue
            limit = present.base(index)
            left -= present.tokens(index, limit)
            if left < 0 or index in barred:
                break
            found.append((self._item(index, limit, pinned=True), index, limit))
        return found

    def _forms(self, index: int, present: Present) -> list[tuple[ContextItem, int | None]]:
        """Return the forms of a unit that compete: as long as one may be, and shorter ones."""
        base = present.base(index)
        forms = self.forms
        longest = forms.tokens(index, base)
        sizes = {longest: base}
        for part in _LIMITS:
            limit = max(LEAST_LIMIT, self.room.window // part)
            tokens = forms.tokens(index, limit)
            if (base is None or limit < base) and tokens <= _SHRINKS * longest:
                sizes.setdefault(tokens, limit)
        if longest == 0 or (len(sizes) == 1 and index not in self._superseded):
            return [(self._item(index, base, pinned=False), base)]
        label = str(self.history.places(index)[0])
        whole = max(self.forms.tokens(index), 1)
        said = self._reuse[index]["said"]
        words = said / (said + _WORDS)
        worths = [words + (1 - words) * _kept_score(min(1.0, tokens / whole)) for tokens in sizes]
        return [
            (self._item(index, limit, pinned=False, label=label, worth=worth), limit)
            for limit, worth in zip(sizes.values(), worths, strict=True)
        ]

    def _item(
        self, index: int, limit: int | None, *, pinned: bool, label: str | None = None, worth: float = 1.0
    ) -> ContextItem:
        metadata: dict[str, Any] = {REUSE_KEY: self._reuse[index]} if index in self._reuse else {}
        if label is not None:
            metadata |= {ID_KEY: label, WORTH_KEY: worth}
        return self.history.item(index, self.forms.messages(index, limit), pinned=pinned, metadata=metadata)

    @cached_property
    def _reuse(self) -> dict[int, dict[str, float]]:
        return self.history.reuse(self.recent, self._superseded)

    def finish(self, selection: KeptUnits, words: Mapping[int, str]) -> MessageRequest:
        """Return the request, with a note for each gap, and texts made longer where there is room.

        Args:
            selection: the units to send.
            words: what the caller wrote on gaps, by the gaps' places.
        """
        used = sum(self.forms.tokens(index, limit) for index, limit in selection.chosen.items())
        notes = self._notes(selection, words, selection.must + selection.free - used)
        noted = sum(placed.note.tokens for placed in notes.values())
        room = selection.must + selection.free - noted - used
        chosen = self._lengthened(selection, room - self._spare(selection.free - noted), room)
        messages = [message for index, limit in chosen.items() for message in self.forms.messages(index, limit)]
        messages.sort(key=lambda message: message.at)
        cut = replace(selection, chosen=chosen)
        return MessageRequest(history=self.history, messages=tuple(messages), notes=notes, cut=cut)

    def _notes(self, selection: KeptUnits, words: Mapping[int, str], left: int) -> dict[int, PlacedNote]:
        counter, ids = self.history.counter, self.history.reader.ids
        found: dict[int, PlacedNote] = {}
        limit = self.room.window // ANSWER_SHARE
        for gap in selection.gaps:
            if said := clipped(words.get(gap.holder, ""), limit, counter):
                found[gap.holder] = gap.noted(gap.number(said, ids), 0, counter, said)
                left -= found[gap.holder].note.tokens
        rest = [gap for gap in selection.gaps if gap.holder not in found]
        most = min(self.room.window // NOTES_SHARE, left - len(rest) * 5)
        return found | write_notes(rest, counter, most, ids)

    def _lengthened(self, selection: KeptUnits, left: int, room: int) -> dict[int, int | None]:
        """Return the limits of the units that are sent, longer where there is room, the newest first.

        Args:
            selection: the units.
            left: the tokens that are left of those that a cut fills.
            room: the tokens that are left at all: an output of the newest steps that fits there is whole.
        """
        chosen = dict(selection.chosen)
        present = self.present(self.room.soft)
        newest = present.newest()
        for index in sorted(chosen, reverse=True):
            limit, base = chosen[index], present.base(index)
            may_grow = index in newest or index in selection.held or limit == base
            if limit is None or index in self._superseded or not may_grow:
                continue
            longer = present.lengthened(index, limit, left)
            if index in newest and _is_shorter(longer, base):
                missing = present.tokens(index, base) - present.tokens(index, limit)
                longer = base if missing <= room else longer
            if longer != limit:
                gained = self.forms.tokens(index, longer) - self.forms.tokens(index, limit)
                left, room = left - gained, room - gained
                chosen[index] = longer
        return chosen


def _kept_score(share: float) -> float:
    """Return the share of the score that a form keeps with a share of the tokens: its power of 3/8."""
    return sqrt(sqrt(share)) * sqrt(sqrt(sqrt(share)))


def _is_shorter(limit: int | None, other: int | None) -> bool:
    return limit is not None and (other is None or limit < other)
