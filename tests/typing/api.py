"""How the public names are used, as the type checkers see it: checked, never run."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_type

import cupel
import cupel.policy
from cupel import (
    ContextBudget,
    ContextItem,
    ContextKind,
    ContextResult,
    NullTraceCollector,
    OverflowStrategy,
    Pipeline,
    Placer,
    ScoredItem,
    Scorer,
    Slicer,
)
from cupel.diagnostics import DiagnosticTraceCollector, OverflowEvent, SelectionReport
from cupel.placers import UShapedPlacer
from cupel.scorers import CompositeScorer, DecayScorer, Exponential, KindScorer, RecencyScorer, SystemClock, TagScorer
from cupel.slicers import CountQuotaEntry, CountQuotaSlice, GreedySlice, KnapsackSlice, QuotaEntry, QuotaSlice

# Values take plain strings and mappings where the library has richer ones.
item = ContextItem(
    "text", 3, kind="Document", source="Rag", tags=["a"], metadata={"k": "v"}, timestamp=datetime.now(UTC)
)
budget = ContextBudget(8000, 4000, output_reserve=100, reserved_slots={"Memory": 50})
assert_type(item.kind, ContextKind)
assert_type(item.timestamp, datetime | None)

# Strategies nest.
scorer = CompositeScorer(
    [
        (RecencyScorer(), 2),
        (KindScorer({"Memory": 1.0}), 1.0),
        (TagScorer({"urgent": 1.0}, case_sensitive=False), 1),
        (DecayScorer(SystemClock(), Exponential(timedelta(hours=1))), 0.5),
    ]
)
slicer = QuotaSlice(
    [QuotaEntry("Document", 10, cap=50)], CountQuotaSlice([CountQuotaEntry("Memory", 1, 2)], GreedySlice())
)


# A third party's strategies need one method each.
class Shortest(Scorer):
    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        return 1 / (item.tokens + len(all_items))


class First(Slicer):
    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        return [entry.item for entry in scored if entry.item.tokens <= budget.target_tokens][:1]


class AsGiven(Placer):
    def place(self, scored: Sequence[ScoredItem]) -> list[ContextItem]:
        return [entry.item for entry in scored]


def heard(event: OverflowEvent) -> None:
    assert_type(event.tokens_over_budget, int)


pipeline = Pipeline(
    scorer=scorer, slicer=slicer, placer=UShapedPlacer(), overflow=OverflowStrategy.PROCEED, on_overflow=heard
)
Pipeline(scorer=Shortest(), slicer=First(), placer=AsGiven())
Pipeline(scorer=RecencyScorer(), slicer=KnapsackSlice(10, max_cells=None))

assert_type(pipeline.run((item for _ in range(3)), budget, trace=DiagnosticTraceCollector()), list[ContextItem])
assert_type(pipeline.dry_run([item], budget), SelectionReport)
assert_type(pipeline.select([item], budget), ContextResult)
assert_type(pipeline.select([item], budget, trace=NullTraceCollector()), ContextResult)

policy = Pipeline(scorer=scorer, name="mine")
assert_type(cupel.policy.loads(cupel.policy.dumps(policy)), Pipeline)
assert_type(cupel.__version__, str)
