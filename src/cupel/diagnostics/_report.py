"""The full report of a run, the events in it, and the collectors that receive them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from cupel._internal.checks import as_text, shown, wrong_type
from cupel._internal.portable import Portable
from cupel.diagnostics._reasons import ExclusionReason, InclusionReason, UnknownInclusionReason
from cupel.errors import SelectionError
from cupel.model import ContextBudget, ContextItem

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from cupel.analytics import Counterfactual
    from cupel.pipeline import Origin, Pipeline
    from cupel.scorers import ScoreBreakdown
    from cupel.testing import SelectionReportAssertionChain


class PipelineStage(Enum):
    """A stage that emits an event; sorting is internal and emits none."""

    CLASSIFY = "Classify"
    SCORE = "Score"
    DEDUPLICATE = "Deduplicate"
    SLICE = "Slice"
    PLACE = "Place"


class UnknownStage(msgspec.Struct, frozen=True):
    """A stage name from a newer producer, kept as it was read."""

    value: str


class TraceEvent(msgspec.Struct, Portable, frozen=True):
    """One observation: a finished stage, or one item within a stage (then `duration_ms` is 0 and `item_count` 1).

    For a stage, `item_count` is how many items left it.

    >>> TraceEvent.from_json('{"stage": "Score", "duration_ms": 1.5, "item_count": 3}').item_count
    3
    """

    _document = "cupel.diagnostics._documents:EVENT"

    stage: PipelineStage | UnknownStage
    duration_ms: float
    item_count: int
    message: str | None = None


class OverflowEvent(msgspec.Struct, Portable, frozen=True):
    """The argument of `on_overflow`: tokens above the target, the selected items, and the budget.

    >>> budget = ContextBudget(4096, 3072)
    >>> OverflowEvent(384, (ContextItem("one too many", 3456),), budget).to_dict()["budget"]
    {'maxTokens': 4096, 'targetTokens': 3072}
    """

    _document = "cupel.diagnostics._documents:OVERFLOW"

    tokens_over_budget: int
    overflowing_items: tuple[ContextItem, ...]
    budget: ContextBudget


class CountRequirementShortfall(msgspec.Struct, frozen=True):
    """A count quota that requires more items of a kind than there are candidates."""

    kind: str
    required_count: int
    satisfied_count: int


Proof: TypeAlias = Literal["optimal", "within gap", "limit"]


class TokenRequirementShortfall(msgspec.Struct, frozen=True):
    """A limit that requires more tokens of a kind than could be selected."""

    kind: str
    required_tokens: int
    satisfied_tokens: int


class Certificate(msgspec.Struct, frozen=True):
    """A selection's value and a bound that no other selection under the same rules exceeds.

    Both are whole numbers: each item counts for its score times its worth in steps of 0.0001, rounded down and at least
    0. Pinned items do not count.

    >>> Certificate(value=9_960, bound=10_000, proof="within gap").gap
    0.004
    """

    value: int
    bound: int
    proof: Proof
    """`optimal`: no selection is better. `within gap`: none is better by more than the requested gap. `limit`: the
    search stopped early, and only the bound is known."""
    token_shortfalls: tuple[TokenRequirementShortfall, ...] = ()

    @property
    def gap(self) -> float:
        """The share of the bound by which the selection may be below the best one."""
        return (self.bound - self.value) / self.bound if self.bound else 0.0


class IncludedItem(msgspec.Struct, Portable, frozen=True, gc=False):
    """A selected item with its score and reason."""

    _document = "cupel.diagnostics._documents:INCLUDED"

    item: ContextItem
    score: float
    reason: InclusionReason | UnknownInclusionReason


class ExcludedItem(msgspec.Struct, Portable, frozen=True, gc=False):
    """An excluded item with its score (0 if it was not scored) and reason."""

    _document = "cupel.diagnostics._documents:EXCLUDED"

    item: ContextItem
    score: float
    reason: ExclusionReason


@dataclass(frozen=True, slots=True, repr=False)
class SelectionReport(Portable):
    """Every candidate of a run with the decision and its reason, the events of the stages, and the totals.

    `included` is in placed order, `excluded` has the highest score first. Iteration and `len` cover both.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
    >>> items = [ContextItem("keep", 60, future_relevance_hint=0.9), ContextItem("drop", 60, future_relevance_hint=0.1)]
    >>> report = Pipeline(scorer=ReflexiveScorer()).dry_run(items, ContextBudget(100, 100))
    >>> report
    <SelectionReport: 1 in (60 tokens), 1 out: 1 BudgetExceeded>
    >>> report.total_tokens
    60
    >>> report.why(items[1]).reason
    BudgetExceeded(item_tokens=60, available_tokens=40)
    """

    _document = "cupel.diagnostics._documents:REPORT"

    events: tuple[TraceEvent, ...]
    included: tuple[IncludedItem, ...]
    excluded: tuple[ExcludedItem, ...]
    total_candidates: int
    total_tokens_considered: int
    count_requirement_shortfalls: tuple[CountRequirementShortfall, ...] = ()
    certificate: Certificate | None = None
    """The slicer's proof about its choice; only `OptimalSlice` gives one."""
    origin: Origin | None = field(default=None, kw_only=True, compare=False)
    """The prepared selection and the budget of the run; None for a report read from a document."""

    @property
    def total_tokens(self) -> int:
        """The tokens of the included items."""
        return sum(entry.item.tokens for entry in self.included)

    def why(self, item: ContextItem) -> IncludedItem | ExcludedItem:
        """Return the decision on an item, found by identity or else by equality."""
        entries = list(self)
        for entry in entries:
            if entry.item is item:
                return entry
        for entry in entries:
            if entry.item == item:
                return entry
        raise SelectionError(f"the report has no decision on {shown(item)}: it was not among the candidates")

    def find(self, content_prefix: str) -> list[IncludedItem | ExcludedItem]:
        """Return the decisions on all items whose content starts with a prefix."""
        prefix = as_text("content_prefix", content_prefix)
        return [entry for entry in self if entry.item.content.startswith(prefix)]

    def explain(self, item: ContextItem | str | None = None) -> str:
        """Explain in plain English why an item is in or out; without an item, explain all of them.

        A string means the first item with that content, or else the first whose content starts with it. For one item
        that a larger budget would include, the smallest such budget is found by running the pipeline again.
        """
        from cupel.diagnostics._explain import explain_all, explain_item  # words only on request

        if isinstance(item, str):
            item = self._item_of(item)
        return explain_all(self) if item is None else explain_item(self, item)

    def _item_of(self, content: str) -> ContextItem:
        found = self.find(content)
        if not found:
            raise SelectionError(f"the report has no decision on an item that starts with {shown(content)}")
        return next((entry.item for entry in found if entry.item.content == content), found[0].item)

    def counterfactual(self, item: ContextItem) -> Counterfactual:
        """Find the smallest extra budget at which the pipeline would include an excluded item."""
        from cupel.analytics import counterfactual  # a higher layer: it re-runs the pipeline

        origin = self._origin_for("counterfactual")
        return counterfactual(origin.prepared, origin.budget, self.why(item).item)

    def breakdown(self, item: ContextItem) -> ScoreBreakdown | None:
        """Return the parts of an item's score, with weights and score per token.

        None for an item that was not scored, such as a pinned one.
        """
        return self.breakdowns([self.why(item).item])[0]

    def breakdowns(self, items: Iterable[ContextItem] | None = None) -> list[ScoreBreakdown | None]:
        """Return breakdowns of the items, or of all in the order of the report; each scorer runs once."""
        wanted = [entry.item for entry in self] if items is None else items
        return list(self._origin_for("breakdowns").prepared.breakdowns(wanted))

    def _origin_for(self, method: str) -> Origin:
        if self.origin is None:
            expected = "a report of dry_run, select or a traced run"
            raise SelectionError(f"{method} needs {expected}; this one was read from a document or copied")
        return self.origin

    def should(self) -> SelectionReportAssertionChain:
        """Start a chain of assertions about this report."""
        from cupel.testing import should  # a higher layer, for tests only

        return should(self)

    def save_page(
        self, path: str | os.PathLike[str], *, policies: Iterable[Pipeline] = (), title: str = "A selection"
    ) -> None:
        """Write the interactive page: the window, the excluded items, a budget slider and other policies."""
        from cupel.page import save_page  # a higher layer: it re-runs the pipeline

        save_page(self, path, policies=policies, title=title)

    def _repr_html_(self) -> str:
        from cupel.page import notebook_html  # a higher layer, for notebooks only

        return notebook_html(self, None if self.origin is None else self.origin.budget)

    def __len__(self) -> int:
        return len(self.included) + len(self.excluded)

    def __iter__(self) -> Iterator[IncludedItem | ExcludedItem]:
        yield from self.included
        yield from self.excluded

    def __repr__(self) -> str:
        reasons: dict[str, int] = {}
        for entry in self.excluded:
            reasons[entry.reason.name] = reasons.get(entry.reason.name, 0) + 1
        listed = ": " + ", ".join(f"{count} {name}" for name, count in reasons.items()) if reasons else ""
        return (
            f"<SelectionReport: {len(self.included)} in ({self.total_tokens} tokens), {len(self.excluded)} out{listed}>"
        )

    def __reduce__(self) -> tuple[Callable[..., SelectionReport], tuple[Any, ...]]:
        # Copies have no origin: the pipeline may hold callbacks that do not pickle.
        return SelectionReport, (
            self.events,
            self.included,
            self.excluded,
            self.total_candidates,
            self.total_tokens_considered,
            self.count_requirement_shortfalls,
            self.certificate,
        )


class TraceDetailLevel(IntEnum):
    """How much a collector records; each level includes the previous ones."""

    STAGE = 0
    """One event for each stage."""
    ITEM = 1
    """Also one event for each score and each exclusion, when their stage has finished."""


class StageSnapshot(msgspec.Struct, frozen=True):
    """One stage of a finished run; the times are wall-clock nanoseconds that advance monotonically within the run."""

    stage: PipelineStage
    item_count_in: int
    item_count_out: int
    start_ns: int
    end_ns: int
    excluded: tuple[ExcludedItem, ...] = ()


@runtime_checkable
class TraceSink(Protocol):
    """The members that a collector needs; any object that has them can be passed as `trace`."""

    @property
    def is_enabled(self) -> bool:
        """Whether to record; read once for each run."""
        ...

    def record_stage_event(self, event: TraceEvent) -> None:
        """Receive the event of a finished stage."""
        ...

    def record_item_event(self, event: TraceEvent) -> None:
        """Receive the event of one item, sent before the event of its finished stage."""
        ...


class TraceCollector:
    """Base for collectors: enabled, and every hook does nothing until overridden.

    A collector may also implement `on_pipeline_started` and `on_pipeline_completed`, and return another object for each
    run from `for_run`.
    """

    def for_run(self, budget: ContextBudget) -> TraceSink:
        """Return the collector of a new run; return a new object to keep runs apart."""
        del budget
        return self

    @property
    def is_enabled(self) -> bool:
        """Whether to record; read once for each run."""
        return True

    def record_stage_event(self, event: TraceEvent) -> None:
        """Receive the event of a finished stage."""

    def record_item_event(self, event: TraceEvent) -> None:
        """Receive the event of one item, sent before its stage's event."""

    def on_pipeline_started(self) -> None:
        """Receive the start of a run."""

    def on_pipeline_completed(
        self, report: SelectionReport, budget: ContextBudget, stages: tuple[StageSnapshot, ...]
    ) -> None:
        """Receive the report of a successful run; not called for a run that raised."""


class NullTraceCollector(TraceCollector):
    """Records nothing and costs nothing.

    >>> NullTraceCollector().is_enabled
    False
    """

    @property
    def is_enabled(self) -> bool:
        """Always false."""
        return False


class DiagnosticTraceCollector(TraceCollector):
    """Keep the events of the latest run and build its report.

    `on_event` is called with each event; its exceptions reach the caller of the run.

    >>> from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer
    >>> trace = DiagnosticTraceCollector()
    >>> _ = Pipeline(scorer=RecencyScorer()).run([ContextItem("hi", 1)], ContextBudget(10, 10), trace=trace)
    >>> [event.stage.value for event in trace.build_report().events]
    ['Classify', 'Score', 'Deduplicate', 'Slice', 'Place']
    """

    def __init__(
        self,
        detail_level: TraceDetailLevel = TraceDetailLevel.STAGE,
        *,
        on_event: Callable[[TraceEvent], object] | None = None,
    ) -> None:
        if not isinstance(detail_level, TraceDetailLevel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("detail_level", "a TraceDetailLevel", detail_level)
        self.detail_level = detail_level
        self._on_event = on_event
        self._events: list[TraceEvent] = []
        self._report: SelectionReport | None = None

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """The events of the latest run so far, in order."""
        return tuple(self._events)

    def record_stage_event(self, event: TraceEvent) -> None:
        """Keep the event."""
        self._keep(event)

    def record_item_event(self, event: TraceEvent) -> None:
        """Keep the event if the detail level includes items."""
        if self.detail_level >= TraceDetailLevel.ITEM:
            self._keep(event)

    def on_pipeline_started(self) -> None:
        """Discard the previous run."""
        self._events = []
        self._report = None

    def on_pipeline_completed(
        self, report: SelectionReport, budget: ContextBudget, stages: tuple[StageSnapshot, ...]
    ) -> None:
        """Keep the report."""
        del budget, stages
        self._report = report

    def build_report(self) -> SelectionReport:
        """Return the report of the run that was traced."""
        if self._report is None:
            msg = "no report: this collector has not recorded a successful run; pass it as trace= to Pipeline.run first"
            raise SelectionError(msg)
        return self._report

    def _keep(self, event: TraceEvent) -> None:
        self._events.append(event)
        if self._on_event is not None:
            self._on_event(event)


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the documents that `SelectionReport.from_json` reads.

    Unknown fields, reasons and stages are allowed, because newer versions may write them.

    >>> report_schema()["required"]
    ['events', 'included', 'excluded', 'total_candidates', 'total_tokens_considered']
    """
    from cupel.diagnostics._documents import PARTS, REPORT  # loaded with the first document, not with every import

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cupel selection report",
        **REPORT.definition(),
        "$defs": {part.title: part.definition() for part in PARTS},
    }
