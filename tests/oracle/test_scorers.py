"""Every scorer, nested ones included: two faces, one answer, and it is the pseudocode's."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import ContextItem
from cupel.scorers import trace_reuse
from tests import oracle
from tests.oracle.generators import NOW, item_pairs, law, reuses
from tests.oracle.policies import build_scorer, scorer_specs
from tests.oracle.records import Item
from tests.oracle.reuse import trace


def exactly(scores):
    """Tell every double apart: the sign of zero counts, any NaN is NaN."""
    return [repr(float(score)) for score in scores]


@law(120)
@given(spec=scorer_specs(), pairs=item_pairs())
def test_one_pass_single_scores_and_the_pseudocode_agree(spec, pairs):
    items, doubles = pairs
    scorer = build_scorer(spec)
    scores = exactly(scorer.score_all(items))
    assert scores == exactly(scorer.score(item, items) for item in items)
    assert scores == exactly(oracle.score_all(spec, doubles))


@pytest.mark.parametrize("spec", [{"type": "relevance", "query": "b", "neighbours": 0.25}, {"type": "reuse"}])
def test_an_object_listed_several_times_counts_at_its_last_place(spec):
    item, record = ContextItem("b", 1), Item(content="b", tokens=1)
    assert build_scorer(spec).score_all([item] * 3) == [1.0] * 3
    assert oracle.score_all(spec, [record] * 3) == [1.0] * 3


def shown() -> st.SearchStrategy[str]:
    """Texts whose names, ordinary words and lines occur again, with other punctuation and other numbers of lines."""
    words = [
        "parse_header",
        "app.py",
        "./app.py",
        "-v2",
        "v2",
        "~/a.b",
        "é_1",
        "readHTTP",
        "Makefile",
        "lines",
        "a-",
        "ok",
    ]
    line = st.tuples(
        st.sampled_from(["", "12: ", "7-", "7", "  "]),
        st.lists(st.sampled_from([*words, "(parse_header)", "app.py:", "of the"]), max_size=3).map(" ".join),
    ).map("".join)
    return st.lists(line, min_size=1, max_size=3).map("\n".join)


@law(150)
@given(st.lists(st.tuples(shown(), shown()), max_size=12))
def test_uses_and_repeated_lines_are_those_that_a_comparison_of_all_steps_finds(steps):
    assert trace_reuse(steps) == trace(steps)


def test_a_name_in_more_than_eight_steps_identifies_none():
    for others, uses in ((7, 1), (8, 0)):
        steps = [("see app.py", "")] * others + [("app.py is here", ""), ("", "cat app.py")]
        assert trace_reuse(steps)[others].uses == uses
        assert trace_reuse(steps) == trace(steps)


@st.composite
def conversations(draw):
    """Items of a conversation, some without metadata or timestamp, some shortened, in no particular order."""
    rows = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "content": shown().filter(bool),
                    "tokens": st.integers(-1, 9),
                    "kind": st.sampled_from(["Message", "ToolOutput", "tooloutput"]),
                    "timestamp": st.none() | st.integers(-2, 2).map(lambda hours: NOW + timedelta(hours=hours)),
                    "metadata": st.just({}) | st.fixed_dictionaries({"cupel:reuse": reuses()}),
                    "original_tokens": st.none() | st.integers(0, 90),
                }
            ),
            max_size=8,
        )
    )
    return [ContextItem(**row) for row in rows], [Item(**row) for row in rows]


@law(150)
@given(conversations(), st.sampled_from([{}, {"calls": 1}, {"calls": 3, "words": 0.3}, {"words": 3.3}]))
def test_steps_of_a_conversation_have_the_scores_of_the_pseudocode(pairs, options):
    items, doubles = pairs
    scores = build_scorer({"type": "reuse", **options}).score_all(items)
    assert exactly(scores) == exactly(oracle.score_all({"type": "reuse", **options}, doubles))
