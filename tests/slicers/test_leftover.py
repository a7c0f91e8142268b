"""Quotas that hand on the tokens they do not use, with a reason that names the cap."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cupel import (
    BestFirstSlice,
    ContextBudget,
    ContextItem,
    CountQuotaEntry,
    CountQuotaSlice,
    GreedySlice,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    ScoredItem,
    SlicerConfigError,
)
from cupel._internal.columns import Candidates, densities, descending
from cupel.diagnostics import BudgetExceeded, CountCapExceeded, QuotaCapExceeded
from cupel.testing import strategies
from tests.pools import related_items


def item(content, tokens, kind, score):
    return ContextItem(content, tokens, kind=kind, future_relevance_hint=score)


ITEMS = [
    item("long message", 78, "Message", 0.9),
    item("short message", 22, "Message", 0.8),
    item("tool 1", 30, "ToolOutput", 0.7),
    item("tool 2", 30, "ToolOutput", 0.6),
]


def report(leftover, items=ITEMS, cap=40.0, target=100):
    slicer = QuotaSlice([QuotaEntry("ToolOutput", cap=cap)], BestFirstSlice(), leftover=leftover)
    return Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run(items, ContextBudget(target, target))


def contents(entries):
    return {entry.item.content for entry in entries}


def test_a_short_message_gets_in_with_what_the_others_left():
    # Messages offer 100 of 160 tokens and get 62, tools get 37: one message of 22 and one output of 30 leave 48 unused.
    left = report("unused")
    assert contents(left.included) == {"short message", "tool 1"}
    assert left.why(ITEMS[3]).reason == BudgetExceeded(30, 48)
    # The long message is the best left out; with 22 + 48 it does not fit. The tools may have 40 at most.
    shared = report("share")
    assert contents(shared.included) == {"short message", "tool 1"}
    assert shared.why(ITEMS[3]).reason == QuotaCapExceeded("ToolOutput", 40, 60)
    assert shared.why(ITEMS[0]).reason == BudgetExceeded(78, 48)
    assert contents(report("share", cap=100.0).included) == {"short message", "tool 1", "tool 2"}


def test_the_reason_is_told_in_words():
    assert "would take 60, more than its cap of 40" in report("share").explain(ITEMS[3])


def test_what_a_required_kind_without_candidates_does_not_use_is_shared_too():
    quotas = [QuotaEntry("Memory", require=50)]
    for leftover, expected in (("unused", []), ("share", ["short message"])):
        slicer = QuotaSlice(quotas, leftover=leftover)
        chosen = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).run(ITEMS[1:2], 22)
        assert [entry.content for entry in chosen] == expected


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [("give", SlicerConfigError, "leftover must be 'unused' or 'share', got 'give'"), (True, TypeError, "a string")],
)
def test_refused(value, error, says):
    with pytest.raises(error, match=says):
        QuotaSlice([], leftover=value)


def test_a_negative_count_is_no_matter_of_caps():
    columns = Candidates.of([ScoredItem(item("broken", -1, "ToolOutput", 0.9), 0.9), ScoredItem(ITEMS[2], 0.7)])
    selection = QuotaSlice([QuotaEntry("ToolOutput", cap=1)], leftover="share").prepare(columns)(
        ContextBudget(100, 100)
    )
    assert selection.explain(0) is None
    assert selection.explain(1) == QuotaCapExceeded("ToolOutput", 1, 30)


THREE_TOOLS = [CountQuotaEntry("ToolOutput", cap_count=3)]


def test_at_most_three_tool_outputs_best_first_and_a_full_window():
    outputs = [item(f"output {number}", 100, "ToolOutput", 0.9 - number / 100) for number in range(10)]
    messages = [item(f"message {number}", 100, "Message", 0.5 - number / 100) for number in range(10)]
    slicer = CountQuotaSlice(THREE_TOOLS, BestFirstSlice(), leftover="share")
    found = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run([*outputs, *messages], 1000)
    assert contents(found.included) == {item.content for item in [*outputs[:3], *messages[:7]]}
    assert {entry.reason for entry in found.excluded if entry.item in outputs} == {CountCapExceeded("ToolOutput", 3, 3)}
    assert {entry.reason for entry in found.excluded if entry.item in messages} == {BudgetExceeded(100, 0)}


def under_caps(scored, keys, caps, target):
    """Take in order whatever fits and has room under its cap."""
    counts, left, taken = Counter(), target, []
    for position in descending(keys):
        item = scored[position].item
        if item.tokens <= left and counts[item.kind.key] < caps.get(item.kind.key, 99):
            taken.append(item)
            left -= item.tokens
            counts[item.kind.key] += 1
    return taken if target > 0 else []


kinds = st.sampled_from(["Message", "ToolOutput", "Memory"])
items = strategies.items(kinds=kinds, tokens=st.integers(0, 20))


@given(
    strategies.scored_lists(items, max_size=12),
    st.dictionaries(kinds, st.integers(0, 2)),
    st.integers(0, 120),
    st.sampled_from([GreedySlice(), BestFirstSlice()]),
)
def test_sharing_equals_enforcing_the_caps_item_by_item(scored, caps, target, inner):
    entries = [CountQuotaEntry(kind, cap_count=cap) for kind, cap in caps.items()]
    slicer = CountQuotaSlice(entries, inner, leftover="share")
    scores, tokens = [entry.score for entry in scored], [entry.item.tokens for entry in scored]
    keys = densities(scores, tokens) if inner == GreedySlice() else scores
    expected = under_caps(scored, keys, {kind.lower(): cap for kind, cap in caps.items()}, target)
    assert list(map(id, slicer.slice(scored, ContextBudget(target, target)))) == list(map(id, expected))


@given(related_items(), st.integers(0, 2), st.integers(0, 1), st.integers(0, 60))
def test_sharing_keeps_the_caps_of_groups(related, cap, required, target):
    entry = CountQuotaEntry("ToolOutput", min(cap, required), cap)
    scored = sorted((ScoredItem(one, one.future_relevance_hint) for one in related), key=lambda one: -one.score)
    chosen = CountQuotaSlice([entry], leftover="share").slice(scored, ContextBudget(target, target))
    assert sum(one.kind == "ToolOutput" for one in chosen) <= cap or target == 0


def test_a_group_that_a_cap_keeps_out_gives_its_tokens_to_the_others():
    group = {"kind": "ToolOutput", "metadata": {"cupel:group": "pair"}, "future_relevance_hint": 0.9}
    pair = [ContextItem(f"pair {number}", 30, **group) for number in (1, 2)]
    pool = [*pair, item("output", 30, "ToolOutput", 0.5), item("message", 30, "Message", 0.4)]
    scored = [ScoredItem(one, one.future_relevance_hint) for one in pool]
    for leftover, expected in (("unused", []), ("share", ["output", "message"])):
        slicer = CountQuotaSlice([CountQuotaEntry("ToolOutput", cap_count=1)], leftover=leftover)
        assert [one.content for one in slicer.slice(scored, ContextBudget(60, 60))] == expected


def test_a_group_that_cannot_be_in_does_not_disturb_the_others():
    pairs = [
        ContextItem(f"pair {number}", 1, future_relevance_hint=0.9, metadata={"cupel:group": str(number // 2)})
        for number in range(6)
    ]
    broken = [
        ContextItem(f"broken {tokens}", tokens, future_relevance_hint=0.5, metadata={"cupel:group": "broken"})
        for tokens in (-1, 3)
    ]
    slicer = CountQuotaSlice([CountQuotaEntry("Message", cap_count=2)], leftover="share")
    report = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run([*broken, *pairs], ContextBudget(20, 20))
    assert contents(report.included) == {"pair 0", "pair 1"}
    reasons = {entry.item.content: entry.reason.name for entry in report.excluded}
    assert (reasons.pop("broken -1"), reasons.pop("broken 3")) == ("NegativeTokens", "GroupIncomplete")
    assert set(reasons.values()) == {"CountCapExceeded"}


def test_the_span_of_shared_tokens_is_the_target_alone():
    chooser = CountQuotaSlice(THREE_TOOLS, leftover="share").prepare(Candidates.of([ScoredItem(ITEMS[2], 0.7)]))
    assert chooser.span(ContextBudget(50, 50)) == (50, 51)
    assert chooser.span(ContextBudget(0, 0)) == (0, 1)
