"""Tables, drawn as plain text."""

from cupel.cli._tables import Cell, Column, Table, plain, print_table


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
