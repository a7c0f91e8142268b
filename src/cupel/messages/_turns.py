"""A planned request as a turn: its messages with their notes, its cache breakpoints, and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from cupel._columns import descending
from cupel.diagnostics import ExcludedItem, Filtered, IncludedItem, InclusionReason, SelectionReport
from cupel.messages._history import ranges
from cupel.messages._results import Dropped, Turn, dropped_from

if TYPE_CHECKING:
    from cupel._planning import Decision, Entry
    from cupel.messages._history import History, Shorter
    from cupel.messages._segments import Segment
    from cupel.messages._window import PlannedRequest, TurnPlanner
    from cupel.model import ContextItem

Whole = tuple["History", Sequence["Segment"]]
"""A whole history, archived messages too, and its segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBuilder:
    """Turns a decided request into the messages to send, and everything that is said about it."""

    planner: TurnPlanner
    request: PlannedRequest
    step: Decision
    origin: Sequence[int]
    """Positions in the whole history, by position among the messages that were read."""
    size: int
    """The number of messages in the whole history."""
    limit: int
    """The most cache breakpoints that the request may carry."""
    whole: Callable[[], Whole]
    """Reads the whole history, for a report."""

    @property
    def segments(self) -> Sequence[Segment]:
        return self.planner.segments

    def build(self) -> Turn[Any]:
        """Return the turn."""
        history, step, origin = self.planner.history, self.step, self.origin
        shorter = {at: one for i, name in self.request.sent.items() for at, one in self._form(i, name).items()}
        positions = sorted(at for index in self.request.sent for at in self.segments[index].positions)
        placed = self.request.notes
        sent = history.request(positions, shorter, {one.slot: one.note.text for one in placed.values()})
        marked = self._marked(positions)
        places = {segment.key: segment for segment in self.segments}
        report = _Report(self)
        return Turn(
            report.report,
            report.dropped,
            messages=[one.message for one in sent],
            positions=tuple(None if one.position is None else origin[one.position] for one in sent),
            notes=tuple(placed[at].note.text for at in sorted(placed)),
            total_tokens=step.bill.sent,
            provider=history.format.name,
            shortened=tuple(sorted(origin[at] for at in shorter)),
            noted=tuple(sorted(origin[one.slot.position] for one in placed.values())),
            omitted=self.size - len(positions),
            budget=self.planner.window,
            action=step.action,
            reason=step.reason,
            changes=tuple(
                replace(change, positions=self._origin(segment), label=self._label(segment))
                for change in step.changes
                for segment in (places[change.key],)
            ),
            marks=tuple(number for number, one in enumerate(sent) if not marked.isdisjoint(one.positions)),
            bill=step.bill,
        )

    def _form(self, index: int, name: str) -> Mapping[int, Shorter]:
        return self.segments[index].form(name).messages

    def _origin(self, segment: Segment) -> tuple[int, ...]:
        return tuple(self.origin[at] for at in segment.positions)

    def _label(self, segment: Segment) -> str:
        infos = self.planner.history.infos
        tools = dict.fromkeys(tool for at in segment.positions for tool in infos[at].tools)
        place = ranges(self._origin(segment))
        return f"{place} ({', '.join(tools)})" if tools else place

    def _marked(self, positions: Sequence[int]) -> set[int]:
        """Return the messages to set cache breakpoints after: the last, the common prefix, and the opening."""
        infos = self.planner.history.infos
        opening = next((n for n, at in enumerate(positions) if infos[at].role != "system"), len(positions)) - 1
        common = [self.request.index[entry.key] for entry in self.step.entries[: self.step.common]]
        joint = sum(len(self.segments[at].positions) for at in common) - 1
        places = dict.fromkeys(place for place in (len(positions) - 1, joint, opening) if place >= 0)
        return {positions[place] for place in [*places][: max(0, self.limit)]}


class _Sent(NamedTuple):
    """A segment that is sent: its entry, its shorter messages by position in the whole history, and its note."""

    entry: Entry
    messages: Mapping[int, Shorter]
    note: str | None
    held: bool


class _Report:
    """Makes the report on a request when it is asked for."""

    def __init__(self, turn: TurnBuilder) -> None:
        self._turn = turn
        self._made: tuple[History, list[ContextItem]] | None = None

    def report(self) -> SelectionReport:
        """Return each unit of the whole history with its value, and why it is in or out."""
        history, segments = self._turn.whole()
        items = history.items(self._turn.planner.room)
        self._made = history, items
        return build_report(history, items, segments, self._turn)

    def dropped(self, report: SelectionReport) -> list[Dropped[Any]]:
        """Return the messages that the request leaves out; `report` is the one that was made here."""
        return [] if self._made is None else dropped_from(self._made[0], report, self._made[1])


def build_report(
    history: History, items: Sequence[ContextItem], segments: Sequence[Segment], turn: TurnBuilder
) -> SelectionReport:
    """Return the report on a request: each unit of a whole history with its value, and why it is in or out."""
    request, planner = turn.request, turn.planner
    sent = {entry.key: _sent(turn, entry) for entry in request.entries}
    values = {segment.key: value for segment, value in zip(planner.segments, planner.values, strict=True)}
    violations = {planner.segments[at].key: reason for at, reason in request.violations.items()}
    left = request.terms.room - sum(entry.size for entry in request.entries)
    included = [IncludedItem(item, 1.0, InclusionReason.PINNED) for item in history.fixed]
    excluded: list[ExcludedItem] = []
    holder = {unit: segment for segment in segments for unit in segment.units}
    for unit, item in enumerate(items):
        segment = holder.get(unit)
        if segment is None:
            excluded.append(ExcludedItem(item, 0.0, Filtered(history.units[unit].rejection or "")))
            continue
        value = values.get(segment.key, 0.0)
        if segment.key in sent:
            one = sent[segment.key]
            why = InclusionReason.PINNED if one.held else InclusionReason.SCORED
            included.append(IncludedItem(_sent_item(history, item, unit, segment, one), value, why))
        else:
            worth = request.terms.gain * value / max(segment.tokens, 1)
            violation = violations.get(segment.key)
            reason = request.terms.exclusion(item.tokens, worth, left) if violation is None else Filtered(violation)
            excluded.append(ExcludedItem(item, value, reason))
    considered = [*(entry.item.tokens for entry in included), *(entry.item.tokens for entry in excluded)]
    return SelectionReport(
        events=(),
        included=tuple(included),
        excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
        total_candidates=len(considered),
        total_tokens_considered=sum(considered),
    )


def _sent(turn: TurnBuilder, entry: Entry) -> _Sent:
    at = turn.request.index[entry.key]
    messages = turn.segments[at].form(entry.form).messages
    placed = turn.request.notes.get(at)
    return _Sent(
        entry,
        {turn.origin[position]: one for position, one in messages.items()},
        None if placed is None else placed.note.text,
        at in turn.request.held,
    )


def _sent_item(history: History, item: ContextItem, unit: int, segment: Segment, sent: _Sent) -> ContextItem:
    """Return a unit's item as it is sent: in its form, with the note in front of it."""
    positions = history.units[unit].positions
    if not sent.messages.keys().isdisjoint(positions):
        item = history.shortened(item, positions, sent.messages)
    if sent.note is None or unit != segment.units[0]:
        return item
    return msgspec.structs.replace(item, content=f"{sent.note}\n{item.content}", tokens=item.tokens + sent.entry.noted)
