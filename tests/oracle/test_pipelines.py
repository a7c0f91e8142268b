"""Whole pipelines: output, report, shortfalls, events, overflow, errors."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cupel.policy
from cupel import DiagnosticTraceCollector, SelectionError
from tests import oracle
from tests.oracle.generators import ERROR_KINDS, budget_pairs, item_pairs, law
from tests.oracle.policies import policies


def positions(items):
    """Number the items; an object at several positions goes by the first, as the report cannot tell them apart."""
    return {id(item): position for position, item in reversed(list(enumerate(items)))}


def run_oracle(policy, doubles, budget):
    try:
        return oracle.run(policy, doubles, budget)
    except oracle.OracleError as error:
        return error


def described(outcome, doubles):
    """The oracle's outcome in the words of `reported`."""
    number = positions(doubles)

    def at(position):
        return number[id(doubles[position])]

    return {
        "included": [(at(p), repr(score), reason) for p, score, reason in outcome.included],
        "excluded": [(at(p), repr(score), reason, fields) for p, score, reason, fields in outcome.excluded],
        "events": outcome.events,
        "shortfalls": list(outcome.shortfalls),
        "totals": (outcome.total_candidates, outcome.total_tokens_considered),
    }


def reported(report, items):
    number = positions(items)
    return {
        "included": [(number[id(row.item)], repr(row.score), row.reason.value) for row in report.included],
        "excluded": [
            (number[id(row.item)], repr(row.score), type(row.reason).__name__, without_name(row.reason.to_dict()))
            for row in report.excluded
        ],
        "events": [(event.stage.value, event.item_count) for event in report.events],
        "shortfalls": [
            (str(row.kind), row.required_count, row.satisfied_count) for row in report.count_requirement_shortfalls
        ],
        "totals": (report.total_candidates, report.total_tokens_considered),
    }


def without_name(fields):
    return {key: value for key, value in fields.items() if key != "reason"}


@pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")
@law(150)
@given(policy=policies(), pairs=item_pairs(), budgets=budget_pairs())
def test_output_and_report_are_the_pseudocodes(policy, pairs, budgets):
    (items, doubles), (budget, double_budget) = pairs, budgets
    notices = []
    proceeding = policy["overflow"] == "proceed"
    pipeline = replace(cupel.policy.from_dict(policy), on_overflow=notices.append if proceeding else None)
    wanted = run_oracle(policy, doubles, double_budget)
    if isinstance(wanted, oracle.OracleError):
        with pytest.raises(SelectionError) as raised:
            pipeline.run(items, budget)
        assert ERROR_KINDS[type(raised.value)] == wanted.kind
        assert wanted.message in str(raised.value)
        with pytest.raises(type(raised.value)):
            pipeline.dry_run(items, budget)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [id(item) for item in pipeline.run(items, budget)] == [id(items[p]) for p in wanted.output]
    tokens = sum(doubles[position].tokens for position in wanted.output)
    is_too_large = tokens > budget.max_tokens - budget.output_reserve
    assert [warning.message.selected_tokens for warning in caught] == [tokens] * is_too_large
    assert_notified(notices, wanted.overflow, items, budget)
    report = pipeline.dry_run(items, budget)
    assert reported(report, items) == described(wanted, doubles)
    listed = Counter(id(row.item) for row in [*report.included, *report.excluded])
    assert listed == Counter(map(id, items)), "every item is accounted for, as often as it was listed"


def assert_notified(notices, overflow, items, budget):
    if overflow is None:
        assert notices == []
        return
    over, merged = overflow
    (notice,) = notices
    assert notice.tokens_over_budget == over
    assert [id(item) for item in notice.overflowing_items] == [id(items[p]) for p in merged]
    assert notice.budget is budget


@pytest.mark.filterwarnings("ignore::cupel.errors.BudgetWarning")
@law(60)
@given(policy=policies(), pairs=item_pairs(), budgets=st.lists(budget_pairs(), min_size=2, max_size=3))
def test_every_way_to_run_gives_one_answer(policy, pairs, budgets):
    """`run`, `dry_run`, `select`, a traced run and a prepared selection tell the same story for each budget."""
    items, _ = pairs
    pipeline = cupel.policy.from_dict(policy)
    prepared = pipeline.prepare(items)
    for budget, _ in budgets:
        try:
            output = pipeline.run(items, budget)
        except SelectionError as error:
            with pytest.raises(type(error)):
                prepared.run(budget)
            continue
        collector = DiagnosticTraceCollector()
        traced = pipeline.run(items, budget, trace=collector)
        selected = pipeline.select(items, budget)
        again = prepared.select(budget)
        story = reported(pipeline.dry_run(items, budget), items)
        outputs = [traced, selected.items, again.items, prepared.run(budget)]
        assert all([id(item) for item in other] == [id(item) for item in output] for other in outputs)
        reports = [collector.build_report(), selected.report, again.report, prepared.dry_run(budget)]
        assert all(reported(report, items) == story for report in reports)
