"""Reports of random pipelines: they travel, their events keep their order, and their counterfactuals come true."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cupel import CupelError, DiagnosticTraceCollector, PipelineStage, SelectionError, SelectionReport, TraceDetailLevel
from cupel.diagnostics import report_schema
from cupel.testing.strategies import budgets, item_lists, pipelines
from tests.oracle.generators import law

if TYPE_CHECKING:
    from cupel import ContextBudget, ContextItem, Pipeline

STAGES = ["Classify", "Score", "Deduplicate", "Slice", "Place"]
pytestmark = pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")
SCHEMA = jsonschema.Draft202012Validator(report_schema())
FAR = 200  # further than any of these small pools can still change


def traced(pipeline: Pipeline, items: list[ContextItem], budget: ContextBudget) -> SelectionReport:
    trace = DiagnosticTraceCollector(TraceDetailLevel.ITEM)
    try:
        pipeline.run(items, budget, trace=trace)
    except SelectionError:
        assume(condition=False)
    return trace.build_report()


@law(200)
@given(policy=pipelines(), items=item_lists(), budget=budgets())
def test_a_report_survives_the_journey(policy: Pipeline, items: list[ContextItem], budget: ContextBudget) -> None:
    report = traced(policy, items, budget)
    text = report.to_json()
    again = SelectionReport.from_json(text)
    assert again.to_json() == text
    assert again == report
    assert repr(again.included + again.excluded) == repr(report.included + report.excluded), "spellings are kept too"
    SCHEMA.validate(json.loads(text))


@given(policy=pipelines(), items=item_lists(), budget=budgets())
def test_item_events_come_before_the_event_of_their_stage(
    policy: Pipeline, items: list[ContextItem], budget: ContextBudget
) -> None:
    report = traced(policy, items, budget)
    by_stage = [(stage.value, list(events)) for stage, events in groupby(report.events, lambda event: event.stage)]
    assert [stage for stage, _ in by_stage] == STAGES
    for _, (*item_events, stage_event) in by_stage:
        assert stage_event.message is None or stage_event.stage in (PipelineStage.SLICE, PipelineStage.PLACE)
        assert all((event.duration_ms, event.item_count) == (0.0, 1) for event in item_events)
    told = [str(event.message).partition(":")[0] for _, (*events, _) in by_stage for event in events]
    assert sorted(name for name in told if name != "Score") == sorted(entry.reason.name for entry in report.excluded)
    _, scored = by_stage[1]
    assert len(scored) - 1 == scored[-1].item_count, "every score has an event"


@law(60)
@given(policy=pipelines(), items=item_lists(max_size=6), budget=budgets(max_tokens=st.integers(0, 60)), data=st.data())
def test_a_counterfactual_comes_true_and_nothing_smaller_does(
    policy: Pipeline, items: list[ContextItem], budget: ContextBudget, data: st.DataObject
) -> None:
    pipeline = policy
    report = traced(pipeline, items, budget)
    assume(report.excluded)
    item = data.draw(st.sampled_from([entry.item for entry in report.excluded]))

    def included(tokens: int) -> bool:
        try:
            return any(one is item for one in pipeline.run(items, budget.extended(tokens)))
        except CupelError:
            return False

    answer = report.counterfactual(item).extra_tokens
    assert not any(map(included, range(FAR if answer is None else answer)))
    assert answer is None or included(answer)
