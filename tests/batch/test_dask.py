"""The Dask engine, on a real cluster of processes."""

import os
import signal
import sys
import warnings

import pyarrow as pa
import pytest

from cupel.batch import BatchError, BatchSelector, run_batch
from tests.batch.requests import POLICY, SCHEMA, expected_rows, rows_of, some_requests, write_parquet

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster:
            yield cluster


pytestmark = pytest.mark.filterwarnings("default")  # the cluster's own


def test_a_job_at_an_address_gives_what_the_plain_loop_gives(tmp_path, cluster):
    requests = some_requests(60)
    path = write_parquet(tmp_path / "requests.parquet", requests, row_group_size=25)
    out = tmp_path / "out.parquet"
    done = run_batch(path, out, POLICY, engine="dask", scheduler=cluster.scheduler_address, shard_rows=7)
    assert done.rows == 60
    assert rows_of(out) == expected_rows(requests)
    run_batch(path, tmp_path / "local.parquet", POLICY, workers=1, shard_rows=7)
    assert out.read_bytes() == (tmp_path / "local.parquet").read_bytes()


def test_a_selector_maps_over_tables(cluster):
    requests = pa.Table.from_pylist(some_requests(30), schema=SCHEMA)
    selector = BatchSelector(POLICY)
    with distributed.Client(cluster) as client:
        # Dask names a pure task by hashing its arguments, and takes slices of one table for the same table.
        slices = [requests.slice(start, 10) for start in (0, 10, 20)]
        tables = client.gather(client.map(selector, slices, pure=False))
    assert pa.concat_tables(tables).equals(selector(requests))


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_worker_lost_in_the_middle_loses_and_duplicates_nothing(tmp_path, cluster):
    requests = some_requests(400, 9)
    path = write_parquet(tmp_path / "requests.parquet", requests)
    with distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
    killed = []

    def kill_one(progress):
        if progress.done >= 40 and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    done = run_batch(
        path,
        tmp_path / "out.parquet",
        POLICY,
        engine="dask",
        scheduler=cluster.scheduler_address,
        shard_rows=4,
        on_progress=kill_one,
    )
    assert killed
    assert done.rows == 400
    assert rows_of(tmp_path / "out.parquet") == expected_rows(requests)


def test_without_an_address_a_cluster_is_started_for_the_job(tmp_path):
    requests = some_requests(12)
    path = write_parquet(tmp_path / "requests.parquet", requests)
    run_batch(path, tmp_path / "out.jsonl", POLICY, engine="dask", workers=1, shard_rows=5)
    assert rows_of(tmp_path / "out.jsonl") == expected_rows(requests)


def test_an_address_where_nobody_answers_is_named(tmp_path):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(1))
    with pytest.raises(BatchError, match=r"--scheduler nonsense://x"):
        run_batch(path, tmp_path / "out.jsonl", POLICY, engine="dask", scheduler="nonsense://x")
