"""A pass over many targets gives what a pass for each target gives."""

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
from cupel.analytics import _scan
from cupel.analytics._memberships import check_targets, memberships, shares
from cupel.analytics._reach import reach_of
from cupel.analytics._scan import Scan, blocks
from tests.analytics.pools import Alternating, small_items, small_slicers

FAR = 500_000


def prepared(items, slicer):
    return Pipeline(scorer=ReflexiveScorer(), slicer=slicer).prepare(items)


def chosen_at(chooser, target):
    return chooser(ContextBudget(target, target)).chosen


def chosen_by_memberships(ready, targets):
    wanted = set(range(len(ready.candidates)))
    columns = [[] for _ in targets]
    for position, taken in memberships(ready.chooser, ready.candidates, np.array(targets), wanted):
        for at in np.flatnonzero(taken):
            columns[at].append(position)
    return columns


@settings(max_examples=200)
@given(items=small_items, slicer=small_slicers, data=st.data())
def test_the_same_choice_in_the_same_order(items, slicer, data):
    ready = prepared(items, slicer)
    if reach_of(ready.chooser, ready.candidates) is None:
        return
    targets = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=20))
    assert chosen_by_memberships(ready, targets) == [chosen_at(ready.chooser, target) for target in targets]


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
    CountQuotaSlice(COUNTS),
    CountQuotaSlice(COUNTS, QuotaSlice(SHARES)),
    QuotaSlice(SHARES, CountQuotaSlice([CountQuotaEntry("Message", 0, 5), CountQuotaEntry("Document", 0, 3)])),
    CountConstrainedKnapsackSlice(COUNTS),
    CountConstrainedKnapsackSlice(COUNTS, KnapsackSlice(1)),
]


@pytest.mark.parametrize("items", [LEVELS, EQUAL, PROPORTIONAL], ids=["levels", "equal", "proportional"])
@pytest.mark.parametrize("slicer", SLICERS, ids=repr)
def test_larger_pools_with_ties(items, slicer):
    ready = prepared(items, slicer)
    targets = list(range(0, 14_000, 97))
    assert chosen_by_memberships(ready, targets) == [chosen_at(ready.chooser, target) for target in targets]


@pytest.mark.parametrize("slicer", SLICERS, ids=repr)
def test_nothing_changes_beyond_the_reach_nor_between_its_steps(slicer):
    ready = prepared(LEVELS, slicer)
    reach = reach_of(ready.chooser, ready.candidates)
    settled = set(chosen_at(ready.chooser, reach.settled))
    assert all(set(chosen_at(ready.chooser, reach.settled + more)) == settled for more in (1, 99, 100, 5_000, FAR))
    before = None
    for target in range(max(1, reach.within), 1_500):
        chosen = chosen_at(ready.chooser, target)
        assert sum(ready.candidates.tokens[position] for position in chosen) <= target
        assert chosen == before or before is None or (target - reach.phase) % reach.step == 0
        before = chosen


def test_values_beyond_64_bits():
    class Huge(ReflexiveScorer):
        def score_all(self, items):
            return [1e30 if score > 0.5 else score for score in super().score_all(items)]

    ready = Pipeline(scorer=Huge(), slicer=KnapsackSlice(100)).prepare(LEVELS)
    targets = list(range(0, 9_000, 300))
    assert chosen_by_memberships(ready, targets) == [chosen_at(ready.chooser, target) for target in targets]


percents = st.floats(0, 100) | st.integers(0, 100).map(float) | st.sampled_from([29.0, 57.0, 58.0, 33.3])


@settings(max_examples=200)
@given(
    limits=st.lists(st.tuples(percents, percents).map(sorted), min_size=1, max_size=4),
    targets=st.lists(st.integers(0, 300) | st.integers(0, 2**30), min_size=1, max_size=20),
)
def test_shares_follow_the_same_arithmetic(limits, targets):
    entries = [QuotaEntry(str(n), require / len(limits), cap) for n, (require, cap) in enumerate(limits)]
    kinds = ["0", "1", "other"]
    ready = prepared([ContextItem(str(n), 7 + n, kind=kinds[n % 3]) for n in range(9)], QuotaSlice(entries))
    found = [column.tolist() for column in shares(ready.chooser, np.array(targets))]
    expected = [[share for share, _ in ready.chooser.shares(target)] for target in targets]
    assert [list(row) for row in zip(*found, strict=True)] == expected


@settings(max_examples=100)
@given(items=small_items, bucket=st.integers(1, 4), target=st.integers(0, 60))
def test_one_position_of_a_knapsack(items, bucket, target):
    ready = prepared(items, KnapsackSlice(bucket))
    chosen = chosen_at(ready.chooser, target)
    assert [ready.chooser.takes(at, target) for at in range(len(ready.candidates))] == [
        at in chosen for at in range(len(ready.candidates))
    ]


@pytest.mark.parametrize("items", [LEVELS, EQUAL, PROPORTIONAL], ids=["levels", "equal", "proportional"])
@pytest.mark.parametrize("bucket", [1, 100])
def test_one_position_of_a_larger_knapsack(items, bucket):
    chooser = prepared(items, KnapsackSlice(bucket)).chooser
    for target in range(0, 14_000, 997):
        chosen = chosen_at(chooser, target)
        assert [at for at in range(len(items)) if chooser.takes(at, target)] == sorted(chosen)


@settings(max_examples=100)
@given(
    items=small_items,
    cells=st.integers(1, 120),
    slicer=st.sampled_from(
        [lambda k: k, lambda k: QuotaSlice(SHARES, k), lambda k: CountConstrainedKnapsackSlice([], k)]
    ),
    targets=st.lists(st.integers(0, 60), min_size=1, max_size=5),
)
def test_targets_are_refused_if_a_run_refuses_one(items, cells, slicer, targets):
    chooser = prepared(items, slicer(KnapsackSlice(1, max_cells=cells))).chooser

    def refusal(call, *arguments):
        try:
            call(*arguments)
        except CupelError as error:
            return type(error)
        return None

    refusals = {refusal(chosen_at, chooser, target) for target in targets} - {None}
    assert {refusal(check_targets, chooser, np.array(targets))} - {None} == refusals


def test_slicers_that_have_to_be_asked_singly():
    within_shares = QuotaSlice(SHARES, CountQuotaSlice(COUNTS))
    of_nothing = QuotaSlice([QuotaEntry("Document", 100)], CountQuotaSlice(COUNTS))  # always more than its share
    for slicer in (Alternating(), KnapsackSlice("auto"), of_nothing, CountQuotaSlice(COUNTS, within_shares)):
        assert Scan.of(prepared(LEVELS, slicer), ContextBudget(100, 100), None) is None
    chooser = prepared(LEVELS, Alternating()).chooser
    with pytest.raises(TypeError, match="chooser must be one of a built-in slicer"):
        memberships(chooser, None, np.array([1]), set())


def test_counts_within_shares_are_looked_at_from_where_what_they_must_take_fits():
    selection = prepared(LEVELS, QuotaSlice(SHARES, CountQuotaSlice(COUNTS)))
    scan = Scan.of(selection, ContextBudget(100, 100), None)
    committed = [part.chooser.committed_tokens for part in selection.chooser.parts]
    assert max(committed) > 0
    for target in range(scan.lowest, scan.lowest + 2_000):
        assert all(share > cost for (share, _), cost in zip(selection.chooser.shares(target), committed, strict=True))
    assert not scan.from_the_start
    assert Scan.of(selection, ContextBudget(2 * scan.lowest, 2 * scan.lowest), None).from_the_start
    free = prepared(LEVELS, QuotaSlice(SHARES, CountQuotaSlice([CountQuotaEntry("Message", 0, 5)])))
    assert Scan.of(free, ContextBudget(0, 0), None).lowest == 1


def test_blocks_are_contiguous_and_hit_every_step(monkeypatch):
    monkeypatch.setattr(_scan, "_FIRST_BLOCK", 2)
    monkeypatch.setattr(_scan, "_LARGEST_BLOCK", 5)
    scan = Scan.of(prepared(LEVELS, CountConstrainedKnapsackSlice(COUNTS)), ContextBudget(2_030, 2_030), 3_000)
    found = list(blocks(scan.lowest, scan.highest, scan.reach.step, scan.reach.phase))
    targets = [int(target) for block in found for target in block]
    committed = scan.reach.within - 1
    assert targets == [2_030, *(at for at in range(2_031, 5_031) if (at - committed) % 100 == 0)]
    assert [len(block) for block in found[:5]] == [1, 2, 4, 5, 5]
