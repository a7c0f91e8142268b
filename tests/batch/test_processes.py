"""Worker processes are started where that can work; where it cannot, the error says what to do."""

import json
import os
import subprocess
import sys

import pytest

from cupel.batch._workers import cores
from tests.batch.requests import some_requests, write_jsonl

SCRIPT = """
import sys
from cupel import presets
from cupel.batch import run_batch
done = run_batch(sys.argv[-2], sys.argv[-1], presets.chat(), workers=2, shard_rows=5)
"""
ADVICE = "put the call under `if __name__ == '__main__':` in a file"


@pytest.fixture
def arguments(tmp_path):
    return [str(write_jsonl(tmp_path / "requests.jsonl", some_requests(20))), str(tmp_path / "out.jsonl")]


def test_a_program_without_a_guard_is_told_what_to_do(tmp_path, arguments):
    (tmp_path / "program.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "program.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert ADVICE in done.stderr.splitlines()[-1]


def test_a_program_from_standard_input_is_told_what_to_do_or_works(arguments):
    command = [sys.executable, "-", *arguments]
    done = subprocess.run(command, input=SCRIPT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 or ADVICE in done.stderr.splitlines()[-1]


def test_a_daemonic_process_is_told_what_to_do(tmp_path, arguments):
    lines = [f"    {line}" for line in SCRIPT.strip().splitlines()]
    program = "\n".join(["import multiprocessing", "def work():", *lines, "if __name__ == '__main__':"])
    program += "\n    process = multiprocessing.Process(target=work, daemon=True); process.start(); process.join()"
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, str(tmp_path / "program.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "a daemonic process cannot start workers: ask for workers=1" in done.stderr.splitlines()[-1]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_only_the_cores_that_may_be_used_are_counted():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_a_worker_that_dies_again_and_again_ends_the_job_in_a_way_that_can_be_resumed(tmp_path, arguments):
    (tmp_path / "deadly.py").write_text(
        "import os\nfrom cupel import Pipeline, Scorer\nfrom cupel.policy import register_scorer\n"
        "@register_scorer('deadly')\nclass Deadly(Scorer):\n"
        "    def score(self, item, all_items): os._exit(9)\n"
        "    def score_all(self, items): os._exit(9)\n"
        "from cupel.batch import BatchFailedError, run_batch\nimport sys\n"
        "if __name__ == '__main__':\n"
        "    try: run_batch(sys.argv[1], sys.argv[2], Pipeline(scorer=Deadly()), workers=2, shard_rows=5)\n"
        "    except BatchFailedError as error: print(error)\n"
    )
    command = [sys.executable, str(tmp_path / "deadly.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "worker processes died 3 times on the same shards" in done.stdout, done.stderr
    assert json.loads((tmp_path / "out.jsonl.parts" / "job.json").read_text())["job"] == "cupel-batch"
