"""A job may be ended at any moment, by anything: what it leaves behind is always enough to go on exactly."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from cupel._internal.files import whole
from cupel.batch import run_batch
from cupel.batch._source import Shard
from cupel.batch._state import Outputs, Parts
from tests.batch.requests import POLICY, expected_rows, rows_of, some_requests, write_jsonl, write_parquet

COMMAND = [sys.executable, "-c", "import sys; from cupel.cli import main; sys.exit(main())", "batch"]


class Crash(BaseException):
    """Ends the process, as far as the code can tell."""


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_crashes_at_random_points_of_the_files_change_nothing(tmp_path, monkeypatch, seed, form):
    """Each run dies before or after some rename, until one survives; nothing is mended in between."""
    requests = some_requests(40, seed)
    path = write_parquet(tmp_path / "requests.parquet", requests, row_group_size=15)
    out = tmp_path / f"out.{form}"
    rnd = random.Random(seed)
    real = os.replace
    lives = [0]

    def dying(self, target):
        lives[0] -= 1
        if lives[0] == 0 and rnd.random() < 0.5:
            raise Crash
        real(self, target)
        if lives[0] == 0:
            raise Crash

    monkeypatch.setattr("pathlib.Path.replace", dying)
    crashes = 0
    while True:
        lives[0] = rnd.randint(1, 5)
        try:
            run_batch(path, out, POLICY, workers=1, shard_rows=4, resume=True)
        except Crash:
            crashes += 1
        else:
            break
    assert crashes > 2
    assert rows_of(out) == expected_rows(requests)
    assert not Parts(Outputs.named(out)).path.exists()


def test_a_draft_that_failed_is_removed(tmp_path):
    def half_written():
        with whole(tmp_path / "file") as draft:
            draft.write_text("half")
            raise Crash

    with pytest.raises(Crash):
        half_written()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_the_command_is_ended_at_random_points_and_resumed_until_done(tmp_path, ending):
    requests = some_requests(500, 5)
    path = write_jsonl(tmp_path / "requests.jsonl", requests)
    out = tmp_path / "out.jsonl"
    command = [
        *COMMAND,
        str(path),
        "-o",
        str(out),
        "--policy",
        "chat",
        "--workers",
        "2",
        "--shard-rows",
        "3",
        "--resume",
    ]
    rnd = random.Random(int(ending))
    interrupted = 0
    for _ in range(40):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        if interrupted < 2:
            _wait_for_progress(Parts(Outputs.named(out)), process, rnd.randint(1, 25))
            if ending is signal.SIGINT:
                os.killpg(process.pid, ending)  # as the terminal does: the workers get it too
            else:
                process.kill()
        _, errors = process.communicate(timeout=60)
        if process.returncode in {0, 3}:
            break
        interrupted += 1
        assert process.returncode == (130 if ending is signal.SIGINT else -ending), errors
        assert not out.exists()
        assert "Traceback" not in errors
    assert interrupted == 2
    assert rows_of(out) == expected_rows(requests)


def _wait_for_progress(parts, process, shards):
    """Wait until so many more shards are finished than at the start."""
    deadline = time.monotonic() + 60
    before = finished_shards(parts.path)
    while time.monotonic() < deadline and process.poll() is None:
        if finished_shards(parts.path) >= before + shards:
            return
        time.sleep(0.005)


def finished_shards(parts):
    """Count the lines of the journal."""
    try:
        return len((parts / "done.jsonl").read_bytes().split())
    except FileNotFoundError:
        return 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("place", [0, 1])
def test_a_worker_process_that_dies_is_replaced_and_its_shards_are_redone(tmp_path, place):
    """One of the two has begun, the other perhaps not yet."""
    requests = some_requests(300, 6)
    path = write_parquet(tmp_path / "requests.parquet", requests)
    killed = []

    def kill_one(progress):
        if progress.done and not killed:
            victim = sorted(multiprocessing.active_children(), key=lambda process: process.pid)[place]
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    done = run_batch(path, tmp_path / "out.parquet", POLICY, workers=2, shard_rows=5, on_progress=kill_one)
    assert killed
    assert done.rows == 300
    assert rows_of(tmp_path / "out.parquet") == expected_rows(requests)


def test_shards_can_be_read_in_any_order(tmp_path):
    """A shard that is redone may lie behind the place where its worker has got to."""
    from cupel.batch._parquet import plan_parquet, read_parquet_shard

    path = write_parquet(tmp_path / "requests.parquet", some_requests(50), row_group_size=30)
    shards = plan_parquet(path, 7)
    assert [shard.rows for shard in shards] == [7, 7, 7, 7, 2, 7, 7, 6]
    for shard in random.Random(0).sample(shards, len(shards)):
        [table] = read_parquet_shard(path, shard)
        ids = table.column("id").to_pylist()
        assert ids == [f"r{row}" for row in range(shard.first_row, shard.first_row + shard.rows)]
    assert isinstance(shards[0], Shard)


def test_a_worker_stays_in_its_row_group_and_helps_where_most_is_left():
    from cupel.batch._workers import ShardQueue

    sizes = [3, 2, 4]
    shards = [Shard(0, 0, 1, start, start + 1, group) for group, size in enumerate(sizes) for start in range(size)]
    queue = ShardQueue(shards)
    turns = [(worker, next(queue.shards_for(worker))) for worker in (0, 1, 0, 1, 0, 1, 0, 1, 0)]
    assert [(worker, shard.row_group, shard.start) for worker, shard in turns] == [
        (0, 0, 0),
        (1, 1, 0),
        (0, 0, 1),
        (1, 1, 1),
        (0, 0, 2),
        (1, 2, 0),
        (0, 2, 1),
        (1, 2, 2),
        (0, 2, 3),
    ]
    assert next(queue.shards_for(0), None) is None
