"""The Dask engine, on a real cluster of processes."""

import os
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest

from cupel.batch import BatchError, BatchFailedError, BatchSelector, run_batch
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


def selections(start, table):
    return BatchSelector(POLICY)(table.slice(start, 10))


def test_a_selector_maps_over_a_table(cluster):
    """The recipe of the documentation: the table is sent once, the slices are taken where it is."""
    requests = pa.Table.from_pylist(some_requests(30), schema=SCHEMA)
    with distributed.Client(cluster) as client:
        scattered = client.scatter(requests, broadcast=True)
        tables = client.gather(client.map(selections, range(0, 30, 10), table=scattered))
    assert pa.concat_tables(tables).equals(BatchSelector(POLICY)(requests))


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("lost", [1, 2], ids=["one of them", "all of them"])
def test_workers_lost_in_the_middle_lose_and_duplicate_nothing(tmp_path, cluster, lost):
    requests = some_requests(400, 9)
    path = write_parquet(tmp_path / "requests.parquet", requests)
    with distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
    killed = []

    def kill_some(progress):
        if progress.done >= 40 and not killed:
            killed.extend(pids[:lost])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    done = run_batch(
        path,
        tmp_path / "out.parquet",
        POLICY,
        engine="dask",
        scheduler=cluster.scheduler_address,
        shard_rows=4,
        on_progress=kill_some,
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


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_lost_scheduler_is_a_failure_that_can_be_resumed(tmp_path):
    requests = some_requests(300, 4)
    path = write_parquet(tmp_path / "requests.parquet", requests)
    script = "from distributed.cli.dask_scheduler import main; main()"
    arguments = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(tmp_path / "s.json")]
    with ExitStack() as stack:
        scheduler = stack.enter_context(_process(script, arguments))
        script = "from distributed.cli.dask_worker import main; main()"
        arguments = ["--scheduler-file", str(tmp_path / "s.json"), "--nthreads", "1", "--no-dashboard", "--no-nanny"]
        stack.enter_context(_process(script, [*arguments, "--death-timeout", "5"]))
        with distributed.Client(scheduler_file=str(tmp_path / "s.json"), timeout=30) as client:
            client.wait_for_workers(1, timeout=30)
            address = client.scheduler.address

        def lose(progress):
            if progress.done >= 40 and scheduler.poll() is None:
                scheduler.kill()

        options = {"engine": "dask", "scheduler": address, "shard_rows": 4, "on_progress": lose}
        with pytest.raises(BatchFailedError, match=r"lost the scheduler at tcp://127.*--resume"):
            run_batch(path, tmp_path / "out.jsonl", POLICY, **options)
    done = run_batch(path, tmp_path / "out.jsonl", POLICY, workers=1, resume=True)
    assert done.resumed >= 40
    assert rows_of(tmp_path / "out.jsonl") == expected_rows(requests)


@contextmanager
def _process(script, arguments):
    process = subprocess.Popen([sys.executable, "-c", script, *arguments], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_cluster_without_workers_is_said_to_have_none(tmp_path, caplog):
    path = write_parquet(tmp_path / "requests.parquet", some_requests(3))
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50) as cluster,
        caplog.at_level("WARNING", "cupel"),
        ThreadPoolExecutor(1) as pool,
    ):
        address = cluster.scheduler_address
        job = pool.submit(run_batch, path, tmp_path / "out.parquet", POLICY, engine="dask", scheduler=address)
        deadline = time.monotonic() + 30
        while not said(caplog) and time.monotonic() < deadline:
            time.sleep(0.05)
        cluster.scale(1)
        assert job.result(60).rows == 3
    assert said(caplog) == [f"the Dask cluster at {address} has no workers: the job waits for the first"]


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "cupel"]
