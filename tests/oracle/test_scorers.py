"""Every scorer, nested ones included: two faces, one answer, and it is the pseudocode's."""

from __future__ import annotations

from hypothesis import given

from cupel import ContextItem
from tests import oracle
from tests.oracle.generators import item_pairs, law
from tests.oracle.policies import build_scorer, scorer_specs
from tests.oracle.records import Item


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


def test_an_object_listed_several_times_counts_at_its_last_place():
    spec = {"type": "relevance", "query": "b", "neighbours": 0.25}
    item, record = ContextItem("b", 1), Item(content="b", tokens=1)
    assert build_scorer(spec).score_all([item] * 3) == [1.0] * 3
    assert oracle.score_all(spec, [record] * 3) == [1.0] * 3
