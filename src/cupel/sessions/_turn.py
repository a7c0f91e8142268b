"""One turn of a session of items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cupel._checks import as_text, shown
from cupel._columns import descending
from cupel.diagnostics import (
    BudgetExceeded,
    ExcludedItem,
    IncludedItem,
    InclusionReason,
    NegativeTokens,
    SelectionReport,
)
from cupel.sessions._result import SessionResult
from cupel.sessions._things import things_of

if TYPE_CHECKING:
    from cupel._planning import Candidate, Change, Decision
    from cupel.model import ContextBudget, ContextItem
    from cupel.pipeline import Pipeline
    from cupel.sessions._things import Key

_EPOCH = datetime.min.replace(tzinfo=UTC)


class ItemTurn:
    """Items as candidates, and the decision about them as a result."""

    def __init__(
        self,
        pipeline: Pipeline,
        items: Sequence[ContextItem],
        new: Sequence[ContextItem],
        query: str | None,
        key: Key,
    ) -> None:
        def known(item: ContextItem) -> str:
            return as_text("what key returned", key(item))

        added = {known(item) for item in new}
        old = sorted((item for item in items if known(item) not in added), key=lambda item: _order(item, known))
        pool = [*old, *sorted(new, key=_time)]
        self.items = [item for item in pool if item.tokens >= 0]
        self.unusable = [item for item in pool if item.tokens < 0]
        pipeline = pipeline.bind(query)
        self.scores = pipeline.scorer.checked_scores(self.items) if self.items else []
        first_new = len(self.items) - sum(1 for item in new if item.tokens >= 0)
        things = things_of(self.items, self.scores, range(first_new, len(self.items)), known)
        self.pinned = pipeline.pinned(self.items)
        found = [
            (thing, thing.candidate(self.items, pinned=not self.pinned.isdisjoint(thing.positions))) for thing in things
        ]
        # Best first among those without a place: so they are sent when nothing else decides.
        found.sort(key=lambda pair: (pair[1].free, not pair[1].new, -pair[1].value) if pair[1].free else (False,))
        self.things = [thing for thing, _ in found]
        self.candidates: list[Candidate] = [candidate for _, candidate in found]

    def result(self, step: Decision, budget: ContextBudget, room: int, marks: int) -> SessionResult:
        """Return what a step says about the items."""
        sent = [self._positions(index, form) for index, form in step.chosen.items()]
        positions = [at for together in sent for at in together]
        joint = sum(map(len, sent[: step.common])) - 1
        places = dict.fromkeys(place for place in (len(positions) - 1, joint) if place >= 0)
        return SessionResult(
            [self.items[at] for at in positions],
            self._report(positions, room),
            budget,
            action=step.action,
            reason=step.reason,
            changes=tuple(self._named(step.changes)),
            marks=tuple(sorted([*places][:marks])),
            bill=step.bill,
        )

    def _positions(self, index: int, name: str) -> list[int]:
        return next(form.positions for form in self.things[index].forms if form.name(self.items) == name)

    def _report(self, positions: Sequence[int], room: int) -> SelectionReport:
        chosen = set(positions)
        left = room - sum(self.items[at].tokens for at in positions)
        excluded = [
            ExcludedItem(item, self.scores[at], BudgetExceeded(item.tokens, left))
            for at, item in enumerate(self.items)
            if at not in chosen
        ]
        excluded += [ExcludedItem(item, 0.0, NegativeTokens(item.tokens)) for item in self.unusable]
        return SelectionReport(
            events=(),
            included=tuple(IncludedItem(self.items[at], self.scores[at], self._reason(at)) for at in positions),
            excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
            total_candidates=len(self.items) + len(self.unusable),
            total_tokens_considered=sum(item.tokens for item in (*self.items, *self.unusable)),
        )

    def _reason(self, at: int) -> InclusionReason:
        if at in self.pinned:
            return InclusionReason.PINNED
        return InclusionReason.SCORED if self.items[at].tokens else InclusionReason.ZERO_TOKEN

    def _named(self, changes: Iterable[Change]) -> Iterator[Change]:
        things = {thing.key: thing for thing in self.things}
        for change in changes:
            first = things[change.key].positions[0]
            yield replace(change, label=shown(self.items[first].content))


def _time(item: ContextItem) -> datetime:
    return item.timestamp or _EPOCH


def _order(item: ContextItem, key: Key) -> tuple[bool, datetime, str, int, str]:
    """Whatever the order in which items are given: those with a time by it, then the others."""
    return item.timestamp is None, _time(item), key(item), item.tokens, item.content
