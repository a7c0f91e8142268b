"""The part of a run that does not depend on the budget, and its result for one budget."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from cupel._internal.checks import as_instance, as_tuple
from cupel._internal.columns import Candidates
from cupel._internal.text import plural
from cupel.errors import PipelineConfigError
from cupel.model import ContextBudget, ContextItem
from cupel.pipeline._observer import Recorder
from cupel.pipeline._stages import (
    ALL_LISTENERS,
    Classified,
    Listeners,
    check_pinned,
    check_times,
    classify,
    effective_budget,
    find_copies,
    merge,
    place,
    score,
    sort,
)
from cupel.scorers import ScoreBreakdown
from cupel.slicers import Chooser, enforce_relations

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from cupel.diagnostics import SelectionReport
    from cupel.pipeline._pipeline import Pipeline
    from cupel.pipeline._sources import SourceFailure
    from cupel.pipeline._stages import Placed
    from cupel.slicers import Selection
else:
    Pipeline = "Pipeline"  # `help` looks the annotations of a struct up; the class would be imported in a circle


class Selected:
    """The common part of results: a collection of the selected items."""

    __slots__ = ()

    if TYPE_CHECKING:
        items: list[ContextItem]
        budget: ContextBudget

    @property
    def total_tokens(self) -> int:
        """The tokens of the selected items."""
        return sum(item.tokens for item in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ContextItem]:
        return iter(self.items)

    def __repr__(self) -> str:
        size = f"{plural(len(self.items), 'item')}, {self.total_tokens} of {self.budget.target_tokens} target tokens"
        return f"<{type(self).__name__}: {size}>"


@dataclass(frozen=True, slots=True, repr=False)
class ContextResult(Selected):
    """The result of `Pipeline.select`: the items in placed order, and a report with the reason for every candidate.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> result = Pipeline(scorer=RecencyScorer()).select([ContextItem("hi", 1)], ContextBudget(10, 10))
    >>> result
    <ContextResult: 1 item, 1 of 10 target tokens>
    >>> len(result), result.total_tokens
    (1, 1)
    """

    items: list[ContextItem]
    report: SelectionReport
    budget: ContextBudget
    source_errors: tuple[SourceFailure, ...] = ()
    """The sources that `Pipeline.arun` skipped."""

    def save_page(
        self, path: str | os.PathLike[str], *, policies: Iterable[Pipeline] = (), title: str = "A selection"
    ) -> None:
        """Write the interactive page: the window, the excluded items, a budget slider and other policies."""
        self.report.save_page(path, policies=policies, title=title)

    def _repr_html_(self) -> str:
        from cupel.page import notebook_html  # a higher layer, for notebooks only

        return notebook_html(self.report, self.budget)


_tokens: attrgetter[int] = attrgetter("tokens")
_log = logging.getLogger("cupel")
_log.addHandler(logging.NullHandler())


class PreparedSelection(msgspec.Struct, frozen=True):
    """Classified, scored, deduplicated and sorted candidates, ready for any budget.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> prepared = Pipeline(scorer=RecencyScorer()).prepare([ContextItem("a", 40), ContextItem("b", 40)])
    >>> prepared
    <PreparedSelection: 2 candidates (80 tokens), 0 pinned (0 tokens)>
    >>> [len(prepared.run(tokens)) for tokens in (30, 50, 90)]
    [0, 1, 2]
    """

    pipeline: Pipeline
    pinned: list[ContextItem]
    pinned_tokens: int
    candidates: Candidates
    chooser: Chooser
    _classified: Classified
    _recorder: Recorder | None

    @property
    def items(self) -> list[ContextItem]:
        """All items, in input order."""
        return list(self._classified.items)

    def run(self, budget: ContextBudget | int, *, warn: bool = True) -> list[ContextItem]:
        """Select for a budget and return the items in placed order; `warn=False` emits no `BudgetWarning`."""
        return complete(self, self._checked(budget), None, Listeners(warn=warn))[1].items

    def dry_run(self, budget: ContextBudget | int, *, warn: bool = True) -> SelectionReport:
        """Select for a budget and return the report; prepared stages keep the times of their preparation.

        `warn=False` emits no `BudgetWarning`.
        """
        recorder, listeners = Recorder(prepared=self._recorder), Listeners(notify=False, warn=warn)
        return observe(self, self._checked(budget), recorder, listeners).report

    def select(self, budget: ContextBudget | int) -> ContextResult:
        """Select for a budget and return the items together with the report."""
        return observe(self, self._checked(budget), Recorder(prepared=self._recorder))

    def included(self, budget: ContextBudget | int) -> list[ContextItem]:
        """Return the items that a run would select, unplaced, without calling `on_overflow`."""
        budget = self._checked(budget)
        picked = self.candidates.picked(sorted(self.chooser(effective_budget(budget, self.pinned_tokens)).chosen))
        _, selected, _ = merge(self.pinned, picked, budget.target_tokens, self.pipeline.overflow)
        return list(selected.items)

    def breakdowns(self, items: Iterable[ContextItem]) -> list[ScoreBreakdown | None]:
        """Return a breakdown of each item's score; None for items without a score, such as pinned ones."""
        wanted = as_tuple("items", items, ContextItem)
        scoreable = self._classified.scoreable
        places = {id(item): position for position, item in enumerate(scoreable)}
        positions = [places[id(item)] for item in wanted if id(item) in places]
        scored = ScoreBreakdown.of(self.pipeline.scorer, scoreable, positions) if positions else []
        found = {id(breakdown.item): breakdown for breakdown in scored}
        return [found.get(id(item)) for item in wanted]

    def with_query(self, query: str) -> PreparedSelection:
        """Return the same items scored for another query; the scorer reuses its index of their words.

        >>> from cupel import ContextItem, Pipeline, RelevanceScorer
        >>> items = [ContextItem("The parser is slow.", 5), ContextItem("Lunch is at noon.", 5)]
        >>> prepared = Pipeline(scorer=RelevanceScorer()).prepare(items, query="parsing")
        >>> [prepared.with_query(query).run(5)[0].content for query in ("slow parsers", "when is lunch?")]
        ['The parser is slow.', 'Lunch is at noon.']
        """
        recorder = Recorder()
        prepared = _fitted(self.pipeline.bind(query), self._classified, self.pinned_tokens, recorder)
        recorder.paused()
        return prepared

    def with_pipeline(self, pipeline: Pipeline) -> PreparedSelection:
        """Return the same candidates for another slicer, placer or overflow strategy, without scoring them again."""
        own = self.pipeline
        as_instance("pipeline", pipeline, type(own))
        if (pipeline.scorer, pipeline.deduplicate, pipeline.pins) != (own.scorer, own.deduplicate, own.pins):
            msg = "with_pipeline takes the same scorer, deduplication and pins; call prepare on this pipeline instead"
            raise PipelineConfigError(msg)
        recorder = Recorder(prepared=self._recorder)
        chooser = enforce_relations(pipeline.slicer.prepare(self.candidates), self.candidates.relations)
        recorder.paused()
        return msgspec.structs.replace(self, pipeline=pipeline, chooser=chooser, _recorder=recorder)

    def strangers(self, items: Iterable[ContextItem]) -> list[ContextItem]:
        """Return the items that were not among the candidates, compared by identity."""
        known = set(map(id, self._classified.items))
        return [item for item in as_tuple("items", items, ContextItem) if id(item) not in known]

    def __repr__(self) -> str:
        tokens = sum(self.candidates.tokens)
        return (
            f"<PreparedSelection: {len(self.candidates)} candidates ({tokens} tokens), "
            f"{len(self.pinned)} pinned ({self.pinned_tokens} tokens)>"
        )

    def _checked(self, budget: ContextBudget | int) -> ContextBudget:
        budget = ContextBudget.of(budget)
        check_pinned(self.pinned_tokens, budget)
        return budget


def prepare(
    pipeline: Pipeline, items: Iterable[ContextItem], budget: ContextBudget | None, recorder: Recorder | None
) -> PreparedSelection:
    """Run the stages that all budgets share; a known budget is checked against the pinned items before scoring."""
    classified = classify(items, pipeline.pins)
    check_times(classified)
    pinned_tokens = sum(map(_tokens, classified.pinned))
    if budget is not None:
        check_pinned(pinned_tokens, budget)
    return _fitted(pipeline, classified, pinned_tokens, recorder)


def _fitted(
    pipeline: Pipeline, classified: Classified, pinned_tokens: int, recorder: Recorder | None
) -> PreparedSelection:
    if recorder is not None:
        recorder.classified(classified)
    candidates = score(pipeline, classified)
    if recorder is not None:
        recorder.scored(candidates)
    related = classified.is_related
    copies = find_copies(candidates, related=related) if pipeline.deduplicate else None
    if recorder is not None:
        recorder.deduplicated(candidates, copies)
    candidates = sort(candidates, copies, classified, related=related)
    chooser = enforce_relations(pipeline.slicer.prepare(candidates), candidates.relations)
    return PreparedSelection(pipeline, classified.pinned, pinned_tokens, candidates, chooser, classified, recorder)


def complete(
    prepared: PreparedSelection,
    budget: ContextBudget,
    recorder: Recorder | None,
    listeners: Listeners = ALL_LISTENERS,
) -> tuple[Selection, Placed]:
    """Slice and place for one budget."""
    selection = prepared.chooser(effective_budget(budget, prepared.pinned_tokens))
    chosen = sorted(selection.chosen)  # from the highest score down (ruling 3.15)
    if recorder is not None:
        recorder.sliced(prepared, budget, chosen, selection)
    placed = place(prepared.pipeline, prepared.pinned, prepared.candidates.picked(chosen), budget, listeners)
    if _log.isEnabledFor(logging.DEBUG):
        tokens = sum(placed.selected.tokens)
        _log.debug("selected %d items, %d of %d target tokens", len(placed.items), tokens, budget.target_tokens)
    if recorder is not None:
        recorder.placed(placed, budget)
    return selection, placed


def observe(
    prepared: PreparedSelection, budget: ContextBudget, recorder: Recorder, listeners: Listeners = ALL_LISTENERS
) -> ContextResult:
    """Complete a run and build its report."""
    selection, placed = complete(prepared, budget, recorder, listeners)
    return ContextResult(placed.items, recorder.finished(prepared, budget, selection, placed), budget)
