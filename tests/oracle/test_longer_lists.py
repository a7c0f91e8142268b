"""Lists long enough for the fast paths: sorted ranks, tag bitsets, dense ties, deep partitions."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

import cupel.policy
from cupel import ContextBudget, ContextItem
from cupel._internal import columns
from cupel.scorers import _fields
from tests import oracle
from tests.oracle.generators import KINDS, NOW, TAGS
from tests.oracle.policies import build_scorer

SCORERS = {
    "recency": {"type": "recency"},
    "priority": {"type": "priority"},
    "frequency": {"type": "frequency"},
    "reflexive": {"type": "reflexive"},
    "kind": {"type": "kind"},
    "tag": {"type": "tag", "weights": {"a": 0.1, "A": 0.2, "k": 0.3, "é": 0.7}},
    "scaled": {"type": "scaled", "inner": {"type": "frequency"}},
    "composite": {
        "type": "composite",
        "scorers": [
            {"scorer": {"type": "recency"}, "weight": 0.1},
            {"scorer": {"type": "frequency"}, "weight": 0.2},
            {"scorer": {"type": "kind"}, "weight": 0.7},
        ],
    },
}
ENTRIES = [
    {"kind": "message", "require_count": 3, "cap_count": 9},
    {"kind": "Kit", "require_count": 0, "cap_count": 2},
    {"kind": "Gone", "require_count": 1, "cap_count": 1},
]
QUOTAS = [{"kind": "MESSAGE", "require": 29.0, "cap": 57.0}, {"kind": "kit", "cap": 7.0}]
SLICERS = {
    "greedy": {"type": "greedy"},
    "knapsack": {"type": "knapsack", "bucket_size": 7},
    "quota": {"type": "quota", "quotas": QUOTAS},
    "count_quota": {"type": "count_quota", "entries": ENTRIES, "inner": {"type": "quota", "quotas": QUOTAS}},
    "count_constrained_knapsack": {"type": "count_constrained_knapsack", "entries": ENTRIES, "bucket_size": 7},
}


@pytest.fixture(autouse=True, params=["as small pools", "as large pools"])
def size(request, monkeypatch):
    if request.param == "as large pools":
        for module in (columns, _fields):
            monkeypatch.setattr(module, "LARGE", 1)


def random_rows(seed, count):
    random = Random(seed)
    return [
        {
            "content": f"content {random.randrange(count)}",
            "tokens": random.choice([-1, 0, 1, 2, 3, 5, 8, 13, 21, 34]),
            "kind": random.choice(KINDS),
            "priority": random.choice([None, *range(6)]),
            "tags": tuple(random.sample([*TAGS, *map(str, range(30))], random.randrange(4))),
            "timestamp": random.choice([None, NOW - timedelta(minutes=random.randrange(40))]),
            "future_relevance_hint": random.choice([None, random.random(), random.randrange(10) / 10]),
            "pinned": random.random() < 0.03,
        }
        for _ in range(count)
    ]


def both(rows):
    return [ContextItem(**row) for row in rows], [oracle.Item(**row) for row in rows]


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("seed", range(3))
def test_scores(name, seed):
    count = 40 if name == "scaled" else 120
    items, doubles = both(random_rows(seed, count))
    scorer = build_scorer(SCORERS[name])
    scores = scorer.score_all(items)
    assert scores == oracle.score_all(SCORERS[name], doubles)
    assert scores == [scorer.score(item, items) for item in items]


@pytest.mark.parametrize("name", SLICERS)
@pytest.mark.parametrize("seed", range(6))
def test_pipelines(name, seed):
    items, doubles = both(random_rows(seed, 90))
    policy = {
        "scorer": SCORERS["composite"],
        "slicer": SLICERS[name],
        "placer": ["chronological", "u_shaped"][seed % 2],
        "deduplication": seed % 3 > 0,
        "overflow": "truncate",
    }
    fields = {"max_tokens": 500, "target_tokens": 300 + 20 * seed, "estimation_safety_margin_percent": 7.0 * (seed % 2)}
    wanted = oracle.run(policy, doubles, oracle.Budget(**fields))
    report = cupel.policy.from_dict(policy).dry_run(items, ContextBudget(**fields))
    number = {id(item): position for position, item in enumerate(items)}
    assert [number[id(row.item)] for row in report.included] == wanted.output
    assert [
        (number[id(row.item)], row.score, type(row.reason).__name__, _fields_of(row.reason)) for row in report.excluded
    ] == wanted.excluded


def _fields_of(reason):
    return {key: value for key, value in reason.to_dict().items() if key != "reason"}
