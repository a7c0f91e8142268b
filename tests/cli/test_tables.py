"""Tables on pipes and terminals."""

import io
import re

import pytest

from cupel.cli._output import Cell, Column, Table, print_table
from cupel.errors import MissingExtraError

ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def drawn(table, monkeypatch, columns=None):
    """Return the table as text, on a pipe or on a terminal of a width."""
    stream = io.StringIO() if columns is None else Terminal()
    monkeypatch.setenv("COLUMNS", str(columns or 80))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table(table, stream)
    return stream.getvalue()


@pytest.fixture
def wide():
    numbers = [Column("tokens", number=True), Column("price", number=True)]
    table = Table([Column("policy"), *numbers, Column("item")])
    table.add(Cell("a-rather-long-policy", "bold"), "1,234,567,890", "9,876,543,210", "g" * 100)
    return table


def test_wide_characters_are_aligned(monkeypatch):
    table = Table([Column("名前"), Column("n", number=True)], title="T")
    table.add(Cell("日本", "green"), "1")
    table.add("abcdef", "22")
    assert drawn(table, monkeypatch) == "T\n名前     n\n日本     1\nabcdef  22\n"


def test_the_widest_column_of_text_is_cut_first(monkeypatch):
    table = Table([Column("keep"), Column("give"), Column("keep")])
    table.add("k" * 10, "g" * 100, "e" * 10)
    line = ANSI.sub("", drawn(table, monkeypatch, 60)).splitlines()[1]
    assert line == f"{'k' * 10}  {'g' * 35}…  {'e' * 10}"


@pytest.mark.parametrize("columns", [10, 30, 40, 59])
def test_numbers_are_never_cut(wide, monkeypatch, columns):
    row = ANSI.sub("", drawn(wide, monkeypatch, columns)).splitlines()[1].split()
    assert row[1:3] == ["1,234,567,890", "9,876,543,210"]


@pytest.mark.parametrize("columns", [10, 30, 200])
def test_a_row_is_one_line(wide, monkeypatch, columns):
    assert len(drawn(wide, monkeypatch, columns).splitlines()) == 2


def test_a_terminal_is_styled(wide, monkeypatch):
    assert ANSI.search(drawn(wide, monkeypatch, 200))


def test_a_pipe_is_plain_and_complete(wide, monkeypatch):
    text = drawn(wide, monkeypatch)
    assert "\x1b" not in text
    assert "g" * 100 in text


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colours_gets_no_escapes(wide, monkeypatch, name, value):
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    print_table(wide, stream)
    assert "\x1b" not in stream.getvalue()


def test_markup_in_a_cell_is_text(monkeypatch):
    table = Table([Column("a")])
    table.add("[bold]not markup[/bold]")
    assert drawn(table, monkeypatch) == "a\n[bold]not markup[/bold]\n"


@pytest.mark.parametrize("place", ["cell", "heading", "title"])
def test_control_characters_are_shown_as_code_points(monkeypatch, place):
    text = "x\x1b[2J\u202e\x9b\ny"
    table = Table([Column(text if place == "heading" else "a")], title=text if place == "title" else "")
    table.add(text if place == "cell" else "b")
    assert "x<U+001B>[2J<U+202E><U+009B> y" in drawn(table, monkeypatch)


def test_without_rich_the_extra_is_named(wide, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    with pytest.raises(MissingExtraError, match=r"\[cli\]"):
        print_table(wide)
