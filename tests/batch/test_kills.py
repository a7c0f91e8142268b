"""Kills at random moments, from the first to the last: `make kill-batch` tries a hundred, an ordinary run a few.

`test_interruptions` kills the command alone, while it writes lines; here its workers die with it.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from cupel.batch import run_batch
from tests.batch.requests import POLICY, some_requests, write_jsonl, write_parquet
from tests.batch.test_interruptions import COMMAND

KILLS = int(os.environ.get("CUPEL_KILLS", "2"))
FORMS = ["jsonl", "parquet"] if "CUPEL_KILLS" in os.environ else ["parquet"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize("form", FORMS)
def test_a_job_that_is_killed_at_any_moment_and_resumed_gives_the_same_bytes(tmp_path, form):
    requests = some_requests(300, 7)
    write = write_jsonl if form == "jsonl" else write_parquet
    path, whole, out = (
        write(tmp_path / f"requests.{form}", requests),
        tmp_path / f"whole.{form}",
        tmp_path / f"o.{form}",
    )
    run_batch(path, whole, POLICY, workers=1, shard_rows=20)
    arguments = ["--policy", "chat", "--workers", "2", "--shard-rows", "20", "--resume", "-q"]
    rnd = random.Random(form)
    killed = finished = resumed = 0
    longest = 0.0  # seconds of a run that nobody kills, which the first tells
    while killed < KILLS or finished < 2:
        begun = time.monotonic()
        command = [*COMMAND, str(path), "-o", str(out), *arguments]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        if finished and killed < KILLS:
            wait(process, rnd.uniform(0, 1.1 * longest))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        _, said = process.communicate(timeout=120)
        if process.returncode == -signal.SIGKILL:
            killed += 1
            resumed += (tmp_path / f"o.{form}.parts").exists()
            assert not out.exists() or out.read_bytes() == whole.read_bytes()
            continue
        assert process.returncode in {0, 3}, said
        longest = max(longest, time.monotonic() - begun)
        finished += 1
        assert out.read_bytes() == whole.read_bytes()
        assert errors(out) == errors(whole)
        assert not [file for file in tmp_path.iterdir() if ".parts" in file.name or file.suffix == ".lock"]
        for file in tmp_path.glob("o.*"):
            file.unlink()
    print(f"{form}: {killed} kills, {resumed} left parts, {finished} jobs finished with the same bytes")


def wait(process, seconds):
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)


def errors(out):
    return out.with_name(f"{out.name}.errors.jsonl").read_bytes()
