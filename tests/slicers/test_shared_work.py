"""Questions about every item of a pool cost little more than one: counted, not timed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cupel import (
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    KnapsackSlice,
    Pipeline,
    ReflexiveScorer,
    analytics,
)
from cupel._targets import Wanted, Work
from cupel.slicers import _targets
from cupel.slicers._knapsack_core import CapacityTable
from cupel.slicers._targets import BackwardFill


def test_a_fill_without_hope_is_not_followed_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    before = _targets._before

    def counted(*args: Any) -> Any:
        nonlocal steps
        steps += 1
        return before(*args)

    monkeypatch.setattr(_targets, "_before", counted)
    fill = BackwardFill([10] * 1000)
    targets = fill.targets(999, frozenset(range(999)), 20, 100, Work(10**12))
    assert targets.next(1) is None
    assert steps < 1000


@pytest.mark.parametrize("backwards", [False, True])
def test_a_line_of_rivals_is_counted_once(backwards: bool) -> None:
    """Whatever is remembered of the questions before, the answer is the same as without them."""
    count = 200
    weights = [random.Random(count).randint(1, 9) for _ in range(count)]
    items = [ContextItem(str(n), weight, future_relevance_hint=1 - n / count) for n, weight in enumerate(weights)]
    knapsack: Any = Pipeline(scorer=ReflexiveScorer(), slicer=KnapsackSlice()).prepare(items).chooser
    table = CapacityTable.of(knapsack, 400, Work(10**12))
    asked = [Wanted(n, frozenset(range(n)), 5) for n in range(5, count)]
    work = Work(10**12)
    answers = {wanted: table.edges(wanted, work) for wanted in (reversed(asked) if backwards else asked)}
    for wanted in asked[::20]:
        assert CapacityTable.of(knapsack, 400, Work(10**12)).edges(wanted, Work(10**12)) == answers[wanted]
    if not backwards:
        alone = Work(10**12)
        CapacityTable.of(knapsack, 400, Work(10**12)).edges(asked[-1], alone)
        assert work.left == alone.left


@pytest.mark.parametrize("slicer", [CountQuotaSlice, CountConstrainedKnapsackSlice])
def test_every_item_of_a_large_pool_is_answered_and_the_answers_hold(slicer: Any) -> None:
    rnd = random.Random(1)
    items = [
        ContextItem(
            str(n),
            rnd.randint(20, 900),
            kind=rnd.choice(["Message", "Document", "Note"]),
            future_relevance_hint=rnd.random(),
        )
        for n in range(600)
    ]
    pipeline = Pipeline(
        scorer=ReflexiveScorer(), slicer=slicer([CountQuotaEntry("Note", 1, 4), CountQuotaEntry("Document", 0, 9)])
    )
    prepared = pipeline.prepare(items)
    excluded = [entry.item for entry in prepared.dry_run(20_000).excluded]
    found = analytics.counterfactuals(prepared, 20_000, excluded)
    assert all(answer.exact for answer in found)
    let_in = [answer for answer in found if answer.budget is not None]
    assert let_in
    for answer in rnd.sample(let_in, 20):
        assert answer.budget is not None
        assert answer.extra_tokens
        assert any(item is answer.item for item in prepared.included(answer.budget))
        assert not any(item is answer.item for item in prepared.included(20_000 + answer.extra_tokens - 1))
