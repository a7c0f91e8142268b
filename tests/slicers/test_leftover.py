"""Quotas that hand on what they do not use, with a reason that names the cap."""

from __future__ import annotations

import pytest

from cupel import (
    BestFirstSlice,
    ContextBudget,
    ContextItem,
    Pipeline,
    QuotaEntry,
    QuotaSlice,
    ReflexiveScorer,
    ScoredItem,
    SlicerConfigError,
)
from cupel._internal.columns import Candidates
from cupel.diagnostics import BudgetExceeded, QuotaCapExceeded


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
    left = report("leave")
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
    for leftover, expected in (("leave", []), ("share", ["short message"])):
        slicer = QuotaSlice(quotas, leftover=leftover)
        chosen = Pipeline(scorer=ReflexiveScorer(), slicer=slicer).run(ITEMS[1:2], 22)
        assert [entry.content for entry in chosen] == expected


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [("give", SlicerConfigError, "leftover must be 'leave' or 'share', got 'give'"), (True, TypeError, "a string")],
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
