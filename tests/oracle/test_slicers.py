"""Every slicer picks what the pseudocode picks, in the same order, on instances full of ties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import ContextBudget, ContextItem, ScoredItem, SelectionError
from cupel._internal.columns import Candidates
from tests import oracle
from tests.oracle.generators import ERROR_KINDS, SCORES, item_pairs, law
from tests.oracle.policies import build_slicer, slicer_specs

FIT_TOKENS = st.sampled_from([-2, 0, 1, 1, 2, 3, 4, 5, 5, 5, 7, 10])


@st.composite
def instances(draw):
    items, doubles = draw(item_pairs(tokens=FIT_TOKENS, max_size=12))
    scores = draw(st.lists(st.sampled_from(SCORES), min_size=len(items), max_size=len(items)))
    target = draw(st.integers(0, 40))
    budget = ContextBudget(target + draw(st.sampled_from([0, 0, 7])), target)
    return (
        [ScoredItem(i, s) for i, s in zip(items, scores, strict=True)],
        list(zip(doubles, scores, strict=True)),
        budget,
    )


def run_oracle(spec, doubles, budget):
    try:
        return oracle.choose(spec, doubles, budget.max_tokens, budget.target_tokens)
    except oracle.OracleError as error:
        return error


@law(150)
@given(spec=slicer_specs(), instance=instances())
def test_selection_shortfalls_and_order_are_the_pseudocodes(spec, instance):
    scored, doubles, budget = instance
    slicer = build_slicer(spec)
    wanted = run_oracle(spec, doubles, budget)
    if isinstance(wanted, oracle.OracleError):
        with pytest.raises(SelectionError) as raised:
            slicer.slice(scored, budget)
        assert ERROR_KINDS[type(raised.value)] == wanted.kind
        assert wanted.message in str(raised.value)
        return
    selection = slicer.prepare(Candidates.of(scored))(budget)
    assert selection.chosen == wanted.positions
    assert [(str(s.kind), s.required_count, s.satisfied_count) for s in selection.shortfalls] == list(wanted.shortfalls)
    assert [id(item) for item in slicer.slice(scored, budget)] == [id(scored[p].item) for p in wanted.positions]


@law(60)
@given(spec=slicer_specs(), instance=instances(), targets=st.lists(st.integers(0, 40), min_size=2, max_size=4))
def test_one_fit_serves_every_budget(spec, instance, targets):
    """What is prepared once may depend on the candidates only."""
    scored, _, _ = instance
    slicer = build_slicer(spec)
    choose = slicer.prepare(Candidates.of(scored))
    for target in targets:
        try:
            fresh = slicer.prepare(Candidates.of(scored))(ContextBudget(40, target))
        except SelectionError:
            continue
        again = choose(ContextBudget(40, target))
        assert (again.chosen, again.shortfalls) == (fresh.chosen, fresh.shortfalls)


@law(80)
@given(
    rows=st.lists(st.tuples(st.integers(1, 30), st.sampled_from([0.0, 0.1, 0.1, 0.2, 0.3, 0.5])), max_size=40),
    bucket=st.sampled_from([1, 1, 2, 5]),
    target=st.integers(0, 150),
)
def test_knapsack_on_longer_lists(rows, bucket, target):
    """Room for the reduction to fix some items and leave a core, with many optimal answers to choose from."""
    spec = {"type": "knapsack", "bucket_size": bucket}
    doubles = [(oracle.Item(f"item {n}", tokens), score) for n, (tokens, score) in enumerate(rows)]
    scored = [ScoredItem(ContextItem(double.content, double.tokens), score) for double, score in doubles]
    wanted = oracle.choose(spec, doubles, target, target)
    chosen = build_slicer(spec).prepare(Candidates.of(scored))(ContextBudget(target, target)).chosen
    assert chosen == wanted.positions
