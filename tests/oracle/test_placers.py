"""Every placer orders as the pseudocode does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import ScoredItem
from cupel._internal.columns import Candidates
from cupel.policy import registered
from tests import oracle
from tests.oracle.generators import SCORES, item_pairs, law


@pytest.mark.parametrize(
    ("name", "placer"), [(tag, known.strategy()) for tag, known in registered()["placer"].items() if known.built_in]
)
@law(80)
@given(data=st.data(), pairs=item_pairs())
def test_the_order_is_the_pseudocodes(name, placer, data, pairs):
    items, doubles = pairs
    scores = data.draw(st.lists(st.sampled_from(SCORES), min_size=len(items), max_size=len(items)))
    scored = [ScoredItem(item, score) for item, score in zip(items, scores, strict=True)]
    order = oracle.place(name, list(zip(doubles, scores, strict=True)))
    assert placer.arrange(Candidates.of(scored)) == order
    assert [id(item) for item in placer.place(scored)] == [id(items[p]) for p in order]
