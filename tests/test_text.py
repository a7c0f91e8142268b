"""Text that is safe to show."""

import pytest

from cupel._internal.text import percent, preview, visible


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
