"""Weights and pins on the page: what the script works out is what the library gives with that policy and those pins."""

import copy
import dataclasses
import json
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import cupel.policy
from cupel import (
    ChronologicalPlacer,
    CompositeScorer,
    ContextBudget,
    ContextItem,
    FrequencyScorer,
    GreedySlice,
    KindScorer,
    PinRule,
    Pipeline,
    PriorityScorer,
    RecencyScorer,
    ReflexiveScorer,
    RelevanceScorer,
    ScaledScorer,
    TagScorer,
    UShapedPlacer,
)
from cupel.scorers import DecayScorer, Exponential, FixedClock, Scorer, SystemClock
from tests import oracle
from tests.oracle.generators import budget_pairs, item_pairs, law
from tests.oracle.policies import policies
from tests.page.pools import SLICERS, answer_of_library, random_items
from tests.page.test_scripts import REFUSED, expected_of, fields_of, payload_of, settings

SCORERS = [
    (ReflexiveScorer(), 2.0),
    (ScaledScorer(RecencyScorer()), 1.0),
    (CompositeScorer([(PriorityScorer(), 0.3), (KindScorer(), 0.7)]), 1.0),
    (FrequencyScorer(), 0.1),
    (TagScorer({"a": 3, "b": 1}), 0.7),
]
WEIGHTS = [[2.0, 1.0, 1.0, 0.1, 0.7], [0.1, 3.3, 0.7, 5.0, 1e-9]]


def tagged_items(seed: int) -> list[ContextItem]:
    rng = random.Random(seed)
    return [
        structs.replace(item, tags=tuple(rng.sample(["a", "A", "b", "c"], rng.randrange(3))))
        for item in random_items(seed)
    ]


def with_pins(items, pins):
    return [structs.replace(item, pinned=pins.get(at, item.pinned)) for at, item in enumerate(items)]


@pytest.mark.parametrize("seed", range(3))
def test_five_budgets_two_sets_of_weights_and_pins(scripts, seed):
    items = tagged_items(seed)
    rng = random.Random(seed)
    chosen = [
        Pipeline(
            scorer=CompositeScorer(SCORERS),
            slicer=slicer,
            placer=UShapedPlacer() if number % 2 else ChronologicalPlacer(),
            name=name,
        )
        for number, (name, slicer) in enumerate(SLICERS.items())
    ]
    payload = payload_of(items, ContextBudget(400, 400), chosen)
    assert [policy["scoring"]["no_pins"] for policy in payload["policies"]] == [""] * len(chosen)
    assert scripts.ask("repeats", payload=payload) == [True] * len(chosen)
    budgets = [ContextBudget(target, target) for target in (150, 233, 400, 700, 1100)]
    free = [at for at, item in enumerate(items) if item.tokens >= 0]
    for number, policy in enumerate(chosen):
        for weights in WEIGHTS:
            pins = {at: not items[at].pinned for at in rng.sample(free, rng.choice([0, 1, 4]))}
            told = scripts.ask(
                "adjusted",
                payload=payload,
                policy=number,
                weights=weights,
                pins=list(pins.items()),
                budgets=[settings(budget) for budget in budgets],
            )
            entries = [(scorer, weight) for (scorer, _), weight in zip(SCORERS, weights, strict=True)]
            same = dataclasses.replace(policy, scorer=CompositeScorer(entries))
            others = with_pins(items, pins)
            for budget, answer in zip(budgets, told["answers"], strict=True):
                expected = answer_of_library(same, others, budget)
                if isinstance(expected, str):
                    assert answer["refused"] == expected
                else:
                    answer["excluded"] = [[row["position"], row["reason"]] for row in answer["excluded"]]
                    assert answer == expected, (policy.name, weights, pins)
            scores = {id(entry.item): entry.score for entry in Pipeline(scorer=same.scorer).dry_run(others, 99_999)}
            assert told["scores"] == [scores[id(item)] for item in others]


@law(200)
@given(policy=policies(), pairs=item_pairs(), budgets=budget_pairs(), data=st.data())
def test_whole_answers_are_the_pseudocodes(scripts, policy, pairs, budgets, data):
    """Random policies, pools and budgets with random weights and pins; what cannot be tried says why."""
    (items, doubles), (budget, double) = pairs, budgets
    doubles = [copy.copy(item) for item in doubles]
    payload = payload_of(items, budget, [cupel.policy.from_dict(policy)], fixed_window=True)
    scoring = payload["policies"][0]["scoring"]
    policy, weights = copy.deepcopy(policy), None
    if not scoring["no_weights"]:
        weight = st.floats(1e-3, 1e3)
        weights = data.draw(
            st.lists(weight, min_size=len(scoring["form"]["inner"]), max_size=len(scoring["form"]["inner"]))
        )
        for at, one in zip(scoring["form"]["places"], weights, strict=True):
            policy["scorer"]["scorers"][at]["weight"] = one
    pins = {}
    if not scoring["no_pins"]:
        free = [at for at, item in enumerate(items) if item.tokens >= 0 and at not in scoring["ruled"]]
        pins = {at: not items[at].pinned for at in free if data.draw(st.integers(0, 3)) == 0}
    if not weights and not pins:
        return
    doubles = [dataclasses.replace(one, pinned=pins.get(at, one.pinned)) for at, one in enumerate(doubles)]
    asked = {"payload": payload, "policy": 0, "weights": weights, "pins": list(pins.items())}
    (answer,) = scripts.ask("adjusted", **asked, budgets=[settings(budget)])["answers"]
    if "refused" in answer:
        assert {"refused": REFUSED[answer["refused"]]} == expected_of(policy, doubles, double)
    else:
        answer["excluded"] = [fields_of(row, items) for row in answer["excluded"]]
        assert answer == expected_of(policy, doubles, double)


def test_the_oracle_knows_the_items():
    """The doubles are copied with other pins: they must be values."""
    assert dataclasses.is_dataclass(oracle.Item)


class Mine(Scorer):
    def score(self, item, all_items):
        return item.tokens / sum(peer.tokens for peer in all_items)


def scoring_of(policy, items=None):
    pool = [ContextItem(f"{n}", 10, future_relevance_hint=0.5) for n in range(4)] if items is None else items
    return payload_of(pool, ContextBudget(20, 20), [policy])["policies"][0]["scoring"]


@pytest.mark.parametrize(
    ("scorer", "weights", "pins"),
    [
        (RecencyScorer(), "one scorer", ""),
        (CompositeScorer([(RecencyScorer(), 1), (Mine(), 1)]), "", "Mine"),
        (CompositeScorer([(RelevanceScorer(stem=False).bind("one"), 1), (KindScorer(), 1)]), "", "Relevance"),
        (CompositeScorer([(DecayScorer(SystemClock(), Exponential(timedelta(days=1))), 1)]), "", "Decay"),
        (CompositeScorer([(KindScorer({"Message": 1e9}), 1)]), "too large", "too large"),
    ],
    ids=["alone", "own", "relevance", "clock", "large"],
)
def test_what_cannot_be_tried_says_why(scorer, weights, pins):
    scoring = scoring_of(Pipeline(scorer=scorer))
    for said, expected in ((scoring["no_weights"], weights), (scoring["no_pins"], pins)):
        assert (said == "") == (expected == "")
        assert expected in said


def test_scores_that_move_with_the_clock_are_not_repeated():
    items = [ContextItem("x", 5, timestamp=datetime.now(UTC) - timedelta(days=1))]
    moving = CompositeScorer([(DecayScorer(SystemClock(), Exponential(timedelta(microseconds=1))), 1)])
    standing = DecayScorer(FixedClock(datetime.now(UTC)), Exponential(timedelta(days=1)))
    assert scoring_of(Pipeline(scorer=CompositeScorer([(standing, 1)])), items)["no_pins"] == ""
    assert scoring_of(Pipeline(scorer=moving), items)["no_pins"] != ""


def test_related_items_and_own_slicers_are_left_to_python():
    class Own(GreedySlice):
        def slice(self, scored, budget):
            return super().slice(scored, budget)

    both = CompositeScorer([(RecencyScorer(), 1), (KindScorer(), 1)])
    assert "which the page cannot run" in scoring_of(Pipeline(scorer=both, slicer=Own()))["no_weights"]
    related = [ContextItem("a", 5, metadata={"cupel:id": "x"}), ContextItem("b", 3, metadata={"cupel:id": "x"})]
    assert "belong together" in scoring_of(Pipeline(scorer=both), related)["no_pins"]


def test_what_a_rule_pins_stays_pinned(scripts):
    items = [ContextItem("a", 5, kind="ToolOutput"), ContextItem("b", 5), ContextItem("c", 5, kind="ToolOutput")]
    policy = Pipeline(scorer=CompositeScorer([(RecencyScorer(), 1)]), pins=[PinRule.newest_tool_result()])
    payload = payload_of(items, ContextBudget(10, 10), [policy])
    assert payload["policies"][0]["scoring"]["ruled"] == [2]
    told = scripts.ask(
        "adjusted",
        payload=payload,
        policy=0,
        weights=None,
        pins=[[0, True]],
        budgets=[settings(ContextBudget(10, 10))],
    )
    assert sorted(told["answers"][0]["placed"]) == [0, 2]


def test_numbers_travel_with_all_their_bits():
    rng = random.Random(5)
    items = [ContextItem(f"{n}", 5, future_relevance_hint=rng.random()) for n in range(50)]
    form = scoring_of(Pipeline(scorer=CompositeScorer([(ReflexiveScorer(), 1 / 3)])), items)["form"]
    again = json.loads(json.dumps(form))
    assert again["inner"][0]["scores"] == [item.future_relevance_hint for item in items]
    assert again["weights"] == [1 / 3]
