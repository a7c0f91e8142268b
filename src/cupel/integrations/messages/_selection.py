"""Choosing units: the pipeline's selection, made legal at its ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from cupel._columns import descending
from cupel.diagnostics import ExcludedItem, Filtered, SelectionReport
from cupel.integrations.messages._errors import PinnedMessagesExceedBudgetError
from cupel.model import ContextBudget, ContextItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.diagnostics import ExclusionReason
    from cupel.integrations.messages._history import History
    from cupel.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be fitted into what: the history, the request's fixed costs, and the window."""

    history: History
    fixed: Sequence[ContextItem]
    window: ContextBudget

    def check_pinned(self, items: Sequence[ContextItem]) -> None:
        """Raise an error that lists the pinned parts if they alone do not fit."""
        available = self.window.max_tokens - self.window.output_reserve
        pinned = [(index, item) for index, item in enumerate(items) if item.pinned]
        needed = sum(item.tokens for item in self.fixed) + sum(item.tokens for _, item in pinned)
        if needed > available:
            parts = [(item.content.partition(":")[0], item.tokens) for item in self.fixed]
            parts += [(self.history.describe(index), item.tokens) for index, item in pinned]
            raise PinnedMessagesExceedBudgetError(needed, available, tuple(parts))

    def select(self, items: Sequence[ContextItem], pipeline: Pipeline) -> Outcome:
        """The best legal selection."""
        outcome = self._run(items, pipeline)
        if not outcome.trimmed:
            return outcome
        # Units had to go because a neighbour is missing. Perhaps one is worth its tokens: pin it, and compare.
        room = min(self.window.target_tokens, self.window.max_tokens - self.window.output_reserve)
        room -= sum(item.tokens for item in (*self.fixed, *items) if item.pinned)
        units = self.history.units
        among = [i for i, u in enumerate(units) if u.flaw is None and u.role != "system" and items[i].tokens <= room]
        wanted = self.history.ends.companions(units, outcome.chosen, among)
        if not wanted or sum(items[i].tokens for i in wanted) > room:
            return outcome
        held = [msgspec.structs.replace(item, pinned=item.pinned or i in wanted) for i, item in enumerate(items)]
        return max(outcome, self._run(held, pipeline), key=lambda one: one.tokens)  # the first, if they are equal

    def _run(self, items: Sequence[ContextItem], pipeline: Pipeline) -> Outcome:
        units = self.history.units
        sendable = {id(item): i for i, item in enumerate(items) if units[i].flaw is None}
        report = pipeline.dry_run([*self.fixed, *(items[i] for i in sendable.values())], self.window)
        chosen = {sendable[id(entry.item)] for entry in report.included if id(entry.item) in sendable}
        return Outcome(self.history, items, chosen, self.history.ends.trim(units, chosen), report)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One selection: the units chosen, those trimmed from its ends with the reason, and the pipeline's report."""

    history: History
    items: Sequence[ContextItem]
    chosen: set[int]
    trimmed: dict[int, str]
    run: SelectionReport

    @property
    def kept(self) -> list[int]:
        """The units that are sent, in order."""
        return sorted(self.chosen - self.trimmed.keys())

    @property
    def tokens(self) -> int:
        """Tokens of the units that are sent."""
        return sum(self.items[index].tokens for index in self.kept)

    def report(self) -> SelectionReport:
        """The run's report with the units that the provider's rules exclude among the excluded."""
        gone = {id(self.items[index]): Filtered(rule) for index, rule in self.trimmed.items()}
        flawed = [
            ExcludedItem(item, 0.0, Filtered(flaw))
            for item, unit in zip(self.items, self.history.units, strict=True)
            if (flaw := unit.flaw) is not None
        ]
        excluded = [
            *self.run.excluded,
            *(ExcludedItem(e.item, e.score, gone[id(e.item)]) for e in self.run.included if id(e.item) in gone),
            *flawed,
        ]
        # Replaced, not rebuilt: the report keeps its origin, and with it the answer to "at which budget would it fit?".
        return replace(
            self.run,
            included=tuple(entry for entry in self.run.included if id(entry.item) not in gone),
            excluded=tuple(excluded[at] for at in descending([entry.score for entry in excluded])),
            total_candidates=self.run.total_candidates + len(flawed),
            total_tokens_considered=self.run.total_tokens_considered + sum(entry.item.tokens for entry in flawed),
        )

    def reasons(self, report: SelectionReport) -> dict[int, ExclusionReason]:
        """Why each unit that is not sent is not, from this outcome's own `report`."""
        index_of = {id(item): index for index, item in enumerate(self.items)}
        return {index_of[id(entry.item)]: entry.reason for entry in report.excluded}
