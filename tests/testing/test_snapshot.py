"""What a snapshot holds and how it is stored."""

import json
import math
from datetime import UTC, datetime

import pytest

from cupel import ContextBudget, ContextItem, CountQuotaEntry, CountQuotaSlice, Pipeline, ReflexiveScorer
from cupel.testing import SelectionReportAssertionException, SnapshotMismatchError
from cupel.testing._snapshot import Snapshots, file_stem, selection_table, snapshot_text
from tests.testing.reports import excluded, included, report


def select(*items, **parts):
    return Pipeline(scorer=ReflexiveScorer(), **parts).dry_run(items, ContextBudget(1000, 1000))


def test_two_runs_give_the_same_text():
    items = [ContextItem(letter, 10, future_relevance_hint=0.5) for letter in "abc"]
    assert snapshot_text(select(*items)) == snapshot_text(select(*items))


@pytest.mark.parametrize(
    "item",
    [
        ContextItem("zażółć 日本 🙂", 1),
        ContextItem("half a pair \ud83d", 1),
        ContextItem("x", 1, future_relevance_hint=math.nan),
        ContextItem("x", 1, metadata={"when": datetime(2026, 1, 1, tzinfo=UTC), "set": {"a"}}),
    ],
    ids=["unicode", "surrogate", "NaN", "metadata"],
)
def test_any_item_can_be_stored_and_compared(item, tmp_path):
    for _ in range(2):
        Snapshots(tmp_path, "name", require=(tmp_path / "name.json").exists())(select(item))
    stored = json.loads((tmp_path / "name.json").read_text(encoding="utf-8"))
    assert stored["included"][0]["item"]["content"] == item.content


def test_line_ends_of_a_checkout_do_not_matter(tmp_path):
    check = Snapshots(tmp_path, "name")
    check(select(ContextItem("x", 1)))
    path = tmp_path / "name.json"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    Snapshots(tmp_path, "name", require=True)(select(ContextItem("x", 1)))


def test_the_error_carries_both_texts(tmp_path):
    Snapshots(tmp_path, "name")(select(ContextItem("x", 1)))
    other = select(ContextItem("y", 1))
    with pytest.raises(SnapshotMismatchError) as caught:
        Snapshots(tmp_path, "name")(other)
    error = caught.value
    assert isinstance(error, SelectionReportAssertionException)
    assert (error.name, error.path, error.report) == ("name", tmp_path / "name.json", other)
    assert json.loads(error.expected)["included"][0]["item"]["content"] == "x"
    assert json.loads(error.actual)["included"][0]["item"]["content"] == "y"


def test_a_long_difference_is_cut(tmp_path):
    Snapshots(tmp_path, "name")(select(*[ContextItem(f"x{number}", 1) for number in range(100)]))
    with pytest.raises(SnapshotMismatchError, match=r"… and \d+ more lines of difference$") as caught:
        Snapshots(tmp_path, "name")(select(*[ContextItem(f"y{number}", 1) for number in range(100)]))
    assert len(str(caught.value).splitlines()) < 130


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "a:b", "..", ".hidden", "???", "é", "x" * 300, "a b"])
def test_no_name_escapes_the_directory_or_meets_another(name):
    stem = file_stem(name)
    assert stem == stem.strip(".")
    assert not set(stem) & set('/\\:*?"<>| ')
    assert len(stem) < 140
    assert stem != file_stem(name + "!")


def test_a_failed_write_leaves_the_snapshot_and_no_rubbish(tmp_path, monkeypatch):
    Snapshots(tmp_path, "name")(select(ContextItem("x", 1)))
    before = (tmp_path / "name.json").read_text()

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="no space left"):
        Snapshots(tmp_path, "name", update=True)(select(ContextItem("y", 1)))
    assert (tmp_path / "name.json").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["name.json"]


# --- the table ---


def test_a_table_of_nothing():
    assert selection_table(report()) == "0 of 0 candidates selected, 0 of 0 tokens"


def test_long_lists_and_contents_are_cut_and_line_breaks_escaped():
    many = report(included(*[("A", 0.5)] * 25), excluded(*[("B", 0.25)] * 22))
    lines = selection_table(many).splitlines()
    assert lines[22] == "     … and 5 more selected"
    assert lines[-1] == "     … and 2 more left out"
    assert len(lines) == 2 + 20 + 1 + 20 + 1
    wide = selection_table(select(ContextItem("line\nbreak " + "x" * 100, 5)))
    assert wide.splitlines()[-1].endswith(r"  'line\nbreak xxxxxxxxxxxxxxxxxxxxxxxxxxxx…'")


def test_shortfalls_are_part_of_the_table():
    short = select(ContextItem("x", 1, kind="Tool"), slicer=CountQuotaSlice([CountQuotaEntry("Tool", 2, 3)]))
    assert selection_table(short).splitlines()[-1] == "short of Tool: 1 of 2 required"
