"""Every scorer, nested ones included: two faces, one answer, and it is the pseudocode's."""

from __future__ import annotations

from hypothesis import given

from tests import oracle
from tests.oracle.generators import item_pairs, law
from tests.oracle.policies import build_scorer, scorer_specs


def exactly(scores):
    """Tell every double apart: the sign of zero counts, any NaN is NaN."""
    return [repr(float(score)) for score in scores]


@law(300)
@given(spec=scorer_specs(), pairs=item_pairs())
def test_one_pass_single_scores_and_the_pseudocode_agree(spec, pairs):
    items, doubles = pairs
    scorer = build_scorer(spec)
    scores = exactly(scorer.score_all(items))
    assert scores == exactly(scorer.score(item, items) for item in items)
    assert scores == exactly(oracle.score_all(spec, doubles))
