"""A planned request as a turn: its messages with their notes, its cache breakpoints, and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from cupel._internal.columns import descending
from cupel.diagnostics import ExcludedItem, Filtered, IncludedItem, InclusionReason, SelectionReport
from cupel.messages._history import ranges
from cupel.messages._results import Dropped, Turn, dropped_from
from cupel.messages._segments import WHOLE

if TYPE_CHECKING:
    from cupel._planning import Change, Decision, Entry
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
        sent = history.request(positions, shorter, {one.slot: one.text for one in placed.values()})
        marked = self._marked(positions)
        return Turn(
            self._account,
            messages=[one.message for one in sent],
            positions=tuple(None if one.position is None else origin[one.position] for one in sent),
            notes=tuple(placed[at].text for at in sorted(placed)),
            total_tokens=step.bill.sent,
            provider=history.format.name,
            shortened=tuple(sorted(origin[at] for at in shorter)),
            noted=tuple(sorted(origin[one.slot.position] for one in placed.values())),
            omitted=self.size - len(positions),
            budget=self.planner.window,
            action=step.action,
            reason=step.reason,
            changes=tuple(map(self._named, self._changes())),
            marks=tuple(number for number, one in enumerate(sent) if not marked.isdisjoint(one.positions)),
            bill=step.bill,
        )

    def _form(self, index: int, name: str) -> Mapping[int, Shorter]:
        return self.segments[index].form(name).messages

    def _changes(self) -> Iterator[Change]:
        """Yield the changes since the last request; of a first one, everything that it leaves out or shortens."""
        if self.planner.start.state.turns:
            yield from self.step.changes
            return
        sent, terms = self.request.sent, self.request.terms
        for at, segment in enumerate(self.segments):
            form = sent.get(at)
            if form != WHOLE:
                worth = terms.gain * self.planner.values[at] / max(segment.tokens, 1)
                tokens, size = segment.form(form or WHOLE).tokens, self.step.bill.sent
                yield terms.change("evicted" if form is None else "shortened", segment.key, tokens, worth, size=size)

    def _named(self, change: Change) -> Change:
        """Return a change with the place and the tools of its messages, and the tokens that they came with."""
        segment, infos = self.segments[self.planner.index[change.key]], self.planner.history.infos
        tools = ", ".join(dict.fromkeys(tool for at in segment.positions for tool in infos[at].tools))
        positions = tuple(self.origin[at] for at in segment.positions)
        label = ranges(positions) + (f" ({tools})" if tools else "")
        return replace(change, positions=positions, label=label, before=change.before or segment.tokens)

    def _marked(self, positions: Sequence[int]) -> set[int]:
        """Return the messages to set cache breakpoints after: the last, the common prefix, and the opening."""
        infos = self.planner.history.infos
        opening = next((n for n, at in enumerate(positions) if infos[at].role != "system"), len(positions)) - 1
        common = [self.planner.index[entry.key] for entry in self.step.entries[: self.step.common]]
        joint = sum(len(self.segments[at].positions) for at in common) - 1
        places = dict.fromkeys(place for place in (len(positions) - 1, joint, opening) if place >= 0)
        return {positions[place] for place in [*places][: max(0, self.limit)]}

    def _account(self) -> tuple[SelectionReport, list[Dropped[Any]]]:
        """Return each unit of the whole history with its value and why it is in or out, and the messages left out."""
        request, terms = self.request, self.request.terms
        history, segments = self.whole()
        items = history.items(self.planner.room)
        entries = {entry.key: entry for entry in request.entries}
        left = terms.room - sum(entry.size for entry in request.entries)
        included = [IncludedItem(item, 1.0, InclusionReason.PINNED) for item in history.fixed]
        excluded: list[ExcludedItem] = []
        holder = {unit: segment for segment in segments for unit in segment.units}
        for unit, item in enumerate(items):
            segment = holder.get(unit)
            if segment is None:
                excluded.append(ExcludedItem(item, 0.0, Filtered(history.units[unit].rejection or "")))
                continue
            at = self.planner.index.get(segment.key, -1)  # archived segments have no value
            value = self.planner.values[at] if at >= 0 else 0.0
            if entry := entries.get(segment.key):
                why = InclusionReason.PINNED if at in request.held else InclusionReason.SCORED
                is_first = unit == segment.units[0]
                sent = self._sent_item(history, item, history.units[unit].positions, entry, is_first=is_first)
                included.append(IncludedItem(sent, value, why))
            elif at in request.violations:
                excluded.append(ExcludedItem(item, value, Filtered(request.violations[at])))
            else:
                worth = terms.gain * value / max(segment.tokens, 1)
                excluded.append(ExcludedItem(item, value, terms.exclusion(item.tokens, worth, left)))
        considered = [*(entry.item.tokens for entry in included), *(entry.item.tokens for entry in excluded)]
        report = SelectionReport(
            events=(),
            included=tuple(included),
            excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
            total_candidates=len(considered),
            total_tokens_considered=sum(considered),
        )
        return report, dropped_from(history, report, items)

    def _sent_item(
        self, history: History, item: ContextItem, positions: Sequence[int], entry: Entry, *, is_first: bool
    ) -> ContextItem:
        """Return a unit's item as it is sent: in its form, and with the note if it is the first one of its segment."""
        at = self.planner.index[entry.key]
        shorter = {self.origin[position]: one for position, one in self._form(at, entry.form).items()}
        if not shorter.keys().isdisjoint(positions):
            item = history.shortened(item, positions, shorter)
        placed = self.request.notes.get(at)
        if placed is None or not is_first:
            return item
        return structs.replace(item, content=f"{placed.text}\n{item.content}", tokens=item.tokens + entry.noted)
