"""Budgets, weights and pins on a served page: each answer is the library's with that policy and those pins."""

import dataclasses
import json
import random
from datetime import UTC, datetime

import pytest
from msgspec import structs

from cupel import (
    CompositeScorer,
    ContextBudget,
    ContextItem,
    FrequencyScorer,
    KindScorer,
    PinRule,
    Pipeline,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    RelevanceScorer,
    ScaledScorer,
    UShapedPlacer,
    presets,
)
from cupel.analytics import counterfactual, counterfactuals
from cupel.demo import session_items
from cupel.errors import ConfigurationError, CupelError, ScorerConfigError
from cupel.page import LivePage, Variant
from tests.page.pools import SLICERS, random_items
from tests.page.test_stops import expected_of, shown

SCORERS = [
    (ReflexiveScorer(), 2.0),
    (ScaledScorer(RecencyScorer()), 1.0),
    (CompositeScorer([(PriorityScorer(), 0.3), (KindScorer(), 0.7)]), 1.0),
    (FrequencyScorer(), 0.1),
]


def live(items, policies, budget=None, *, fixed_window=False) -> LivePage:
    variants = [Variant(policy, policy.name or "mine", "") for policy in policies]
    budget = budget or ContextBudget(400, 400)
    return LivePage(items, budget, variants, title="T", source=None, fixed_window=fixed_window)


def ask(page: LivePage, **question):
    return page.answer(json.dumps(question).encode())


def read(scripts, page, policy):
    (answer,) = scripts.ask(
        "answers", policy={"reasons": [], **policy, "answers": [policy["answer"]]}, items=page.payload["items"]
    )
    return answer


def with_pins(items, pins):
    return [structs.replace(item, pinned=pins.get(at, item.pinned)) for at, item in enumerate(items)]


@pytest.mark.parametrize("seed", range(2))
def test_weights_and_pins_are_the_librarys(scripts, seed):
    items, rng = random_items(seed), random.Random(seed)
    chosen = [
        Pipeline(scorer=CompositeScorer(SCORERS), slicer=slicer, placer=UShapedPlacer(), name=name)
        for name, slicer in SLICERS.items()
    ]
    page = live(items, chosen)
    free = [at for at, item in enumerate(items) if item.tokens >= 0]
    for number, policy in enumerate(chosen):
        for weights in (None, [0.1, 3.3, 0.7, 5.0]):
            pins = {at: not items[at].pinned for at in rng.sample(free, 3)}
            entries = SCORERS if weights is None else [(one, w) for (one, _), w in zip(SCORERS, weights, strict=True)]
            same, others = dataclasses.replace(policy, scorer=CompositeScorer(entries)), with_pins(items, pins)
            for target in (150, 233, 1100):
                changed = {} if weights is None else {number: weights}
                told = ask(page, budget=target, policy=number, weights=changed, pins=pins)["policies"][number]
                expected = expected_of(same, others, ContextBudget(target, target))
                assert shown(read(scripts, page, told), others) == expected, (policy.name, weights, pins)
            report = Pipeline(scorer=same.scorer).dry_run(others, 99_999)
            scores = {id(entry.item): entry.score for entry in report}
            assert told["scores"] == pytest.approx([scores[id(item)] for item in others], rel=1e-8)


def test_any_budget_and_every_policy(scripts):
    items, chosen = session_items(), [presets.chat(), presets.rag(), presets.document_qa()]
    page = live(items, chosen, ContextBudget(4000, 4000))
    for target in (0, 274, 3217, 15_999):
        told = ask(page, budget=target, policy=1)["policies"]
        for policy, answer in zip(chosen, told, strict=True):
            expected = expected_of(policy, items, ContextBudget(target, target))
            told_there = read(scripts, page, answer)
            assert {**told_there, "excluded": []} == {**expected, "excluded": []}
        assert "scores" not in told[0]
        assert shown(read(scripts, page, told[1]), items) == expected_of(
            chosen[1], items, ContextBudget(target, target)
        )
        assert told[1]["stages_at"] == target


def test_pins_change_what_others_are_compared_with():
    """A scorer that compares each item with all others gets the items without the pinned ones."""
    scorer = CompositeScorer([(RelevanceScorer(stem=False).bind("refund webhook"), 1), (RecencyScorer(), 1)])
    items = session_items()
    page = live(items, [Pipeline(scorer=scorer)])
    told = ask(page, budget=3000, pins={"17": True})["policies"][0]
    report = Pipeline(scorer=scorer).dry_run(with_pins(items, {17: True}), 3000)
    assert sum(told["scores"]) == pytest.approx(sum(entry.score for entry in report))
    assert told["parts"][17] is None


def test_a_rule_pins_whatever_the_reader_says():
    items = [ContextItem("a", 5, kind="ToolOutput"), ContextItem("b", 5), ContextItem("c", 5, kind="ToolOutput")]
    page = live(items, [Pipeline(scorer=RecencyScorer(), pins=[PinRule.newest_tool_result()])])
    assert ask(page, budget=10, pins={"0": True, "2": False})["policies"][0]["pinned"] == [0, 2]


def test_a_copy_names_the_item_that_stays_not_a_pinned_one(scripts):
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    items = [ContextItem("same", 5, timestamp=day, pinned=day.day == 3) for day in days]
    page = live(items, [Pipeline(scorer=RecencyScorer())])
    told = read(scripts, page, ask(page, budget=30)["policies"][0])
    assert [(row["position"], row["by"]) for row in told["excluded"]] == [(0, 1)]


def test_the_nearest_stop_with_another_selection():
    items = [ContextItem("small", 10), ContextItem("large", 60)]
    page = live(items, [Pipeline(scorer=RecencyScorer())], ContextBudget(20, 20))
    assert page.payload["slider"]["stops"] == list(range(101))
    assert ask(page, budget=20, step=1)["budget"] == 70
    assert ask(page, budget=20, step=-1)["budget"] == 9
    assert ask(page, budget=20, step=-1, pins={"1": True})["budget"] is None
    assert ask(page, budget=20, step=1, pins={"1": True})["budget"] == 60
    assert ask(page, budget=80, step=1)["budget"] is None


def test_admissions_are_the_counterfactuals():
    items, policy = session_items(), presets.chat()
    page, budget = live(items, [policy], ContextBudget(1500, 1500)), ContextBudget(1500, 1500)
    told = dict(ask(page, budget=1500, admit=list(range(0, 120, 7)))["admitted"])
    prepared = policy.prepare(items)
    for position, found in told.items():
        extra = counterfactual(prepared, budget, items[position]).extra_tokens
        assert found == (None if extra is None else {"budget": 1500 + extra, "exact": True})
    fixed = live(items, [policy], ContextBudget(8000, 1500), fixed_window=True)
    assert ask(fixed, budget=1500, admit=[3]) == {"admitted": []}


def test_an_admission_that_is_not_exact_says_so(monkeypatch):
    def inexact(prepared, budget, items):
        return [dataclasses.replace(one, exact=False) for one in counterfactuals(prepared, budget, items)]

    monkeypatch.setattr("cupel.page._live.counterfactuals", inexact)
    page = live([ContextItem("a", 500)], [Pipeline(scorer=RecencyScorer())])
    assert ask(page, budget=400, admit=[0]) == {"admitted": [(0, {"budget": 500, "exact": False})]}


def test_only_the_last_preparations_are_kept():
    page = live([ContextItem(f"{number}", 5) for number in range(80)], [Pipeline(scorer=RecencyScorer())])
    kept = []
    for number in range(80):
        ask(page, budget=10, pins={str(number): True})
        kept.append(len(page._prepared))
    assert kept == [*range(1, 65), *range(1, 17)]


def test_scores_are_told_again_where_weights_or_pins_changed_them():
    page = live([ContextItem("a", 5)], [Pipeline(scorer=CompositeScorer(SCORERS)), Pipeline(scorer=RecencyScorer())])
    told = [
        ["scores" in one for one in ask(page, budget=10, **changed)["policies"]]
        for changed in ({}, {"weights": {"0": [1, 1, 1, 1]}}, {"pins": {"0": True}})
    ]
    assert told == [[False, False], [True, False], [True, True]]


@pytest.mark.parametrize(
    "question",
    [
        b"",
        b"[]",
        b"{}",
        b'{"budget": "10"}',
        b'{"budget": -1}',
        b'{"budget": 10, "policy": 3}',
        b'{"budget": 10, "policy": -1}',
        b'{"budget": 10, "pins": {"99": true}}',
        b'{"budget": 10, "pins": {"-1": true}}',
        b'{"budget": 10, "weights": {"0": [1, 2]}}',
        b'{"budget": 10, "step": 5}',
        b'{"budget": 10, "admit": [7]}',
        b'{"budget": 10, "more": 1}',
        b'{"budget": 99999999999999999999}',
    ],
)
def test_a_malformed_question_is_refused(question):
    page = live([ContextItem("a", 5)], [Pipeline(scorer=RecencyScorer())])
    with pytest.raises(CupelError):
        page.answer(question)


def test_a_weight_is_above_zero():
    page = live([ContextItem("a", 5)], [Pipeline(scorer=CompositeScorer(SCORERS))])
    with pytest.raises(ScorerConfigError):
        ask(page, budget=10, weights={"0": [0, 1, 1, 1]})
    with pytest.raises(ConfigurationError, match="expected 4 weights"):
        ask(page, budget=10, weights={"0": [1]})
