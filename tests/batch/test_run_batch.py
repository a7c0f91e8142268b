import json
from datetime import timedelta
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cupel.policy
from cupel import ContextBudget, DecayScorer, Exponential, Pipeline, RelevanceScorer, SystemClock, presets
from cupel.batch import BatchError, BatchProgress, run_batch
from cupel.batch._state import Outputs, Parts
from tests.batch.requests import (
    POLICY,
    SCHEMA,
    expected_rows,
    rows_of,
    some_requests,
    write_jsonl,
    write_parquet,
)

WRITERS = {"parquet": write_parquet, "jsonl": write_jsonl}


def no_traces_left(folder):
    """The names in a folder that a job has left, besides its output and the record of it."""
    names = {path.name for path in folder.iterdir() if path.name.startswith((".", "out.parquet.", "out.jsonl."))}
    return sorted(names - {"out.parquet.job.json", "out.jsonl.job.json"})


@pytest.mark.parametrize(
    ("source", "target", "workers"), [*product(WRITERS, WRITERS, [1]), ("parquet", "parquet", 2), ("jsonl", "jsonl", 2)]
)
def test_every_pair_of_formats_gives_what_the_plain_loop_gives(tmp_path, source, target, workers):
    requests = some_requests(60)
    path = WRITERS[source](tmp_path / f"requests.{source}", requests)
    out = tmp_path / f"out.{target}"
    done = run_batch(path, out, POLICY, workers=workers, shard_rows=17)
    expected = expected_rows(requests)
    assert rows_of(out) == expected
    assert (done.rows, done.written, done.resumed) == (60, len(expected), 0)
    assert done.errors == 60 - len(expected) > 0
    errors = [json.loads(line) for line in done.errors_file.read_text().splitlines()]
    assert sorted([row[0] for row in expected] + [error["row"] for error in errors]) == list(range(60))
    assert all(error["id"] == f"r{error['row']}" for error in errors)
    assert "Pinned items require" in errors[0]["error"]
    assert no_traces_left(tmp_path) == [f"out.{target}.errors.jsonl"]


@pytest.mark.parametrize(("row_group_size", "shard_rows"), [(None, 7), (10, 4), (10, 10), (7, 1000), (1, None)])
def test_shards_do_not_show(tmp_path, row_group_size, shard_rows):
    requests = some_requests(41)
    path = write_parquet(tmp_path / "requests.parquet", requests, row_group_size=row_group_size)
    run_batch(path, tmp_path / "out.parquet", POLICY, workers=1, shard_rows=shard_rows)
    assert rows_of(tmp_path / "out.parquet") == expected_rows(requests)


def test_more_workers_than_shards_will_do(tmp_path):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(3))
    assert run_batch(path, tmp_path / "out.parquet", POLICY, workers=8, shard_rows=2).rows == 3


@pytest.mark.parametrize(("source", "target"), [*product(WRITERS, WRITERS)])
def test_no_requests_give_an_empty_file(tmp_path, source, target):
    path = WRITERS[source](tmp_path / f"requests.{source}", [])
    out = tmp_path / f"out.{target}"
    assert run_batch(path, out, POLICY).rows == 0
    assert rows_of(out) == []


def test_an_input_without_errors_has_no_errors_file_even_if_an_older_run_had(tmp_path):
    path = write_jsonl(tmp_path / "requests.jsonl", [{"items": [], "budget": 10}])
    stale = tmp_path / "out.jsonl.errors.jsonl"
    stale.write_text('{"row":0,"error":"old"}')
    assert run_batch(path, tmp_path / "out.jsonl", POLICY).errors_file is None
    assert not stale.exists()


def test_lines_keep_what_they_came_with(tmp_path):
    item = {"content": "ünï", "tokens": 2, "metadata": {"deep": [1, {"x": None}]}, "originalTokens": 9}
    request = {"id": {"user": 3}, "items": [item, {"content": "big", "tokens": 99}], "budget": 10, "note": ["kept"]}
    path = write_jsonl(tmp_path / "requests.jsonl", [request])
    run_batch(path, tmp_path / "out.jsonl", POLICY)
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {
        "row": 0,
        "id": {"user": 3},
        "note": ["kept"],
        "items": [item],
        "selected": [0],
        "total_tokens": 2,
        "total_candidates": 2,
    }


def test_lines_become_columns(tmp_path):
    item = {"content": "a", "tokens": 2, "metadata": {"k": [1]}, "timestamp": "2026-01-01T00:00:00Z", "priority": 4}
    path = write_jsonl(tmp_path / "requests.jsonl", [{"id": 7, "items": [item], "budget": 10}])
    run_batch(path, tmp_path / "out.parquet", POLICY)
    (row,) = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert row["id"] == "7"
    assert row["items"][0]["metadata"] == '{"k":[1]}'
    assert row["items"][0]["timestamp"].isoformat() == "2026-01-01T00:00:00+00:00"
    assert row["items"][0]["kind"] == "Message"


def test_nanoseconds_can_be_written_as_lines(tmp_path):
    item = pa.struct([("content", pa.string()), ("tokens", pa.int64()), ("timestamp", pa.timestamp("ns", "UTC"))])
    column = pa.array([[{"content": "a", "tokens": 1, "timestamp": 1_767_225_600_123_456_789}]], pa.list_(item))
    pq.write_table(pa.table({"items": column}), tmp_path / "requests.parquet")
    run_batch(tmp_path / "requests.parquet", tmp_path / "out.jsonl", POLICY, budget=ContextBudget(9, 9))
    (row,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert row["items"][0]["timestamp"] == "2026-01-01T00:00:00.123456Z"


def test_a_number_too_large_for_a_column_is_its_rows_error(tmp_path):
    huge = {"content": "a", "tokens": 1, "priority": 2**70}
    path = write_jsonl(tmp_path / "requests.jsonl", [{"items": [huge], "budget": 9}, {"items": [], "budget": 9}])
    done = run_batch(path, tmp_path / "out.parquet", POLICY, workers=1)
    (error,) = [json.loads(line)["error"] for line in done.errors_file.read_text().splitlines()]
    assert error == f"items[0]: priority is beyond 64 bits: {2**70}"


@pytest.mark.parametrize("priority", [2**63 - 1, 1 - 2**63])
def test_the_largest_numbers_of_a_column_are_written(tmp_path, priority):
    lines = [{"items": [{"content": "a", "tokens": 1, "priority": priority}], "budget": 9}]
    run_batch(write_jsonl(tmp_path / "requests.jsonl", lines), tmp_path / "out.parquet", POLICY, workers=1)
    (row,) = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert row["items"][0]["priority"] == priority


def test_maps_become_objects(tmp_path):
    item = pa.struct([("content", pa.string()), ("tokens", pa.int64()), ("metadata", pa.map_(pa.string(), pa.int8()))])
    column = pa.array([[{"content": "a", "tokens": 1, "metadata": [("k", 3)]}]], pa.list_(item))
    pq.write_table(pa.table({"items": column}), tmp_path / "requests.parquet")
    run_batch(tmp_path / "requests.parquet", tmp_path / "out.jsonl", POLICY, budget=ContextBudget(9, 9))
    assert json.loads((tmp_path / "out.jsonl").read_text())["items"][0]["metadata"] == {"k": 3}


BAD_LINES = {
    "{": "not JSON",
    "[]": "budget is missing, and the requests share none",
    "7": "a request must be an object, or a list of messages, got int",
    "{}": "items is missing",
    '{"items": 3}': "items must be a list, got int: 3",
    '{"items": [3]}': "items[0]: an item must be an object, got int: 3",
    '{"items": [{"content": "a"}]}': "items[0]: tokens is missing",
    '{"items": [{"content": "a", "tokens": "1"}]}': "items[0]: tokens must be an integer, got str: '1'",
    '{"items": [{"content": "a", "tokens": 1, "pined": true}]}': "items[0]: unknown key 'pined'",
    '{"items": [{"content": "a", "tokens": 1, "original_tokens": 1, "originalTokens": 1}]}': "given twice",
    '{"items": [{"content": "a", "tokens": 1, "timestamp": "soon"}]}': "timestamp must be an RFC 3339 date-time",
    '{"items": []}': "budget is missing, and the requests share none",
    '{"items": [], "budget": {"max_tokens": 1}}': "budget: target_tokens is missing",
    '{"items": [], "budget": {"max_tokens": 1, "target_tokens": 2}}': "budget: target_tokens must not exceed",
    '{"items": [], "budget": "many"}': "budget: a budget must be an object, got str: 'many'",
    '{"items": [], "budget": true}': "budget: a budget must be an object, got bool",
    '{"items": [], "budget": 1, "selected": 1}': "the request has a key 'selected', which the answer has too",
    '{"items": [], "budget": 1, "id": "\\ud800"}': "not JSON",
    "[" * 100_000: "not JSON",
    "\udcff": "not JSON",
    '{"items": [{"content": "\udcff", "tokens": 1}], "budget": 1}': "not JSON",
    '{"items": [{"content": "a", "tokens": 1, "metadata": {"k": "\udcff"}}], "budget": 1}': "not JSON",
    '{"items": [{"content": "a", "tokens": 1, "timestamp": "2026-01-01T00:00:00+0100"}]}': "must be an RFC 3339",
}


def test_a_bad_line_stops_nothing(tmp_path):
    good = json.dumps({"items": [], "budget": 1})
    text = "".join(f"{line}\n{good}\n\n" for line in BAD_LINES)
    (tmp_path / "requests.jsonl").write_bytes(text.encode("utf-8", "surrogateescape"))
    done = run_batch(tmp_path / "requests.jsonl", tmp_path / "out.jsonl", POLICY, workers=1, shard_rows=5)
    errors = [json.loads(line) for line in done.errors_file.read_text().splitlines()]
    assert [error["row"] for error in errors] == list(range(0, 3 * len(BAD_LINES), 3))
    for error, message in zip(errors, BAD_LINES.values(), strict=True):
        assert message in error["error"]
    assert done.written == len(BAD_LINES)


def test_lines_of_other_systems_are_read(tmp_path):
    line = json.dumps({"items": [], "budget": 1})
    (tmp_path / "requests.jsonl").write_bytes(f"\ufeff{line}\r\n{line}\r\n".encode())
    assert run_batch(tmp_path / "requests.jsonl", tmp_path / "out.jsonl", POLICY, workers=1).written == 2


def test_a_last_line_without_an_end_counts(tmp_path):
    (tmp_path / "requests.jsonl").write_text('{"items": [], "budget": 1}\n{"items": [], "budget": 1}')
    assert run_batch(tmp_path / "requests.jsonl", tmp_path / "out.jsonl", POLICY).written == 2


@pytest.mark.parametrize("target", WRITERS)
def test_reports_are_the_same_in_every_run(tmp_path, target):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(8))
    for name in ("one", "two"):
        run_batch(path, tmp_path / f"{name}.{target}", POLICY, report=True, workers=1, shard_rows=3)
    assert (tmp_path / f"one.{target}").read_bytes() == (tmp_path / f"two.{target}").read_bytes()
    if target == "jsonl":
        row = json.loads((tmp_path / "one.jsonl").read_text().splitlines()[0])
        assert row["report"]["total_candidates"] == row["total_candidates"]


def test_progress_is_told_from_the_first_row_to_the_last(tmp_path):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(10))
    told = []
    run_batch(path, tmp_path / "out.jsonl", POLICY, workers=1, shard_rows=4, on_progress=told.append)
    assert told == [BatchProgress(done, 10, 0) for done in (0, 4, 8, 10)]


class Stop(Exception):  # noqa: N818
    """Stands for anything that ends a run."""


def interrupted(path, out, after, **options):
    def stop(progress):
        if progress.done - progress.resumed >= after:
            raise Stop

    with pytest.raises(Stop):
        run_batch(path, out, POLICY, workers=1, shard_rows=4, on_progress=stop, **options)


def test_an_interrupted_run_leaves_no_output_and_goes_on_where_it_stopped(tmp_path):
    requests = some_requests(20)
    path = write_parquet(tmp_path / "requests.parquet", requests)
    out = tmp_path / "out.parquet"
    interrupted(path, out, 8)
    assert not out.exists()
    with pytest.raises(BatchError, match=r"out.parquet.parts holds an interrupted run: continue it \(--resume\)"):
        run_batch(path, out, POLICY)
    interrupted(path, out, 4, resume=True)
    done = run_batch(path, out, POLICY, resume=True, workers=2)
    assert done.resumed == 12
    assert rows_of(out) == expected_rows(requests)
    assert no_traces_left(tmp_path) == ["out.parquet.errors.jsonl"]


def test_nothing_to_resume_is_a_fresh_start(tmp_path):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(5))
    interrupted(path, tmp_path / "out.jsonl", 0)
    assert run_batch(path, tmp_path / "out.jsonl", POLICY, resume=True).resumed == 0


def test_a_restart_discards_what_there_is(tmp_path):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(20))
    interrupted(path, tmp_path / "out.jsonl", 8)
    assert run_batch(path, tmp_path / "out.jsonl", presets.rag(), restart=True).resumed == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"policy": presets.rag()}, "policy"),
        ({"budget": ContextBudget(7, 7)}, "budget"),
        ({"report": True}, "report"),
        ({"policy": presets.rag(), "report": True}, "policy, report"),
    ],
)
def test_another_job_cannot_resume(tmp_path, change, named):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(20))
    interrupted(path, tmp_path / "out.jsonl", 8)
    with pytest.raises(BatchError, match=f"cannot be resumed, since this differs: {named};"):
        run_batch(path, tmp_path / "out.jsonl", **{"policy": POLICY, "resume": True, **change})


def test_another_input_cannot_be_resumed_with(tmp_path):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(20))
    interrupted(path, tmp_path / "out.jsonl", 8)
    write_parquet(path, some_requests(20, seed=1))
    with pytest.raises(BatchError, match="since this differs: input;"):
        run_batch(path, tmp_path / "out.jsonl", POLICY, resume=True)


def test_a_manifest_of_another_version_is_named(tmp_path):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(20))
    interrupted(path, tmp_path / "out.jsonl", 8)
    (tmp_path / "out.jsonl.parts" / "job.json").write_text('{"job":"cupel-batch","id":"%s","cupel":"9"}' % ("a" * 32))
    with pytest.raises(BatchError, match=r"job.json cannot be read: .*discard the run \(--restart\)"):
        run_batch(path, tmp_path / "out.jsonl", POLICY, resume=True)
    assert run_batch(path, tmp_path / "out.jsonl", POLICY, restart=True).rows == 20


def test_a_straggler_of_a_discarded_job_cannot_write_into_the_parts_of_the_next(tmp_path):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(20))
    out = tmp_path / "out.jsonl"
    interrupted(path, out, 8)
    old = {part.name for part in Parts(Outputs.named(out)).path.glob("0*")}
    interrupted(path, out, 8, restart=True)
    assert not old & {part.name for part in Parts(Outputs.named(out)).path.glob("0*")}


def test_one_moment_holds_for_the_whole_job_also_after_an_interruption(tmp_path):
    policy = Pipeline(scorer=DecayScorer(SystemClock(), Exponential(timedelta(milliseconds=1))), name="decay")
    path = write_parquet(tmp_path / "requests.parquet", some_requests(6))

    def stop(progress):
        if progress.done == 2:
            raise Stop

    with pytest.raises(Stop):
        run_batch(path, tmp_path / "out.jsonl", policy, report=True, workers=1, shard_rows=2, on_progress=stop)
    manifest = json.loads((tmp_path / "out.jsonl.parts" / "job.json").read_text())
    run_batch(path, tmp_path / "out.jsonl", policy, report=True, workers=1, resume=True)
    document = {
        **cupel.policy.to_dict(policy),
        "scorer": {**cupel.policy.to_dict(policy)["scorer"], "now": manifest["now"]},
    }
    fixed = cupel.policy.from_dict(document)
    run_batch(path, tmp_path / "fixed.jsonl", fixed, report=True, workers=1)
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "fixed.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["a"]}, "the table has no column 'items'"),
        ({"items": [[{"content": "a", "tokens": 1}]]}, "the requests have no column 'budget'"),
        ({"items": [[{"content": "a", "tokens": 1}]], "budget": [1], "row": [1]}, "the requests have a column 'row'"),
    ],
)
def test_a_file_that_holds_no_requests_is_refused_before_anything_is_written(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "requests.parquet")
    with pytest.raises(BatchError, match=message):
        run_batch(tmp_path / "requests.parquet", tmp_path / "out.parquet", POLICY)
    assert [path.name for path in tmp_path.iterdir()] == ["requests.parquet"]


@pytest.mark.parametrize(
    ("source", "target", "options", "error", "message"),
    [
        (
            "requests.csv",
            "out.jsonl",
            {},
            BatchError,
            "requests.csv: the name must end in .parquet or .jsonl",
        ),
        ("requests.parquet", "out.txt", {}, BatchError, "out.txt: the name must end in .parquet or .jsonl"),
        ("requests.parquet", "no/out.jsonl", {}, BatchError, "no does not exist"),
        ("requests.parquet", "folder.jsonl", {}, BatchError, "folder.jsonl is a directory"),
        ("requests.parquet", "requests.parquet", {}, BatchError, "requests.parquet is the input itself"),
        ("broken.parquet", "out.jsonl", {}, BatchError, "broken.parquet: not a Parquet file"),
        ("missing.parquet", "out.jsonl", {}, FileNotFoundError, "missing.parquet"),
        ("requests.parquet", "out.jsonl", {"engine": "spark"}, BatchError, "engine must be 'local' or 'dask'"),
        ("requests.parquet", "out.jsonl", {"scheduler": "tcp://x:1"}, BatchError, "needs engine='dask'"),
        ("requests.parquet", "out.jsonl", {"workers": 0}, BatchError, "workers must be >= 1, got 0"),
        ("requests.parquet", "out.jsonl", {"max_errors": -1}, BatchError, "max_errors must be >= 0, got -1"),
        ("requests.parquet.gz", "out.jsonl", {}, BatchError, "Parquet compresses by itself"),
        ("requests.parquet", "out.jsonl", {"shard_rows": 1.5}, TypeError, "shard_rows must be an integer, got float"),
    ],
)
def test_arguments_that_cannot_work_are_named(tmp_path, source, target, options, error, message):
    write_parquet(tmp_path / "requests.parquet", [], schema=SCHEMA)
    (tmp_path / "requests.csv").touch()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no PAR1")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(error, match=message):
        run_batch(tmp_path / source, tmp_path / target, POLICY, **options)


def test_each_line_is_selected_for_its_own_query(tmp_path):
    pool = [{"content": "The parser is slow.", "tokens": 5}, {"content": "Lunch is at noon.", "tokens": 5}]
    queries = ["why so slow?", "when is lunch?", 7]
    requests = [{"id": str(at), "items": pool, "budget": 5, "query": query} for at, query in enumerate(queries)]
    path = write_jsonl(tmp_path / "requests.jsonl", requests)
    summary = run_batch(path, tmp_path / "out.jsonl", Pipeline(scorer=RelevanceScorer(stem=False)), workers=1)
    assert [row[:3] for row in rows_of(tmp_path / "out.jsonl")] == [(0, "0", [0]), (1, "1", [1])]
    assert "query must be a string" in summary.errors_file.read_text(encoding="utf-8")
