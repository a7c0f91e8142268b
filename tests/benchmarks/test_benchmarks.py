"""The measurements can be made, and what they write is what the documentation shows. Nothing here looks at a time."""

import json
import random
import re
from xml.etree import ElementTree as ET

import pytest

from benchmarks import __main__ as bench
from benchmarks import chart, forms, instructions, optimal, quality, recordings, sessions, tables
from benchmarks.construction import RICH, DataclassItem, measure_construction
from benchmarks.growth import SCORERS, SLICERS, measure_growth
from benchmarks.machine import facts
from benchmarks.measure import PASSES, garbage_collection, timed
from benchmarks.naive import measure_naive
from benchmarks.peers import TASKS, chunks, count_tokens, installed, measure_peers
from benchmarks.pools import budget_for, chat_pool, mixed_pool, rag_pool, tool_pool
from benchmarks.rows import ROWS
from benchmarks.speed import line, measure_rows
from cupel import ContextItem, KnapsackSlice, scorers, slicers


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_selects_something_that_fits(row):
    pool, budget = mixed_pool(10, tags=row.tags), budget_for(10, row.target)
    selected = row.pipeline.run(pool, budget)
    assert 0 < sum(item.tokens for item in selected) <= budget.target_tokens


def test_a_measured_row_has_every_mode():
    told = []
    cells = measure_rows(10, seconds=0, rows=ROWS[:1], tell=told.append)
    assert [(cell["row"], cell["items"]) for cell in cells] == [(ROWS[0].name, 10)]
    for mode in ("gc off", "gc on", "traced"):
        assert 0 < cells[0][mode]["best"] <= cells[0][mode]["median"]
    assert len(told) == PASSES
    assert told[-1] == line(cells[0])


def test_pools_are_the_same_every_time():
    assert mixed_pool(20, tags=2) == mixed_pool(20, tags=2)
    for make in (chat_pool, rag_pool, tool_pool):
        assert make(random.Random(3), 20) == make(random.Random(3), 20)


def test_timing_counts_runs_and_restores_the_garbage_collector():
    runs = []
    timing = timed(lambda: runs.append(1), seconds=0, least=4)
    assert timing.samples == 4
    assert len(runs) >= 5
    import gc

    with garbage_collection(enabled=False):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_dataclass_rival_validates_as_an_item_does():
    own, rival = ContextItem("text", 7, **RICH), DataclassItem("text", 7, **RICH)
    assert all(getattr(own, name) == getattr(rival, name) for name in ContextItem.__struct_fields__)
    for build in (ContextItem, DataclassItem):
        with pytest.raises(TypeError):
            build("text", "7")
    rows = measure_construction(seconds=0)
    assert rows[0]["ContextItem"]["bytes"] < rows[0]["DataclassItem"]["bytes"]  # bytes, unlike times, are certain


def test_growth_is_measured_for_every_scorer_and_slicer_but_the_optimisers():
    measured = {type(strategy).__name__ for strategy in (*SCORERS, *SLICERS)}
    exported = {name for module in (scorers, slicers) for name in module.__all__ if name.endswith(("Scorer", "Slice"))}
    assert measured == exported - {"Scorer", "KnapsackSlice", "CountConstrainedKnapsackSlice", "OptimalSlice"}
    rows = measure_growth(5, 10, seconds=0)
    assert {row["strategy"] for row in rows} == measured


def test_the_pseudocode_selects_what_the_library_selects():
    """`measure_naive` raises if it does not."""
    cells = measure_naive(10, seconds=0)
    assert {cell["row"] for cell in cells} == {row.name for row in ROWS if 10 in row.sizes}


def test_peers_are_measured_when_installed_and_fit_the_budget():
    rows = measure_peers((30,), seconds=0)
    for task, (_, peers) in TASKS.items():
        assert len([row for row in rows if row["task"] == task]) == sum(installed(name) for name in peers)
    assert all(0 < row["used"] <= 1 for row in rows)


def test_texts_have_the_tokens_they_are_said_to_have():
    task = chunks(50)
    assert all(20 <= count_tokens(text) <= 800 for text in task.texts)
    assert task.budget == sum(map(count_tokens, task.texts)) // 2


def test_the_automatic_bucket_is_never_below_greedy_or_buckets_of_100():
    rows = quality.measure_quality(2)
    assert len(rows) == 9
    for row in rows:
        share = row["share"]
        assert 1 >= share["automatic"] >= max(share["greedy"], share["buckets of 100"])
        assert row["worse than greedy"]["automatic"] == 0
    assert quality.SLICERS["automatic"] == KnapsackSlice("auto")


def test_machine_facts_name_no_machine():
    import platform

    assert set(facts()) == {"date", "cupel", "python", "system", "architecture", "processor", "cores"}
    assert platform.node() not in json.dumps(facts()).split('"')


def test_a_chart_is_well_formed_and_has_every_curve():
    svg = chart.draw("a < b", {"one & two": [(10, 5.0), (1_000, 700.0)], "three": [(10, 8.0), (100, 80.0)]})
    root = ET.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "one & two", "three", "10", "1,000", "items"} <= set(texts)
    lines = list(root.iter("{http://www.w3.org/2000/svg}polyline"))
    assert [len(element.get("points").split()) for element in lines] == [2, 2]
    assert chart.draw("t", {"one": [(10, 5.0)]}) == chart.draw("t", {"one": [(10, 5.0)]})


def test_labels_move_apart_and_keep_their_order():
    assert chart.spread({"a": 10, "b": 12, "c": 100}, 15) == {"a": 10, "b": 25, "c": 100}


def test_tables_go_between_their_marks():
    page = "before\n<!-- begin: x -->\nold\n<!-- end: x -->\nafter\n"
    assert tables.put(page, "x", "new") == "before\n<!-- begin: x -->\n\nnew\n\n<!-- end: x -->\nafter\n"
    assert tables.put(tables.put(page, "x", "new"), "x", "new") == tables.put(page, "x", "new")
    with pytest.raises(ValueError, match="no marks for 'y'"):
        tables.put(page, "y", "new")


def test_the_documentation_shows_the_committed_figures():
    found = json.loads(bench.RESULTS.read_text("utf-8"))
    for path, fill in ((bench.PERFORMANCE_PAGE, bench.performance_page), (bench.QUALITY_PAGE, bench.quality_page)):
        page = path.read_text("utf-8")
        assert fill(page, found) == page
    for path, svg in bench.charts(found).items():
        assert path.read_text("utf-8") == svg


@pytest.mark.parametrize("part", sorted(bench.OWN))
def test_a_table_that_is_made_by_itself_shows_its_own_figures(part):
    own = bench.OWN[part]
    assert own.places
    for place in own.places:
        assert own.filled(place) == place.page.read_text("utf-8")


def test_every_table_between_marks_is_one_that_a_part_writes(monkeypatch):
    written = [(place.page, place.mark) for own in bench.OWN.values() for place in own.places]
    found = json.loads(bench.RESULTS.read_text("utf-8"))
    for path, fill in ((bench.PERFORMANCE_PAGE, bench.performance_page), (bench.QUALITY_PAGE, bench.quality_page)):
        names: list[str] = []
        monkeypatch.setattr(tables, "put", lambda page, name, _, names=names: names.append(name) or page)
        fill("", found)
        written += [(path, name) for name in names]
    marked = [
        (path, name)
        for path in (bench.README, *bench.DOCS.rglob("*.md"))
        for name in re.findall("<!-- begin: (.+) -->", path.read_text("utf-8"))
    ]
    assert sorted(marked) == sorted(written)


def test_the_committed_figures_cover_every_row_and_size():
    found = json.loads(bench.RESULTS.read_text("utf-8"))
    measured = {(cell["row"], cell["items"]) for cell in found["speed"]}
    assert measured == {(row.name, size) for row in ROWS for size in row.sizes}


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ({"a": 100, "b": 100}, []),
        ({"a": 105, "b": 20}, []),
        ({"a": 106, "b": 100}, ["a: 100 before, 106 now, +6.0 %"]),
        ({"a": 100, "c": 7}, ["c: no figure yet, 7 now; add it with --update"]),
    ],
)
def test_instruction_counts_may_grow_by_five_percent(now, says):
    assert instructions.grown({"a": 100, "b": 100}, now) == says


def test_instruction_figures_exist_for_every_scenario():
    figures = json.loads(instructions.FIGURES.read_text("utf-8"))
    assert figures
    for counts in figures.values():
        assert set(counts) == {*instructions.scenarios(), *instructions.COLD}


def test_a_check_that_cannot_be_made_does_not_pass(monkeypatch, capsys):
    monkeypatch.setattr(instructions.shutil, "which", lambda name: None)
    assert instructions.check(update=False) == 2
    assert "nothing was checked" in capsys.readouterr().err


def test_no_figures_for_this_python_do_not_pass(monkeypatch, capsys):
    monkeypatch.setattr(instructions.shutil, "which", lambda name: "valgrind")
    monkeypatch.setattr(instructions, "VERSION", "2.7")
    assert instructions.check(update=False) == 2
    assert "no figures for Python 2.7" in capsys.readouterr().err


@pytest.mark.parametrize(("count", "code"), [(100, 0), (106, 1)])
def test_the_exit_code_says_whether_anything_grew(monkeypatch, tmp_path, count, code):
    figures = tmp_path / "figures.json"
    figures.write_text(json.dumps({instructions.VERSION: {"a": 100}}))
    monkeypatch.setattr(instructions, "FIGURES", figures)
    monkeypatch.setattr(instructions.shutil, "which", lambda name: "valgrind")
    monkeypatch.setattr(instructions, "count", lambda: {"a": count})
    assert instructions.check(update=False) == code
    assert instructions.check(update=True) == 0
    assert json.loads(figures.read_text()) == {instructions.VERSION: {"a": count}}


@pytest.fixture
def short_sessions(monkeypatch, tmp_path):
    monkeypatch.setattr(recordings, "RECORDINGS", tmp_path / "missing")
    monkeypatch.setattr(recordings, "TURNS", 40)


@pytest.mark.usefixtures("short_sessions")
def test_window_strategies_are_measured_on_generated_sessions():
    assert recordings.generated(1) == recordings.generated(1)
    found = sessions.measure_sessions(quick=True)
    rows = {row["strategy"]: row for row in found["rows"]}
    assert rows.keys() == sessions.STRATEGIES.keys()
    assert rows["everything"]["whole"] == 1.0
    assert rows["everything"]["over"] == rows["everything"]["turns"] > 0
    for name, row in rows.items():
        assert row["unsent"] == row["invalid"] == 0
        assert name == "everything" or row["over"] == 0
    assert rows["session"]["ratio"] < rows["fit every turn"]["ratio"]
    assert "| ratio |" in sessions.table(found)
    assert "| **session** |" in sessions.summary(found)
    assert "| session | ." in sessions.by_kind(found)
    assert bench._of_recordings(found) is None  # a page shows recordings, not what was generated


ROWS_OF_TWO_KINDS = [
    {"kind": kind, "strategy": strategy, "ratio": ratio, "whole": whole, "all": whole, "users": 1.0, "trail": 0.5}
    for kind, strategy, ratio, whole in [
        ("a", "everything", 1.0, 1.0),
        ("a", "session", 0.5, 0.25),
        ("b", "everything", 1.0, None),
        ("b", "session", 1.2, None),
    ]
]


def test_the_summary_of_sessions_averages_what_there_is_and_names_the_dearest_kind():
    found = {"rows": ROWS_OF_TWO_KINDS, "kinds": []}
    assert "| **session** | **.85** | **.25** | **1.00** | **.50** |" in sessions.summary(found)
    assert "15 % less than sending everything on average (a 50 % less; b 20 % more)" in sessions.summary(found)


@pytest.mark.usefixtures("short_sessions")
def test_forms_are_measured_on_generated_sessions(monkeypatch):
    monkeypatch.setattr(recordings, "TURNS", 25)
    monkeypatch.setitem(forms.EVERY, "generated", 8)
    rows = {(row["form"], row["budget"]): row for row in forms.measure_forms(quick=True)}
    assert {form for form, _ in rows} == forms.FORMS.keys()
    for (_, budget), row in rows.items():
        assert 0 < row["sent"] <= (budget or 10**6)
    tight = forms.BUDGETS["generated"][1]
    assert rows["by default", tight]["whole"] >= rows["whole messages", tight]["whole"]
    assert "| generated sessions |" in forms.show(list(rows.values()))


def test_the_optimum_is_measured_beside_greedy():
    row = optimal.measure("groups and requires", 30, 2)
    assert row["lost"] <= row["worst"] < 1
    assert 0 <= row["gap"] <= 0.005
    assert "| groups and requires | 30 |" in optimal.table([row])
