"""What slicers say about all targets at once is what they choose under each of them."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cupel import (
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    CupelError,
    GreedySlice,
    KnapsackSlice,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
)
from cupel._targets import AnyOf, Shifted, Stretches, TooMuchWork, Wanted, Work
from cupel.slicers._quota import Sharing
from cupel.slicers._targets import BackwardFill
from tests.analytics.pools import Alternating, small_items, small_slicers

LOTS = 10**12


def prepared(items, slicer):
    return Pipeline(scorer=ReflexiveScorer(), slicer=slicer).prepare(items)


def chosen_at(chooser, target):
    try:
        return chooser(ContextBudget(target, target)).chosen
    except CupelError:
        return None


def members(targets, highest):
    """All targets of a set up to the highest, found by stepping, and again as a column."""
    found, at = [], 0
    while (at := targets.next(at)) is not None and at <= highest:
        found.append(at)
        at += 1
    column = np.arange(highest + 1)
    assert np.flatnonzero(targets.holds(column)).tolist() == found
    outside, at = [], 0
    while (at := targets.next(at, inside=False)) is not None and at <= highest:
        outside.append(at)
        at += 1
    assert sorted(found + outside) == column.tolist()
    return found


@settings(max_examples=200)
@given(items=small_items, slicer=small_slicers, highest=st.integers(1, 70))
def test_targets_are_those_that_choose(items, slicer, highest):
    ready = prepared(items, slicer)
    reach = ready.chooser.reach()
    choices = [chosen_at(ready.chooser, target) for target in range(highest + 1)]
    refused = ready.chooser.refused(Work(LOTS))
    assert [at for at, chosen in enumerate(choices) if chosen is None] == (
        [] if refused is None else members(refused, highest)
    )
    for position in range(len(ready.candidates)):
        targets = ready.chooser.targets(Wanted(position), highest, Work(LOTS))
        expected = [at for at, chosen in enumerate(choices) if chosen is not None and position in chosen]
        if targets is not None and reach is not None:
            found = [at for at in members(targets, highest) if choices[at] is not None]
            assert found == expected if reach.sure else set(found) >= set(expected)


def tied(count, hints, tokens, kinds=("Message", "Document", "ToolOutput")):
    return [
        ContextItem(
            str(n),
            tokens[n * 7 % len(tokens)],
            kind=kinds[n % len(kinds)],
            future_relevance_hint=hints[n * 5 % len(hints)],
        )
        for n in range(count)
    ]


LEVELS = tied(60, (0.2, 0.4, 0.6, 0.8), (100, 250, 90, 300, 120, 30, 700))
EQUAL = tied(60, (0.5,), (100, 200, 300))
PROPORTIONAL = [ContextItem(str(n), 50 + n, future_relevance_hint=(50 + n) / 200) for n in range(60)]
COUNTS = [CountQuotaEntry("Message", 2, 5), CountQuotaEntry("Document", 0, 3)]
SHARES = [QuotaEntry("Message", 20, 60), QuotaEntry("Document", cap=30), QuotaEntry("Memory", 7)]
SLICERS = [
    GreedySlice(),
    KnapsackSlice(1),
    KnapsackSlice(100),
    QuotaSlice(SHARES),
    QuotaSlice(SHARES, KnapsackSlice(100)),
    QuotaSlice(SHARES, KnapsackSlice(7, max_cells=900)),
    CountQuotaSlice(COUNTS),
    CountQuotaSlice(COUNTS, QuotaSlice(SHARES)),
    QuotaSlice(SHARES, CountQuotaSlice([CountQuotaEntry("Message", 0, 5), CountQuotaEntry("Document", 0, 3)])),
    CountConstrainedKnapsackSlice(COUNTS),
    CountConstrainedKnapsackSlice(COUNTS, KnapsackSlice(1)),
    CountQuotaSlice(COUNTS, CountQuotaSlice([CountQuotaEntry("Message", 1, 4)])),
]


@pytest.mark.parametrize("items", [LEVELS, EQUAL, PROPORTIONAL], ids=["levels", "equal", "proportional"])
@pytest.mark.parametrize("slicer", SLICERS, ids=repr)
def test_larger_pools_with_ties(items, slicer):
    ready = prepared(items, slicer)
    column = np.array(range(0, 14_000, 97))
    choices = [chosen_at(ready.chooser, int(target)) for target in column]
    refused = ready.chooser.refused(Work(LOTS))
    allowed = [chosen is not None for chosen in choices]
    assert (refused is None or not refused.holds(column).any()) == all(allowed)
    for position in range(len(items)):
        targets = ready.chooser.targets(Wanted(position), 14_000, Work(LOTS))
        found = targets.holds(column) & allowed
        assert found.tolist() == [chosen is not None and position in chosen for chosen in choices]


@pytest.mark.parametrize("slicer", SLICERS, ids=repr)
def test_nothing_changes_beyond_the_reach(slicer):
    ready = prepared(LEVELS, slicer)
    reach = ready.chooser.reach()
    if reach is None:
        return
    settled = chosen_at(ready.chooser, reach.settled)
    assert all(chosen_at(ready.chooser, reach.settled + more) == settled for more in (1, 99, 100, 5_000, 500_000))
    for target in range(max(1, reach.within), 1_500):
        chosen = chosen_at(ready.chooser, target) or []
        assert sum(ready.candidates.tokens[position] for position in chosen) <= target


def test_values_beyond_64_bits():
    class Huge(ReflexiveScorer):
        def score_all(self, items):
            return [1e30 if score > 0.5 else score for score in super().score_all(items)]

    ready = Pipeline(scorer=Huge(), slicer=KnapsackSlice(100)).prepare(LEVELS)
    column = np.arange(0, 9_000, 300)
    for position in range(0, len(LEVELS), 5):
        found = ready.chooser.targets(Wanted(position), 9_000, Work(LOTS)).holds(column)
        assert found.tolist() == [position in chosen_at(ready.chooser, int(target)) for target in column]


@pytest.mark.parametrize("scale", [1, 10**12, 10**19, 10**400])
@pytest.mark.parametrize(
    "slicer", [GreedySlice(), QuotaSlice(SHARES), CountQuotaSlice(COUNTS), CountQuotaSlice(COUNTS, QuotaSlice(SHARES))]
)
def test_targets_of_any_size(scale, slicer):
    """Around every edge of a set, the slicer itself says the same."""
    source = random.Random(5)
    items = [
        ContextItem(
            str(n),
            source.randint(1, 100) * scale + source.randint(0, 9),
            kind=source.choice(["Message", "Document"]),
            future_relevance_hint=source.random(),
        )
        for n in range(8)
    ]
    chooser = prepared(items, slicer).chooser
    settled = chooser.reach().settled
    for position in range(len(items)):
        targets = chooser.targets(Wanted(position), settled, Work(LOTS))
        at = targets.next(1)
        edges = 0
        while at is not None and edges < 20:
            assert position in chosen_at(chooser, at)
            assert at == 1 or position not in chosen_at(chooser, at - 1)
            end = targets.next(at, inside=False)
            assert end is None or position not in chosen_at(chooser, end)
            at, edges = None if end is None else targets.next(end), edges + 1


percents = st.floats(0, 100) | st.integers(0, 100).map(float) | st.sampled_from([29.0, 57.0, 58.0, 33.3])


@settings(max_examples=200)
@given(
    limits=st.lists(st.tuples(percents, percents).map(sorted), min_size=1, max_size=4),
    masses=st.tuples(*[st.integers(0, 50) | st.integers(0, 10**20)] * 3),
    targets=st.lists(st.integers(0, 300) | st.integers(0, 10**30), min_size=1, max_size=20),
)
def test_a_column_is_shared_like_each_of_its_targets(limits, masses, targets):
    entries = [
        QuotaEntry(str(n), require / len(limits), cap)
        for n, (require, cap) in enumerate(limits)
        if require / len(limits) <= cap
    ]
    sharing = Sharing([*entries[:2], *[None] * (3 - len(entries[:2]))], list(masses), entries[2:])
    column = sharing.column(np.array(targets, np.object_))
    found = [[int(share) for share in shares] for shares, _ in sharing.shares(column)]
    one_by_one = [sharing.shares(target) for target in targets]
    assert [list(row) for row in zip(*found, strict=True)] == [[share for share, _ in shares] for shares in one_by_one]
    for target, shares in zip(targets, one_by_one, strict=True):
        for kind, (share, cap) in enumerate(shares):
            assert share <= cap <= target
            sure = sharing.surely_gives(kind, share + 1)
            assert sure is None or target < sure
            assert share <= sharing.most(kind, target)
            if sure is not None and target >= sharing.steady_from:
                assert sharing.may_give(kind, share) <= target


def test_even_a_column_of_nothing_is_shared_without_wrapping():
    sharing = Sharing([None], [10**20], [])
    [(shares, _)] = sharing.shares(sharing.column(np.array([0, 0])))
    assert shares.tolist() == [0, 0]


def test_shares_up_to_the_doubles_are_those_of_doubles_and_exact_beyond():
    entry = QuotaEntry("Message", 29, 57)
    assert entry.limits(100) == (28, 56)
    assert QuotaEntry("Message", 100).limits(2**53 + 3) == (2**53 + 3, 2**53 + 3)
    assert QuotaEntry("Message", 50).limits(10**400)[0] == 10**400 // 2


@given(
    costs=st.lists(st.integers(0, 30), min_size=1, max_size=9),
    highest=st.integers(1, 300),
    room=st.integers(1, 4),
    data=st.data(),
)
def test_the_set_of_amounts_is_that_of_the_fill(costs, highest, room, data):
    rank = len(costs) - 1
    rivals = data.draw(st.sets(st.sampled_from(range(rank)))) if rank else set()

    def taken(remaining):
        rivals_taken = 0
        for at, cost in enumerate(costs[:-1]):
            if cost <= remaining:
                remaining -= cost
                rivals_taken += at in rivals
        return costs[-1] <= remaining and rivals_taken < room

    found = BackwardFill(costs).targets(rank, rivals, room, highest, Work(LOTS))
    column = np.arange(1, highest + 1)
    assert found.holds(column).tolist() == [taken(target) for target in range(1, highest + 1)]


def test_sets_of_targets():
    odd, even = Stretches([3, 5, 9]), Stretches([4, 7])
    assert [odd.next(at) for at in (0, 3, 4, 5, 9, 10**30)] == [3, 3, 4, 9, 9, 10**30]
    assert [odd.next(at, inside=False) for at in (0, 3, 5, 9)] == [0, 5, 5, None]
    both = AnyOf([odd, even])
    assert members(both, 12) == [3, 4, 5, 6, 9, 10, 11, 12]
    assert both.next(3, inside=False) == 7
    assert both.next(9, inside=False) is None
    assert members(Shifted(odd, 2), 12) == [5, 6, 11, 12]
    assert Shifted(odd, 10**30).next(0) == 10**30 + 3
    assert Stretches([]).next(5) is None


def test_work_is_counted():
    work = Work(10)
    work.spend(10)
    with pytest.raises(TooMuchWork):
        work.spend(1)
    with pytest.raises(TooMuchWork):
        prepared(LEVELS, KnapsackSlice(1)).chooser.targets(Wanted(0), 10_000, Work(1_000))


def test_a_slicer_of_your_own_promises_nothing():
    chooser = prepared(LEVELS, Alternating()).chooser
    assert chooser.reach() is None
    assert chooser.order is None
    assert chooser.targets(Wanted(0), 100, Work(1)) is None
    assert chooser.refused(Work(1)) is None
    assert chooser.replay({}) is None
