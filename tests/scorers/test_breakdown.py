"""Scores taken apart: each scorer's share, weights and density."""

from __future__ import annotations

import pickle

import pytest

from cupel import (
    CompositeScorer,
    ContextItem,
    KindScorer,
    PinRule,
    Pipeline,
    ReflexiveScorer,
    RelevanceScorer,
    ScaledScorer,
    SelectionError,
)

ITEMS = [
    ContextItem("alpha", 10, future_relevance_hint=0.9),
    ContextItem("beta", 0, kind="Document", future_relevance_hint=0.1),
    ContextItem("pin", 5, pinned=True),
    ContextItem("bad", -1),
]
SCORER = CompositeScorer([(ReflexiveScorer(), 3), (ScaledScorer(KindScorer()), 1)])


def test_shares_add_up_to_the_score():
    report = Pipeline(scorer=SCORER).dry_run(ITEMS, 100)
    for item in ITEMS[:2]:
        found = report.breakdown(item)
        assert found.score == report.why(item).score
        assert sum(part.share for part in found.part.parts) == pytest.approx(found.score)
        assert [part.weight for part in found.part.parts] == [3.0, 1.0]
    assert report.breakdown(ITEMS[0]).density == pytest.approx(0.0675)
    assert report.breakdown(ITEMS[1]).density is None


def test_it_is_told_in_words_and_as_data():
    report = Pipeline(scorer=SCORER).dry_run(ITEMS, 100)
    text = "0.675 = (reflexive 0.9 × 3 + scaled 0 [kind 0.2] × 1) / 4; 0.0675 a token"
    assert str(report.breakdown(ITEMS[0])) == text
    assert report.explain(ITEMS[0]).endswith(f"Its score: {text}.")
    assert report.breakdown(ITEMS[0]).to_dict() == {
        "density": pytest.approx(0.0675),
        "scorer": "CompositeScorer",
        "score": pytest.approx(0.675),
        "parts": [
            {"scorer": "ReflexiveScorer", "score": 0.9, "weight": 3.0, "share": pytest.approx(0.675)},
            {
                "scorer": "ScaledScorer",
                "score": 0.0,
                "weight": 1.0,
                "share": 0.0,
                "parts": [{"scorer": "KindScorer", "score": 0.2}],
            },
        ],
    }
    assert str(report.breakdown(ITEMS[1])).endswith("/ 4")


def test_what_was_not_scored_has_no_breakdown():
    report = Pipeline(scorer=SCORER, pins=[PinRule(kind="Document")]).dry_run(ITEMS, 100)
    assert [found is None for found in report.breakdowns(ITEMS)] == [False, True, True, True]
    assert len(report.breakdowns()) == 4
    assert Pipeline(scorer=SCORER).dry_run(ITEMS[2:], 100).breakdown(ITEMS[2]) is None
    with pytest.raises(SelectionError, match="read from a document or copied"):
        pickle.loads(pickle.dumps(report)).breakdown(ITEMS[0])


def test_a_single_scorer_speaks_for_itself_and_a_query_is_remembered():
    items = ITEMS[:2]
    report = Pipeline(scorer=RelevanceScorer()).dry_run(items, 100, query="alpha")
    assert str(report.breakdown(items[0])) == "relevance 1; 0.1 a token"
    assert "Its score" not in report.explain(items[0])
