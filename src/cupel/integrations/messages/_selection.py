"""Choosing units: the pipeline's selection, made legal."""

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


_ATTEMPTS = 5
"""How many selections are compared at most."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be fitted into what: the history, the request's fixed costs, and the window."""

    history: History
    fixed: Sequence[ContextItem]
    window: ContextBudget

    @property
    def room(self) -> int:
        """Tokens for messages: what the window aims at, less the fixed costs."""
        window = min(self.window.target_tokens, self.window.max_tokens - self.window.output_reserve)
        return window - sum(item.tokens for item in self.fixed)

    def with_pins(self, items: list[ContextItem], pipeline: Pipeline) -> list[ContextItem]:
        """Return the items, pinned also what the pipeline's rules pin, the newest first, as far as it fits.

        What must be sent has its place already. The rest may be an old tool output larger than the window: it competes.
        """
        left = self.room - sum(item.tokens for item in items if item.pinned)
        held = list(items)
        for index in sorted(pipeline.pinned(items), reverse=True):
            if not items[index].pinned and self.history.units[index].flaw is None and items[index].tokens <= left:
                left -= items[index].tokens
                held[index] = msgspec.structs.replace(items[index], pinned=True)
        return held

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
        barred = {index: unit.flaw for index, unit in enumerate(self.history.units) if unit.flaw is not None}
        outcome = self._run(items, pipeline, barred)
        outcomes = [outcome]
        # Units may have to go because others are missing. Perhaps those are worth their tokens: pin them, and compare.
        costs = [item.tokens for item in items]
        room = self.room - sum(item.tokens for item in items if item.pinned)
        wanted = self.history.rules.complete(self.history.units, outcome.chosen, costs, room) if outcome.trimmed else ()
        if wanted and sum(costs[index] for index in wanted) <= room:
            held = [msgspec.structs.replace(item, pinned=item.pinned or i in wanted) for i, item in enumerate(items)]
            outcomes.append(self._run(held, pipeline, barred))
        # Or else their tokens are for others.
        while all(one.trimmed for one in outcomes) and len(outcomes) < _ATTEMPTS:
            barred = barred | outcome.trimmed
            outcome = self._run(items, pipeline, barred)
            outcomes.append(outcome)
        return max(outcomes, key=lambda one: one.tokens)  # the first, if they are equal

    def _run(self, items: Sequence[ContextItem], pipeline: Pipeline, barred: dict[int, str]) -> Outcome:
        units = self.history.units
        offered = {id(item): index for index, item in enumerate(items) if index not in barred}
        report = pipeline.dry_run([*self.fixed, *(items[index] for index in offered.values())], self.window)
        chosen = {offered[id(entry.item)] for entry in report.included if id(entry.item) in offered}
        return Outcome(items, barred, chosen, self.history.rules.trim(units, chosen), report)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One selection: the units not offered, those chosen, those of them that cannot be sent, the pipeline's report."""

    items: Sequence[ContextItem]
    barred: dict[int, str]
    """Units that were no candidates, with the reason."""
    chosen: set[int]
    trimmed: dict[int, str]
    """Chosen units that cannot be sent because others were not chosen, with the reason."""
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
        flawed = [ExcludedItem(self.items[index], 0.0, Filtered(rule)) for index, rule in sorted(self.barred.items())]
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
