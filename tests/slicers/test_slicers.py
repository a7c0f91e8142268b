"""Each slicer's choice, edge by edge, and the spans of targets over which a choice holds."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import (
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    KnapsackSlice,
    QuotaEntry,
    QuotaSlice,
    ScarcityBehavior,
    ScarcityError,
    ScoredItem,
    Slicer,
    StrategyContractError,
    TableTooLargeError,
)
from cupel._internal.columns import Candidates
from cupel.diagnostics import CountCapExceeded, CountRequirementShortfall
from cupel.slicers._base import Chooser, PreparingSlicer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.slicers import Selection


def scored(*rows: tuple[str, int, float] | tuple[str, int, float, str]) -> list[ScoredItem]:
    """Rows of content, tokens, score and perhaps kind."""
    return [ScoredItem(ContextItem(row[0], row[1], kind=row[3] if len(row) > 3 else "Message"), row[2]) for row in rows]


def budget(target: int) -> ContextBudget:
    return ContextBudget(target, target)


def chosen(slicer: Slicer, pool: list[ScoredItem], target: int) -> list[str]:
    return [item.content for item in slicer.slice(pool, budget(target))]


def select(slicer: Slicer, pool: list[ScoredItem], target: int) -> Selection:
    return slicer.prepare(Candidates.of(pool))(budget(target))


ALL_SLICERS: list[Slicer] = [
    GreedySlice(),
    KnapsackSlice(),
    KnapsackSlice(1),
    QuotaSlice([QuotaEntry("Message", require=10, cap=60)]),
    QuotaSlice([], KnapsackSlice(7)),
    CountQuotaSlice([CountQuotaEntry("Message", 1, 2)]),
    CountQuotaSlice([CountQuotaEntry("Tool", 0, 1)], QuotaSlice([QuotaEntry("Tool", cap=50)])),
    CountQuotaSlice([CountQuotaEntry("Message", 1, 2), CountQuotaEntry("Tool", cap_count=1)], leftover="share"),
    CountConstrainedKnapsackSlice([CountQuotaEntry("Message", 1, 3)], KnapsackSlice(3)),
    CountConstrainedKnapsackSlice([CountQuotaEntry("Message", 1)], KnapsackSlice(3)),
]


@pytest.mark.parametrize("slicer", ALL_SLICERS, ids=repr)
def test_nothing_comes_of_nothing(slicer: Slicer) -> None:
    assert chosen(slicer, [], 100) == []
    assert chosen(slicer, scored(("zero", 0, 1.0), ("one", 1, 1.0)), 0) == []


@pytest.mark.parametrize("tokens", [-50, -1])
@pytest.mark.parametrize("slicer", ALL_SLICERS, ids=repr)
def test_negative_counts_are_ignored(slicer: Slicer, tokens: int) -> None:
    assert "neg" not in chosen(slicer, scored(("neg", tokens, 1.0), ("pos", 20, 0.5)), 100)


def test_negative_counts_do_not_weigh_in_quota_shares() -> None:
    assert chosen(QuotaSlice([]), scored(("n", -2, 1.0), ("m", -2, 1.0), ("a", 1, 0.5)), 1) == ["a"]


@pytest.mark.parametrize(
    ("pool", "target", "expected"),
    [
        (scored(("a", 60, 0.9), ("b", 60, 0.8), ("c", 30, 0.1)), 100, ["a", "c"]),
        (scored(("big", 300, 0.9), ("small", 50, 0.5)), 350, ["small", "big"]),
        (scored(("a", 10, 0.5), ("b", 10, 0.5), ("c", 10, 0.5)), 20, ["a", "b"]),
        (scored(("a", 10, 0.5), ("z1", 0, 0.1), ("z2", 0, 0.9)), 5, ["z1", "z2"]),
        (scored(("inf", 10, inf), ("z", 0, 0.1)), 10, ["inf", "z"]),
        (scored(("n", 10, nan), ("a", 10, -1.0)), 10, ["a"]),
        (scored(("long", 100, -0.4), ("short", 10, -0.4)), 100, ["long"]),
        (scored(("exact", 100, 0.5)), 100, ["exact"]),
        (scored(("over", 101, 0.5)), 100, []),
        (scored(("a", 50, 0.9), ("z", 0, 0.0), ("b", 50, 0.1)), 100, ["z", "a", "b"]),
    ],
)
def test_greedy(pool: list[ScoredItem], target: int, expected: list[str]) -> None:
    assert chosen(GreedySlice(), pool, target) == expected


@pytest.mark.parametrize(
    ("bucket", "pool", "target", "expected"),
    [
        (100, scored(("a", 300, 0.9), ("b", 200, 0.5), ("c", 100, 0.45)), 300, ["c", "b"]),
        (1, scored(("a", 3, 0.5), ("b", 3, 0.5)), 3, ["a"]),
        (100, scored(("a", 50, 0.5)), 99, []),
        (100, scored(("a", 50, 0.5), ("z", 0, 0.0)), 99, ["z"]),
        (100, scored(("z", 0, 0.0)), 1000, ["z"]),
        (1, scored(("a", 1, 0.5), ("worthless", 1, 0.00009)), 10, ["a"]),
        (1, scored(("nan", 1, nan), ("neginf", 1, -inf), ("neg", 1, -1.0), ("a", 1, 0.1)), 10, ["a"]),
        (1, scored(("inf", 2, inf), ("a", 1, 0.9), ("b", 1, 0.9)), 2, ["inf"]),
        (1, scored(("huge", 2, 1e300), ("a", 1, 0.9)), 2, ["huge"]),
        (1, scored(("a", 2, 0.57), ("b", 2, 0.5699)), 2, ["a"]),
        (100, scored(("a", 101, 0.9), ("b", 100, 0.1)), 200, ["a"]),
    ],
)
def test_knapsack(bucket: int, pool: list[ScoredItem], target: int, expected: list[str]) -> None:
    assert chosen(KnapsackSlice(bucket), pool, target) == expected


def test_knapsack_scales_scores_by_flooring_doubles() -> None:
    """0.57 * 10000 is 5699.999... in doubles, so 0.57 and 0.5699 tie and the earlier one wins."""
    assert chosen(KnapsackSlice(1), scored(("b", 2, 0.5699), ("a", 2, 0.57)), 2) == ["b"]


@pytest.mark.parametrize(("less", "more"), [(0.0004, 0.0005), (0.25, 0.2501), (5e14, 9e14), (9e14, 9.2e14)])
def test_knapsack_values_keep_their_last_place(less: float, more: float) -> None:
    rows = ("less", 2, less), ("more", 2, more)
    assert chosen(KnapsackSlice(1), scored(*rows), 2) == ["more"]
    assert chosen(KnapsackSlice(1), scored(*reversed(rows)), 2) == ["more"]


def test_the_table_guard_is_exact() -> None:
    pool = scored(*[(str(i), 1, 0.5) for i in range(5)])
    assert len(chosen(KnapsackSlice(1, max_cells=20), pool, 3)) == 3
    with pytest.raises(TableTooLargeError) as caught:
        chosen(KnapsackSlice(1, max_cells=19), pool, 3)
    assert (caught.value.candidates, caught.value.capacity, caught.value.cells, caught.value.max_cells) == (
        5,
        3,
        20,
        19,
    )
    assert len(chosen(KnapsackSlice(1, max_cells=None), pool, 3)) == 3


def test_the_default_guard_is_fifty_million_cells() -> None:
    pool = scored(*[(str(i), 1, 0.5) for i in range(5000)], ("free", 0, 0.5))
    assert len(chosen(KnapsackSlice(1), pool, 9_999)) == 5001
    with pytest.raises(TableTooLargeError, match="50005000 cells"):
        chosen(KnapsackSlice(1), pool, 10_000)


def test_quota_floors_in_doubles() -> None:
    """29 % of 100 is 28.999... in doubles: 28 tokens, so an item of 29 does not fit."""
    slicer = QuotaSlice([QuotaEntry("a", cap=29)])
    assert chosen(slicer, scored(("x", 29, 1.0, "a")), 100) == []
    assert chosen(slicer, scored(("x", 28, 1.0, "a")), 100) == ["x"]


def test_quota_shares_the_rest_by_mass_and_wastes_what_absent_kinds_require() -> None:
    pool = scored(("a1", 30, 0.9, "a"), ("a2", 30, 0.8, "A"), ("b1", 20, 0.7, "b"), ("b2", 20, 0.6, "b"))
    slicer = QuotaSlice([QuotaEntry("absent", require=50)])
    assert chosen(slicer, pool, 100) == ["a1", "b1"]
    assert chosen(QuotaSlice([]), pool, 100) == ["a1", "a2", "b1", "b2"]


def test_quota_kinds_without_budget_lose_even_free_items() -> None:
    pool = scored(("free", 0, 0.9, "a"), ("b", 10, 0.5, "b"))
    assert chosen(QuotaSlice([]), pool, 100) == ["b"]
    assert chosen(QuotaSlice([QuotaEntry("a", require=1)]), pool, 100) == ["free", "b"]
    assert chosen(QuotaSlice([QuotaEntry("b", cap=0)]), pool, 100) == []


def test_quota_full_requirement_leaves_nothing() -> None:
    pool = scored(("a", 10, 0.9, "a"), ("b", 10, 0.5, "b"))
    assert chosen(QuotaSlice([QuotaEntry("b", require=100)]), pool, 100) == ["b"]
    pool = scored(("a", 1, 0.9, "a"), ("b", 10, 0.5, "b"))
    assert chosen(QuotaSlice([QuotaEntry("b", require=100)]), pool, 100) == ["b"], "not even a single token"


def test_quota_kinds_that_cannot_grow_take_no_part_in_sharing() -> None:
    """20 of 100 are required and all that `a` may have, so `b` gets the other 80 and not half of them."""
    slicer = QuotaSlice([QuotaEntry("a", 20, 20)])
    assert chosen(slicer, scored(("a", 50, 0.9, "a"), ("b", 50, 0.5, "b")), 100) == ["b"]
    assert chosen(slicer, scored(("a", 5000, 0.9, "a"), ("b", 5000, 0.5, "b")), 10_000) == ["b"]


def test_quota_clamps_to_the_cap_and_passes_it_on_as_the_maximum() -> None:
    seen: list[tuple[int, int]] = []

    class Spy(Slicer):
        def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
            seen.append((budget.max_tokens, budget.target_tokens))
            return GreedySlice().slice(scored, budget)

    QuotaSlice([QuotaEntry("a", 10, 20)], Spy()).slice(scored(("a", 90, 1, "a"), ("b", 10, 1, "b")), budget(100))
    assert seen == [(20, 20), (100, 9)]


def test_quota_sums_requirements_exactly() -> None:
    entries = [QuotaEntry(str(i), require=9.09) for i in range(10)]
    assert len(QuotaSlice([*entries, QuotaEntry("last", require=9.1)]).quotas) == 11


@pytest.mark.parametrize("slicer_type", [CountQuotaSlice, CountConstrainedKnapsackSlice])
def test_counts_commit_before_the_budget_is_looked_at(slicer_type: type[CountQuotaSlice]) -> None:
    pool = scored(("t1", 80, 0.1, "tool"), ("t2", 80, 0.05, "Tool"), ("m", 10, 0.9))
    slicer = slicer_type([CountQuotaEntry("TOOL", 2, 2)])
    assert chosen(slicer, pool, 100) == ["t1", "t2"]


@pytest.mark.parametrize("slicer_type", [CountQuotaSlice, CountConstrainedKnapsackSlice])
def test_counts_sort_each_kind_by_score_ties_by_position(slicer_type: type[CountQuotaSlice]) -> None:
    pool = scored(("low", 1, 0.1, "t"), ("x", 1, 0.9, "t"), ("y", 1, 0.9, "t"))
    assert chosen(slicer_type([CountQuotaEntry("t", 2, 2)]), pool, 1)[:2] == ["x", "y"]


@pytest.mark.parametrize("slicer_type", [CountQuotaSlice, CountConstrainedKnapsackSlice])
def test_counts_look_on_until_every_kind_has_enough(slicer_type: type[CountQuotaSlice]) -> None:
    entries = [CountQuotaEntry("late", 2, 2), CountQuotaEntry("early", 1, 1), CountQuotaEntry("never", 1, 1)]
    pool = scored(
        ("e", 9, 0.9, "early"),
        ("negative", -1, 0.8, "late"),
        ("x", 9, 0.7, "late"),
        ("e2", 9, 0.6, "early"),
        ("y", 9, 0.5, "late"),
        ("z", 9, 0.4, "late"),
    )
    assert chosen(slicer_type(entries), pool, 1) == ["x", "y", "e"]


def test_count_quota_caps_follow_the_inner_order() -> None:
    pool = scored(("big", 400, 0.9, "t"), ("small", 50, 0.5, "t"))
    assert chosen(CountQuotaSlice([CountQuotaEntry("t", 0, 1)]), pool, 1000) == ["small"]


def test_count_knapsack_caps_follow_the_score_ties_from_the_end() -> None:
    pool = scored(("b", 100, 0.8, "t"), ("c", 100, 0.8, "t"), ("d", 100, 0.6, "t"))
    assert chosen(CountConstrainedKnapsackSlice([CountQuotaEntry("t", 0, 1)]), pool, 1000) == ["c"]


def test_count_cap_zero_removes_a_kind() -> None:
    pool = scored(("t", 1, 0.9, "t"), ("m", 1, 0.1))
    assert chosen(CountQuotaSlice([CountQuotaEntry("t", 0, 0)]), pool, 10) == ["m"]


def test_one_object_listed_twice_counts_twice() -> None:
    entry = ScoredItem(ContextItem("x", 10, kind="t"), 0.5)
    assert chosen(CountQuotaSlice([CountQuotaEntry("t", 1, 2)]), [entry, entry], 20) == ["x", "x"]


@pytest.mark.parametrize("slicer_type", [CountQuotaSlice, CountConstrainedKnapsackSlice])
def test_scarcity(slicer_type: type[CountQuotaSlice]) -> None:
    pool = scored(("t", 1, 0.9, "tool"))
    entries = [CountQuotaEntry("Missing", 1, 1), CountQuotaEntry("Tool", 3, 5)]
    selection = select(slicer_type(entries), pool, 10)
    assert selection.chosen == [0]
    assert selection.shortfalls == (
        CountRequirementShortfall("Missing", 1, 0),
        CountRequirementShortfall("Tool", 3, 1),
    )
    throwing = slicer_type(entries, scarcity=ScarcityBehavior.THROW)
    with pytest.raises(ScarcityError) as caught:
        chosen(throwing, pool, 10)
    name = slicer_type.__name__
    assert str(caught.value) == f"{name}: candidate pool for kind 'Missing' has 0 items but RequireCount is 1."
    assert (chosen(throwing, pool, 0), chosen(throwing, [], 10)) == ([], [])


def test_reached_caps_explain_what_they_dropped() -> None:
    pool = scored(("t1", 100, 0.9, "Tool"), ("t2", 100, 0.8, "tOOl"), ("t3", 300, 0.7, "tool"), ("m", 200, 0.6))
    selection = select(CountQuotaSlice([CountQuotaEntry("tool", 0, 1)]), pool, 250)
    assert selection.chosen == [0]
    assert selection.explain is not None
    assert selection.explain(1) == CountCapExceeded("tOOl", 1, 1)
    assert selection.explain(2) is None  # too large by itself
    assert selection.explain(3) is None  # a kind without an entry


def test_a_cap_of_zero_explains_even_without_a_target() -> None:
    selection = select(CountQuotaSlice([CountQuotaEntry("t", 0, 0)]), scored(("free", 0, 1, "t"), ("m", 0, 1)), 0)
    assert selection.explain is not None
    assert selection.explain(0) == CountCapExceeded("t", 0, 0)
    assert selection.explain(1) is None


def test_an_unreached_cap_explains_nothing() -> None:
    selection = select(CountQuotaSlice([CountQuotaEntry("t", 0, 2)]), scored(("a", 9, 1, "t"), ("b", 9, 1, "t")), 10)
    assert selection.explain is not None
    assert selection.explain(1) is None


def test_a_custom_slicer_is_checked() -> None:
    foreign = ContextItem("foreign", 1)

    class Inventive(Slicer):
        def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
            del scored, budget
            return [foreign]

    with pytest.raises(StrategyContractError, match="Inventive broke its contract: slice returned an item it was not"):
        select(Inventive(), scored(("a", 1, 1)), 10)


def test_a_custom_slicer_may_keep_its_list() -> None:
    """The chooser hands out a fresh list each time, so a slicer that empties it harms nobody."""

    class Greedy(Slicer):
        def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
            del budget
            assert isinstance(scored, list)
            return [scored.pop().item]

    chooser = Greedy().prepare(Candidates.of(scored(("a", 1, 1), ("b", 1, 1))))
    assert [chooser(budget(5)).chosen for _ in range(3)] == [[1], [1], [1]]
    assert chooser.span(budget(5)) == (5, 6)


POOLS = st.lists(
    st.tuples(
        st.text("ab", min_size=1, max_size=1),
        st.integers(0, 12),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        st.sampled_from(["Message", "Tool"]),
    ),
    max_size=9,
)


@pytest.mark.parametrize("slicer", ALL_SLICERS, ids=repr)
@given(pool=POOLS, target=st.integers(0, 70))
def test_a_choice_holds_over_its_whole_span(
    slicer: Slicer, pool: list[tuple[str, int, float, str]], target: int
) -> None:
    chooser = slicer.prepare(Candidates.of(scored(*pool)))
    here = chooser(budget(target)).chosen
    span = chooser.span(budget(target))
    assert span.start <= target
    assert span.stop is None or span.stop > target
    for probe in range(max(0, span.start), 90 if span.stop is None else min(span.stop, 90)):
        assert chooser(budget(probe)).chosen == here, probe


def test_greedy_spans_are_as_long_as_they_can_be() -> None:
    chooser = GreedySlice().prepare(Candidates.of(scored(("a", 6, 0.9), ("b", 5, 0.5))))
    spans = [chooser.span(budget(target)) for target in (0, 3, 5, 8, 11)]
    assert spans == [(0, 1), (1, 5), (5, 6), (6, 11), (11, None)]
    assert GreedySlice().prepare(Candidates.of([])).span(budget(0)) == (0, None)


def test_count_spans_are_those_of_the_inner_slicer_after_what_is_committed() -> None:
    pool = Candidates.of(scored(("t", 10, 0.9, "t"), ("a", 6, 0.9), ("b", 5, 0.5)))
    chooser = CountQuotaSlice([CountQuotaEntry("t", 1, 1)]).prepare(pool)
    spans = [chooser.span(budget(target)) for target in (0, 3, 10, 11, 15, 16, 21)]
    assert spans == [(0, 1), (1, 11), (1, 11), (11, 15), (15, 16), (16, 21), (21, None)]
    assert CountQuotaSlice([]).prepare(Candidates.of([])).span(budget(0)) == (0, None)


def test_a_slicer_that_chooses_nothing_cannot_be_built() -> None:
    for base in (Slicer, PreparingSlicer, Chooser):
        with pytest.raises(TypeError, match="abstract"):
            type("Idle", (base,), {})()


def test_knapsack_spans_are_buckets_and_end_at_the_guard() -> None:
    pool = Candidates.of(scored(("a", 6, 0.9), ("b", 5, 0.5)))
    spans = [KnapsackSlice(5, max_cells=None).prepare(pool).span(budget(target)) for target in (0, 3, 9, 15, 99)]
    assert spans == [(0, 1), (1, 5), (5, 10), (15, None), (15, None)]
    assert KnapsackSlice(5, max_cells=20).prepare(pool).span(budget(16)) == (15, 50)
    with pytest.raises(TableTooLargeError):
        KnapsackSlice(5, max_cells=20).prepare(pool)(budget(50))
    assert KnapsackSlice(5, max_cells=20).prepare(pool)(budget(49)).chosen == [1, 0]
    assert KnapsackSlice(5).prepare(Candidates.of([])).span(budget(0)) == (0, 1)
    assert KnapsackSlice(5).prepare(Candidates.of([])).span(budget(7)) == (1, None)


def test_quota_spans_end_where_a_share_leaves_its_span() -> None:
    chooser = QuotaSlice([]).prepare(Candidates.of(scored(("a", 5, 0.9))))
    assert chooser.span(budget(6)) == (6, None)
    assert chooser.span(budget(0)) == (0, 1)
    assert chooser.span(budget(3)) == (3, 5)


def test_quota_spans_leap_and_never_settle_before_every_kind_does() -> None:
    pool = scored(("a", 500, 0.9), ("b", 5_000, 0.5, "Tool"))
    chooser = QuotaSlice([QuotaEntry("Tool", cap=50)]).prepare(Candidates.of(pool))
    assert chooser.span(budget(4_000)) == (4_000, 5_024)
    assert chooser.span(budget(6_000)) == (6_000, 8_048)
    assert chooser.span(budget(20_000)) == (20_000, None)


@pytest.mark.parametrize("required", [3, 16, 17, 40])
def test_few_or_many_committed_items_leave_the_same_rest(required: int) -> None:
    """The rest is taken apart in two ways, by how much is committed; whoever is not committed stays available once."""
    pool = scored(*[(f"t{i}", 1, 0.9 - i / 100, "tool") for i in range(60)], *[(f"m{i}", 2, 0.1) for i in range(5)])
    slicer = CountQuotaSlice([CountQuotaEntry("tool", required, required)], KeepAll())
    kept = chosen(slicer, pool, 1_000)
    assert kept[:required] == [f"t{i}" for i in range(required)]
    assert kept[required:] == [f"m{i}" for i in range(5)]
    everything = chosen(CountQuotaSlice([CountQuotaEntry("tool", required, 60)], KeepAll()), pool, 1_000)
    assert sorted(everything) == sorted(entry.item.content for entry in pool)  # each once: a count would hide a twin


class KeepAll(Slicer):
    """Returns everything in the order given, so that a wrong rest shows."""

    def slice(self, scored: Sequence[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
        return [entry.item for entry in scored]


def test_what_is_no_scored_item_or_budget_is_named() -> None:
    with pytest.raises(TypeError, match=r"scored\[0\] must be a ScoredItem, got str"):
        GreedySlice().slice(["a"], budget(5))  # type: ignore[list-item]
    with pytest.raises(TypeError, match="budget must be a ContextBudget, got int: 5"):
        KnapsackSlice().slice([], 5)  # type: ignore[arg-type]


def test_a_scarcity_that_is_refused_is_refused_at_every_target() -> None:
    alternatives = [ContextItem(text, 9, metadata={"cupel:id": "x"}) for text in ("long", "short")]
    for pool in (scored(("a", 6, 0.9)), [ScoredItem(item, 0.5) for item in alternatives]):
        entries = [CountQuotaEntry("t", 1, 1)]
        chooser = CountQuotaSlice(entries, scarcity=ScarcityBehavior.THROW).prepare(Candidates.of(pool))
        assert [chooser.span(budget(target)) for target in (1, 30)] == [(1, None), (1, None)]
