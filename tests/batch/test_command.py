import json
import sys
from unittest.mock import ANY

import pytest

from cupel.cli import main
from cupel.cli._output import progress_bar
from tests.batch.requests import POLICY, expected_rows, rows_of, some_requests, write_jsonl, write_parquet


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def batch(*arguments):
    return main(["batch", *arguments])


def test_a_job_with_bad_rows_is_done_but_says_so(in_a_folder, capsys):
    requests = some_requests(30)
    write_parquet(in_a_folder / "requests.parquet", requests)
    code = batch("requests.parquet", "-o", "out.jsonl", "--policy", "chat", "--workers", "1")
    expected = expected_rows(requests, POLICY)
    assert code == 3
    assert rows_of(in_a_folder / "out.jsonl") == expected
    said = capsys.readouterr()
    bad = 30 - len(expected)
    first = json.loads((in_a_folder / "out.jsonl.errors.jsonl").read_text().splitlines()[0])["error"]
    assert said.err == (
        f"{len(expected)} selections written to out.jsonl; {bad} bad rows, "
        f"see out.jsonl.errors.jsonl (the first: {first})\n"
    )
    assert said.out == ""


def test_a_single_selection_is_called_one(in_a_folder, capsys):
    write_jsonl(in_a_folder / "requests.jsonl", [{"items": [{"content": "a", "tokens": 5}]}])
    assert batch("requests.jsonl", "-o", "out.jsonl", "--budget", "8", "--workers", "1") == 0
    assert capsys.readouterr().err == "1 selection written to out.jsonl\n"


def test_a_job_without_bad_rows_succeeds(in_a_folder, capsys):
    write_jsonl(in_a_folder / "requests.jsonl", [{"items": [{"content": "a", "tokens": 5}]}] * 3)
    code = batch("requests.jsonl", "-o", "out.jsonl", "--budget", "8", "--max", "10", "--reserve", "6", "--json", "-q")
    assert code == 0
    said = capsys.readouterr()
    assert said.err == ""
    summary = json.loads(said.out)
    shortest, longest = (max(summary["seconds"] + error, 1e-9) for error in (-0.0006, 0.0006))  # it is rounded
    assert 3 / longest - 0.1 <= summary["rows_per_second"] <= 3 / shortest + 0.1
    assert summary == {
        "rows": 3,
        "written": 3,
        "errors": 0,
        "resumed": 0,
        "output": "out.jsonl",
        "errors_file": None,
        "seconds": ANY,
        "rows_per_second": ANY,
    }
    assert [row["selected"] for row in map(json.loads, (in_a_folder / "out.jsonl").read_text().splitlines())] == [
        []
    ] * 3


def test_what_an_earlier_run_has_done_are_rows_written_or_bad_and_no_blank_lines(in_a_folder, capsys):
    good, bad = json.dumps({"items": [{"content": "a", "tokens": 5}], "budget": 9}), '{"items": []}'
    (in_a_folder / "requests.jsonl").write_text(f"{good}\n\n{bad}\n\n{bad}\n")
    assert batch("requests.jsonl", "-o", "out.jsonl", "--shard-rows", "3", "--max-errors", "1", "--workers", "1") == 4
    capsys.readouterr()
    assert batch("requests.jsonl", "-o", "out.jsonl", "--resume", "--json", "--workers", "1") == 3
    said = capsys.readouterr()
    assert "1 selection written to out.jsonl (3 rows answered by an earlier run); 2 bad rows, see " in said.err
    summary = json.loads(said.out)
    assert (summary["rows"], summary["resumed"], summary["rows_per_second"]) == (3, 3, 0.0)


def test_policies_can_be_overridden_and_reports_written(in_a_folder):
    items = [{"content": "a", "tokens": 5}, {"content": "a", "tokens": 5}]
    write_jsonl(in_a_folder / "requests.jsonl", [{"items": items, "budget": 100}])
    assert batch("requests.jsonl", "-o", "out.jsonl", "--set", "deduplication=false", "--report") == 0
    row = json.loads((in_a_folder / "out.jsonl").read_text())
    assert row["total_tokens"] == 10
    assert len(row["report"]["included"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.parquet", "-o", "out.jsonl"], "missing.parquet"),
        (["requests.parquet", "-o", "out.csv"], "out.csv: the name must end in .parquet or .jsonl"),
        (
            ["requests.parquet", "-o", "out.jsonl", "--policy", "nonsense"],
            "policy nonsense: neither a file nor a preset",
        ),
        (["requests.parquet", "-o", "out.jsonl", "--resume", "--restart"], "--resume and --restart exclude each other"),
        (["requests.parquet", "-o", "out.jsonl", "--scheduler", "tcp://x:1"], "needs engine='dask'"),
        (["requests.parquet", "-o", "out.jsonl", "--workers", "0"], "workers must be >= 1, got 0"),
    ],
)
def test_unusable_arguments_end_with_2_and_one_line(in_a_folder, capsys, arguments, message):
    write_parquet(in_a_folder / "requests.parquet", some_requests(1))
    assert batch(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("cupel batch: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_without_the_dask_extra_the_engine_says_what_to_install(in_a_folder, capsys, monkeypatch):
    write_parquet(in_a_folder / "requests.parquet", some_requests(1))
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert batch("requests.parquet", "-o", "out.jsonl", "--engine", "dask") == 2
    assert "pip install 'cupel-context[dask]'" in capsys.readouterr().err
    assert not (in_a_folder / "out.jsonl.parts").exists()


def test_without_pyarrow_lines_still_work_and_parquet_says_what_to_install(in_a_folder, capsys, monkeypatch):
    write_parquet(in_a_folder / "requests.parquet", some_requests(1))
    write_jsonl(in_a_folder / "requests.jsonl", [{"items": [], "budget": 1}])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert batch("requests.jsonl", "-o", "out.jsonl", "--workers", "1") == 0
    assert batch("requests.parquet", "-o", "out.jsonl", "--workers", "1") == 2
    assert "pip install 'cupel-context[batch]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counts", "seconds", "line"),
    [
        ((0, 100, 0), 1.0, "selecting 0/100 rows (0%)"),
        ((50, 100, 50), 1.0, "selecting 50/100 rows (50%)"),
        ((50, 100, 0), 2.0, "selecting 50/100 rows (50%) 25/s 0:00:02 left"),
        ((1_000, 100_000_000, 0), 1.0, "selecting 1,000/100,000,000 rows (0%) 1,000/s 1 day, 3:46:39 left"),
        ((0, 0, 0), 0.0, "selecting 0/0 rows (0%)"),
    ],
)
def test_a_line_of_progress(capsys, monkeypatch, counts, seconds, line):
    monkeypatch.setattr("cupel.cli._output._SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("cupel.cli._output.monotonic", iter([0.0, seconds]).__next__)
    with progress_bar("selecting", "rows") as show:
        show(*counts)
    assert capsys.readouterr().err == f"{line}\n"


def test_a_terminal_without_rich_gets_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr("cupel.cli._output._SECONDS_BETWEEN_LINES", 0.0)
    with progress_bar("selecting", "rows") as show:
        show(1, 2, 1)
    assert capsys.readouterr().err == "selecting 1/2 rows (50%)\n"


def test_a_log_gets_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("cupel.cli._output._SECONDS_BETWEEN_LINES", 0.0)
    with progress_bar("selecting", "rows") as show:
        show(1, 2, 1)
    with progress_bar("selecting", "rows", quiet=True) as show:
        show(2, 2, 1)
    assert capsys.readouterr().err == "selecting 1/2 rows (50%)\n"


def test_nothing_is_drawn_where_nobody_watches(capsys):
    with progress_bar("selecting", "rows") as show:
        show(1, 2, 0)
    assert capsys.readouterr().err == ""
