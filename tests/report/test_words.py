"""Short words for decisions, and text that is safe to show."""

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
from cupel.report import Cell, Column, Table, excluded_words, percent, plain, preview, print_table, summary, visible


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


@pytest.mark.parametrize(
    "text", ["\x00", "\x1b[2J", "\x7f", "\x9b", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\ud800"]
)
def test_unseen_characters_become_visible(text):
    shown = visible(f"a{text}b")
    assert text[0] not in shown
    assert f"<U+{ord(text[0]):04X}>" in shown


def test_ordinary_text_is_left_alone():
    text = "tab\t line\n émoji 👩‍🔧 हिन्दी עברית"
    assert visible(text) == text


def test_a_preview_is_one_line_of_a_bounded_width():
    assert preview("a\n\n b\tc", 72) == "a b c"
    assert len(preview("x" * 10_000_000, 40)) == 40
    assert "\n" not in preview("\x85\u2028\n", 40)


@pytest.mark.parametrize(
    ("part", "whole", "words"), [(3999, 4000, "99.9 %"), (4000, 4000, "100.0 %"), (0, 7, "0.0 %"), (3, 0, "–")]
)
def test_only_a_full_window_is_called_full(part, whole, words):
    assert percent(part, whole) == words


def test_the_summary_adds_up():
    budget = ContextBudget(4000, 4000)
    report = presets.chat().pipeline().dry_run(session_items(), budget)
    words = summary(report, budget, "chat")
    tokens = sum(entry.item.tokens for entry in report.included)
    assert words.startswith(f"chat: {len(report.included)} of 120 items in, {tokens:,} of 4,000 tokens used")
    assert f"{len(report.excluded)} out: 88 no room, 3 duplicate, 1 no valid token count" in words


def test_tables_align_wide_characters():
    table = Table([Column("名前"), Column("n", number=True)], title="T")
    table.add(Cell("日本", "good"), "1")
    table.add("abcdef", "22")
    assert plain(table, 80) == "T\n名前     n\n日本     1\nabcdef  22\n"


def test_only_the_flexible_column_gives_way():
    table = Table([Column("keep"), Column("give", flexible=True), Column("keep")])
    table.add("k" * 20, "g" * 100, "e" * 20)
    line = plain(table, 60).splitlines()[1]
    assert len(line) == 60
    assert line.startswith("k" * 20)
    assert line.endswith("e" * 20)
    assert "g…" in line


def test_without_a_terminal_a_table_is_plain_text(capsys):
    table = Table([Column("a")])
    table.add("[bold]not markup[/bold]")
    print_table(table)
    assert capsys.readouterr().out == "a\n[bold]not markup[/bold]\n"
