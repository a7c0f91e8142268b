"""What may come in: compressed lines, standard input, values that Python has no objects for, rows that failed."""

import gzip
import io
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cupel import ContextBudget
from cupel.batch import BatchError, BatchFailedError, BatchSelector, run_batch
from cupel.batch._parquet import plan_parquet, read_parquet_shard
from cupel.batch._source import SHARD_BYTES
from tests.batch.requests import POLICY, expected_rows, rows_of, some_requests, write_jsonl, write_parquet
from tests.batch.test_safety import Stop

BUDGET = ContextBudget(100, 100)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


def packed(path, form):
    """Compress a file beside it, in two pieces as tools that append do."""
    text = path.read_bytes()
    halves = text[: len(text) // 2], text[len(text) // 2 :]
    target = path.with_name(f"{path.name}.{form}")
    compress = gzip.compress if form == "gz" else pa.Codec("zstd").compress
    target.write_bytes(b"".join(bytes(compress(half)) for half in halves))
    return target


def stopped(path, out):
    def stop(progress):
        if progress.done >= 8:
            raise Stop

    with pytest.raises(Stop):
        run_batch(path, out, POLICY, workers=1, shard_rows=4, on_progress=stop)


@pytest.mark.parametrize("form", ["gz", "zst"])
def test_compressed_lines_are_read_and_resumed(tmp_path, out, form):
    requests = some_requests(30)
    path = packed(write_jsonl(tmp_path / "requests.jsonl", requests), form)
    (tmp_path / "requests.jsonl").unlink()
    stopped(path, out)
    assert run_batch(path, out, POLICY, workers=1, resume=True).resumed == 8
    assert rows_of(out) == expected_rows(requests)
    assert not out.with_name("out.jsonl.parts").exists()


def from_stdin(monkeypatch, path):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    return "-"


def test_standard_input_is_read_and_resumed_with_the_same_lines(tmp_path, out, monkeypatch):
    requests = some_requests(30)
    path = write_jsonl(tmp_path / "requests.jsonl", requests)
    stopped(from_stdin(monkeypatch, path), out)
    other = write_jsonl(tmp_path / "other.jsonl", requests[1:])
    with pytest.raises(BatchError, match="since this differs: input;"):
        run_batch(from_stdin(monkeypatch, other), out, POLICY, resume=True)
    assert run_batch(from_stdin(monkeypatch, path), out, POLICY, workers=1, resume=True).resumed == 8
    assert rows_of(out) == expected_rows(requests)


@pytest.mark.parametrize("form", ["gz", "zst"])
@pytest.mark.parametrize("damage", [lambda text: text[:-20], lambda text: b"no" + text])
def test_a_damaged_archive_is_refused_and_nothing_is_left(tmp_path, out, form, damage):
    path = packed(write_jsonl(tmp_path / "requests.jsonl", some_requests(30)), form)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BatchError, match=r"requests\.jsonl\.\w+: cannot be unpacked"):
        run_batch(path, out, POLICY, workers=1)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["requests.jsonl", path.name]


def test_without_pyarrow_zstandard_says_what_to_install(tmp_path, out, monkeypatch):
    path = packed(write_jsonl(tmp_path / "requests.jsonl", some_requests(3)), "zst")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'cupel-context\[batch\]'"):
        run_batch(path, out, POLICY, workers=1)


# Values of Parquet that one row has and no other must suffer from

TEXT, NUMBER = pa.string(), pa.int64()
FAR = 10**17  # microseconds, beyond the year 5000
BAD_VALUES = {
    "far timestamps": (
        pa.timestamp("ms", "UTC"),
        "timestamp",
        [0, FAR],
        "items[0]: timestamp cannot be read: OverflowError: date value out of range",
    ),
    "maps with a key twice": (
        pa.map_(TEXT, NUMBER),
        "metadata",
        [[("k", 1)], [("k", 1), ("k", 2)]],
        "items[0]: metadata cannot be read: the map has the key 'k' twice",
    ),
    "lists as metadata": (
        pa.list_(NUMBER),
        "metadata",
        [None, [1, 2]],
        "items[0]: metadata must be a mapping, got list: [1, 2]",
    ),
    "odd durations in metadata": (
        pa.struct([("took", pa.duration("ns"))]),
        "metadata",
        [{"took": 1000}, {"took": 1}],
        "items[0]: metadata cannot be read: Nanosecond duration 1",
    ),
}


@pytest.mark.parametrize("target", ["jsonl", "parquet"])
@pytest.mark.parametrize("case", BAD_VALUES)
def test_a_value_that_cannot_be_read_is_its_rows_error(tmp_path, case, target):
    found, name, (good, bad), message = BAD_VALUES[case]
    item = pa.struct([("content", TEXT), ("tokens", NUMBER), (name, found)])
    rows = [[{"content": "a", "tokens": 1, name: value}] for value in (good, bad, good)]
    pq.write_table(pa.table({"items": pa.array(rows, pa.list_(item))}), tmp_path / "requests.parquet")
    done = run_batch(tmp_path / "requests.parquet", tmp_path / f"out.{target}", POLICY, budget=BUDGET, workers=1)
    assert (done.written, done.errors) == (2, 1)
    error = json.loads(done.errors_file.read_text())
    assert error["row"] == 1
    assert error["error"].startswith(message)
    assert error["request"]["items"][0]["content"] == "a"


def test_a_column_that_json_cannot_hold_is_its_rows_error_in_lines_only(tmp_path):
    kept = pa.array([[("k", 1)], [("k", 1), ("k", 2)]], pa.map_(TEXT, NUMBER))
    items = pa.array([[{"content": "a", "tokens": 1}]] * 2)
    pq.write_table(pa.table({"items": items, "kept": kept}), tmp_path / "requests.parquet")
    lines = run_batch(tmp_path / "requests.parquet", tmp_path / "out.jsonl", POLICY, budget=BUDGET, workers=1)
    assert (lines.written, lines.errors) == (1, 1)
    assert "cannot be written as JSON" in json.loads(lines.errors_file.read_text())["error"]
    columns = run_batch(tmp_path / "requests.parquet", tmp_path / "out.parquet", POLICY, budget=BUDGET, workers=1)
    assert (columns.written, columns.errors) == (2, 0)


def test_two_columns_of_one_name_are_refused():
    items = pa.array([[{"content": "a", "tokens": 1}]])
    table = pa.Table.from_arrays([items, pa.array(["x"]), pa.array(["y"])], names=["items", "id", "id"])
    with pytest.raises(BatchError, match="the table has two columns 'id'; rename one"):
        BatchSelector(POLICY, BUDGET)(table)


@pytest.mark.parametrize(
    ("budgets", "error"),
    [
        (pa.array([70.0, None]), None),
        (pa.array([{"max_tokens": 70.0, "target_tokens": 70.0}, None]), None),
        (pa.array([70.5, None]), "budget must be a whole number of tokens, got 70.5"),
        (pa.array([float("inf"), None]), "budget must be a whole number of tokens, got inf"),
    ],
)
def test_budgets_that_pandas_made_floats_are_taken_if_they_are_whole(budgets, error):
    requests = pa.table({"items": pa.array([[{"content": "a", "tokens": 60}]] * 2), "budget": budgets})
    assert BatchSelector(POLICY, BUDGET)(requests).column("error").to_pylist() == [error, None]


def test_a_small_file_of_large_rows_is_read_in_pieces(tmp_path):
    """Dictionaries make them small: 200 rows of 400 KB each are a file of some 20 KB."""
    items = pa.array([[{"content": "long " * 8000, "tokens": 10}] * 10] * 200)
    path = tmp_path / "requests.parquet"
    pq.write_table(pa.table({"items": items}), path)
    assert path.stat().st_size < 100_000
    [shard] = plan_parquet(path, None)
    sizes = [table.nbytes for table in read_parquet_shard(path, shard)]
    assert sum(sizes) > 4 * SHARD_BYTES
    assert max(sizes) < 1.5 * SHARD_BYTES


def test_pieces_do_not_show(tmp_path, monkeypatch):
    requests = some_requests(50)
    path = write_parquet(tmp_path / "requests.parquet", requests)
    monkeypatch.setattr("cupel.batch._parquet.SHARD_BYTES", 1000)
    for target in ("parquet", "jsonl"):
        run_batch(path, tmp_path / f"out.{target}", POLICY, workers=1)
        assert rows_of(tmp_path / f"out.{target}") == expected_rows(requests)


# Rows that failed


@pytest.mark.parametrize("source", ["jsonl", "parquet"])
def test_a_file_of_errors_can_be_run_again(tmp_path, out, source):
    requests = [
        {**request, "budget": None} if row % 3 == 0 else request for row, request in enumerate(some_requests(9))
    ]
    write = write_jsonl if source == "jsonl" else write_parquet
    path = write(tmp_path / f"requests.{source}", requests)
    failed = run_batch(path, out, POLICY, workers=1)
    assert failed.errors >= 3
    again = run_batch(failed.errors_file, tmp_path / "again.jsonl", POLICY, budget=ContextBudget(9999, 9999), workers=1)
    fixed = {row[1] for row in rows_of(tmp_path / "again.jsonl")}
    assert {"r0", "r3", "r6"} <= fixed
    assert again.rows == failed.errors


def test_a_row_that_fails_again_keeps_its_request(tmp_path, out):
    path = write_jsonl(tmp_path / "requests.jsonl", [{"id": "x", "items": []}])
    first = run_batch(path, out, POLICY, workers=1)
    second = run_batch(first.errors_file, tmp_path / "again.jsonl", POLICY, workers=1)
    assert json.loads(second.errors_file.read_text()) == json.loads(first.errors_file.read_text())


def test_a_line_that_is_no_json_is_kept_as_text(tmp_path, out):
    (tmp_path / "requests.jsonl").write_bytes(b'{"items": [\xff\n')
    done = run_batch(tmp_path / "requests.jsonl", out, POLICY, workers=1)
    assert json.loads(done.errors_file.read_text())["request"] == '{"items": [\ufffd'
    again = run_batch(done.errors_file, tmp_path / "again.jsonl", POLICY, workers=1)
    assert "list of messages, got str" in json.loads(again.errors_file.read_text())["error"]


def test_too_many_errors_stop_the_job_which_can_be_resumed(tmp_path, out):
    path = write_jsonl(tmp_path / "requests.jsonl", [{"items": []}] * 12)
    with pytest.raises(BatchFailedError, match=r"8 rows failed, more than max_errors=5; .*budget is missing.*--resume"):
        run_batch(path, out, POLICY, workers=1, shard_rows=4, max_errors=5)
    with pytest.raises(BatchFailedError, match="more than max_errors=5"):
        run_batch(path, out, POLICY, workers=1, max_errors=5, resume=True)
    done = run_batch(path, out, POLICY, workers=1, max_errors=12, resume=True)
    assert (done.errors, done.resumed) == (12, 8)


def test_both_spellings_of_an_item_are_read(tmp_path, out):
    plain = {"content": "a", "tokens": 3, "original_tokens": 9, "future_relevance_hint": 0.5}
    camel = {"content": "b", "tokens": 3, "originalTokens": 9, "futureRelevanceHint": 0.5, "kind": None, "tags": ["t"]}
    lists = [[plain], [camel], [plain, camel]]
    path = write_jsonl(tmp_path / "requests.jsonl", [{"items": items, "budget": 50} for items in lists])
    assert run_batch(path, out, POLICY, workers=1, report=True).errors == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["items"] for row in rows] == lists
    reports = [[entry["item"] for entry in row["report"]["included"]] for row in rows]
    assert reports[2] == reports[0] + reports[1]
