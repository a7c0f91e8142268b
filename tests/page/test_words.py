"""Short words for decisions."""

import pytest

from cupel import ContextBudget, presets
from cupel.demo import session_items
from cupel.diagnostics import (
    BudgetExceeded,
    CountCapExceeded,
    Deduplicated,
    Filtered,
    NegativeTokens,
    PinnedOverride,
)
from cupel.page import excluded_words, summary


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (BudgetExceeded(1500, 20), "needs 1,500, 20 left"),
        (BudgetExceeded(10, 200), "needs 10, 200 left unspent"),
        (BudgetExceeded(10, -60), "needs 10, already 60 over"),
        (PinnedOverride("the system prompt"), "fits without the pinned “the system prompt”"),
        (Deduplicated("x"), "same text as another item"),
        (NegativeTokens(-1), "token count is -1"),
        (CountCapExceeded("ToolOutput", 4, 4), "4 of kind ToolOutput are enough"),
        (Filtered("mine"), "the filter “mine” removed it"),
    ],
)
def test_reasons(reason, words):
    assert excluded_words(reason) == words


def test_the_summary_adds_up():
    budget = ContextBudget(4000, 4000)
    report = presets.chat().dry_run(session_items(), budget)
    words = summary(report, budget, "chat")
    tokens = sum(entry.item.tokens for entry in report.included)
    assert words.startswith(f"chat: {len(report.included)} of 120 items in, {tokens:,} of 4,000 tokens used")
    assert f"{len(report.excluded)} out: 88 no room, 3 duplicate, 1 no valid token count" in words
