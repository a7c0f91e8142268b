"""Nothing is lost or mixed: one writer, whole parts, an input that stays what it was, no file of others touched."""

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from cupel.batch import BatchError, BatchFailedError, run_batch
from cupel.batch._state import Outputs, Parts, locked
from cupel.cli import main
from cupel.errors import MissingExtraError
from tests.batch.requests import POLICY, expected_rows, rows_of, some_requests, write_jsonl
from tests.batch.test_interruptions import COMMAND, Crash, finished_shards

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and links of POSIX")


def parts_of(out):
    return Parts(Outputs.named(out)).path


class Stop(Exception):  # noqa: N818
    """Stands for anything that ends a run."""


def stopped(path, out, after=8, **options):
    """Run a job in shards of four rows until it has done so many rows."""

    def stop(progress):
        if progress.done >= after:
            raise Stop

    with pytest.raises(Stop):
        run_batch(path, out, POLICY, workers=1, shard_rows=4, on_progress=stop, **options)


@pytest.fixture
def requests():
    return some_requests(20)


@pytest.fixture
def path(tmp_path, requests):
    return write_jsonl(tmp_path / "requests.jsonl", requests)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


# One writer


def test_a_second_run_is_told_who_holds_the_output(path, out):
    with locked(out), pytest.raises(BatchError, match=rf"being written by another run: process {os.getpid()} on "):
        run_batch(path, out, POLICY, restart=True)
    assert not out.exists()
    assert run_batch(path, out, POLICY, workers=1).rows == 20
    assert not out.with_name("out.jsonl.lock").exists()


@posix
def test_a_link_to_the_output_is_the_same_output(path, out, tmp_path):
    link = tmp_path / "link.jsonl"
    link.symlink_to(out)
    with locked(out), pytest.raises(BatchError, match="being written by another run"):
        run_batch(path, link, POLICY)
    run_batch(path, link, POLICY, workers=1)
    assert link.is_symlink()
    assert out.exists()


@posix
def test_of_two_commands_one_writes_and_the_other_says_so(tmp_path):
    requests = some_requests(1_000)  # long enough that the others begin before the first one ends
    path, out = write_jsonl(tmp_path / "requests.jsonl", requests), tmp_path / "out.jsonl"
    command = [*COMMAND, str(path), "-o", str(out), "--policy", "chat", "--workers", "1", "--shard-rows", "2"]
    runs = [
        subprocess.Popen([*command, *extra], stderr=subprocess.PIPE, text=True)
        for extra in ([], ["--restart"], ["--resume"])
    ]
    said = [run.communicate(timeout=60)[1] for run in runs]
    refused = ["is being written by another run" in text for text in said]
    assert any(refused), said
    assert [run.returncode for run in runs] == [2 if one else 3 for one in refused], said
    assert rows_of(out) == expected_rows(requests)


@posix
def test_the_lock_of_a_killed_run_holds_nobody_up(path, out):
    script = "import sys, time; from pathlib import Path; from cupel.batch._state import locked\n"
    script += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script, str(out)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(BatchError, match=f"process {process.pid} on"):
            run_batch(path, out, POLICY)
        process.kill()
    assert out.with_name("out.jsonl.lock").exists()
    assert run_batch(path, out, POLICY, workers=1).rows == 20


@pytest.mark.parametrize("name", ["out.jsonl.lock", "out.jsonl.errors.jsonl", "out.jsonl.job.json"])
def test_a_strangers_file_is_neither_taken_nor_changed(path, out, name):
    stranger = out.with_name(name)
    stranger.write_text("precious")
    with pytest.raises(BatchError, match=f"{name} is in the way"):
        run_batch(path, out, POLICY, restart=True)
    assert stranger.read_text() == "precious"


@posix
def test_a_lock_file_that_is_a_pipe_is_refused(path, out):
    os.mkfifo(out.with_name("out.jsonl.lock"))
    with pytest.raises(BatchError, match=r"out\.jsonl\.lock is in the way"):
        run_batch(path, out, POLICY)


def test_without_filelock_the_extra_is_named(path, out, monkeypatch):
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(MissingExtraError, match=r"cupel-context\[batch\]"):
        run_batch(path, out, POLICY)


def test_a_folder_that_cannot_be_written_to_is_named_as_it_was_given(path, tmp_path, monkeypatch):
    def refused(*_arguments, **_options):
        raise PermissionError(errno.EACCES, "Permission denied", "/some/draft")

    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    with pytest.raises(BatchError, match=r"out\.jsonl: cannot be written there: Permission denied"):
        run_batch(path, tmp_path / "out.jsonl", POLICY)


# Whole parts


def cut(file):
    file.write_bytes(file.read_bytes()[:-9])


def corrupt(file):
    file.write_bytes(file.read_bytes().replace(b'"selected"', b'"selectee"').replace(b'"written"', b'"wrottin"'))


def empty(file):
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, corrupt, empty, Path.unlink])
def test_a_damaged_part_is_noticed_and_done_again(path, out, requests, damage):
    stopped(path, out, 12)
    damage(next(parts_of(out).glob("000001-*[0-9a-f].jsonl")))
    done = run_batch(path, out, POLICY, workers=1, resume=True)
    assert done.resumed == 8
    assert rows_of(out) == expected_rows(requests)


@pytest.mark.parametrize(("damage", "resumed"), [(cut, 8), (corrupt, 0), (empty, 0), (Path.unlink, 0)])
def test_shards_that_the_journal_no_longer_lists_are_done_again(path, out, requests, damage, resumed):
    stopped(path, out, 12)
    damage(parts_of(out) / "done.jsonl")
    done = run_batch(path, out, POLICY, workers=1, resume=True)
    assert done.resumed == resumed
    assert rows_of(out) == expected_rows(requests)


def test_a_line_that_a_killed_run_has_not_ended_breaks_no_other(path, out):
    stopped(path, out, 12)
    cut(parts_of(out) / "done.jsonl")
    stopped(path, out, 16, resume=True)
    assert run_batch(path, out, POLICY, workers=1, resume=True).resumed == 16


def test_a_damaged_list_of_errors_is_noticed_too(path, out):
    path.write_text("{\n" * 20)
    stopped(path, out)
    cut(next(parts_of(out).glob("000001-*.errors.jsonl")))
    assert run_batch(path, out, POLICY, workers=1, resume=True).resumed == 4


@pytest.mark.parametrize("ending", [{}, {"restart": True}], ids=["done", "restarted"])
@pytest.mark.parametrize("deleted", range(6))
def test_a_kill_in_the_middle_of_deleting_parts_leaves_a_job_that_goes_on(
    path, out, requests, monkeypatch, ending, deleted
):
    stopped(path, out)
    left = [deleted]
    real = os.unlink

    def dying(self, **_options):
        if self.parent.suffix == ".parts":
            left[0] -= 1
            if left[0] < 0:
                raise Crash
        real(self)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dying)
        with pytest.raises(Crash):
            run_batch(path, out, POLICY, workers=1, **(ending or {"resume": True}))
    run_batch(path, out, POLICY, workers=1, resume=True)
    assert rows_of(out) == expected_rows(requests)
    assert not [path for path in out.parent.iterdir() if ".parts" in path.name]


def test_a_strangers_folder_is_refused(path, out):
    folder = parts_of(out)
    folder.mkdir()
    (folder / "precious").touch()
    for options in ({}, {"resume": True}, {"restart": True}):
        with pytest.raises(BatchError, match="is in the way: it holds 'precious', which no run has made"):
            run_batch(path, out, POLICY, **options)
    assert (folder / "precious").exists()


@pytest.mark.parametrize("make", [Path.touch, lambda folder: folder.symlink_to(folder.parent)])
def test_a_strangers_file_in_place_of_the_folder_is_refused(path, out, make):
    make(parts_of(out))
    with pytest.raises(BatchError, match="is in the way: no run has made it"):
        run_batch(path, out, POLICY, restart=True)


def test_a_strangers_file_among_the_parts_keeps_them_from_being_deleted(path, out):
    stopped(path, out)
    (parts_of(out) / "notes.txt").touch()
    with pytest.raises(BatchError, match=r"it holds 'notes.txt', which no run has made"):
        run_batch(path, out, POLICY, restart=True)
    assert (parts_of(out) / "job.json").exists()


# The input stays what it is


def edited(path):
    """Change some bytes in the middle of a file; its size and its time stay."""
    status = path.stat()
    text = path.read_bytes()
    middle = text.index(b'"tokens": ', len(text) // 2) + len(b'"tokens": ')
    with path.open("r+b") as file:
        file.seek(middle)
        file.write(b"1" if text[middle : middle + 1] != b"1" else b"2")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [edited, cut, lambda path: path.write_bytes(path.read_bytes() * 2), Path.unlink])
def test_an_input_that_changes_during_a_run_is_refused_before_anything_is_finished(path, out, change):
    def disturb(progress):
        if progress.done == 8:
            change(path)

    with pytest.raises(BatchError):
        run_batch(path, out, POLICY, workers=1, shard_rows=4, on_progress=disturb)
    assert not out.exists()


def test_what_was_read_of_a_changed_input_is_not_kept(path, out):
    before = path.read_bytes()

    def disturb(progress):
        if progress.done == 8:
            edited(path)

    with pytest.raises(BatchError, match="the input has changed while it was read"):
        run_batch(path, out, POLICY, workers=1, shard_rows=4, on_progress=disturb)
    path.write_bytes(before)
    assert run_batch(path, out, POLICY, workers=1, resume=True).resumed == 0


def test_an_input_that_was_only_touched_is_the_same(path, out, requests):
    def touch(progress):
        if progress.done == 8:
            path.chmod(0o600)

    run_batch(path, out, POLICY, workers=1, shard_rows=4, on_progress=touch)
    assert rows_of(out) == expected_rows(requests)


def test_an_input_edited_between_two_runs_is_noticed(path, out):
    stopped(path, out)
    edited(path)
    with pytest.raises(BatchError, match="since this differs: input;"):
        run_batch(path, out, POLICY, resume=True)


def test_another_version_does_not_go_on(path, out, monkeypatch):
    stopped(path, out)
    monkeypatch.setattr("cupel.batch._state.__version__", "9.9")
    with pytest.raises(BatchError, match=r"since this differs: cupel \(\S+ began it\);"):
        run_batch(path, out, POLICY, resume=True)


@pytest.mark.parametrize("beside", ["", ".errors.jsonl"])
@pytest.mark.parametrize("link", [None, Path.symlink_to, Path.hardlink_to])
def test_neither_output_nor_errors_file_can_be_the_input(tmp_path, beside, link):
    path = write_jsonl(tmp_path / "w.jsonl.errors.jsonl", some_requests(3))
    out = tmp_path / "w.jsonl"
    if link is not None:
        path = path.rename(tmp_path / "requests.jsonl")
        link(tmp_path / f"w.jsonl{beside}", path)
    before = path.read_bytes()
    with pytest.raises(BatchError, match="is the input"):
        run_batch(path, out, POLICY, restart=True)
    assert path.read_bytes() == before


# Failures that can be resumed


def batch(*arguments):
    return main(["batch", *map(str, arguments), "--policy", "chat", "--shard-rows", "4", "-q"])


def full_disk(*_arguments):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("where", ["_jsonl.LineFile.write", "_jsonl.LineFile.add", "_run.sync_directory"])
def test_a_full_disk_has_its_own_exit_code_and_the_job_goes_on(path, out, requests, monkeypatch, capsys, where):
    with monkeypatch.context() as patched:
        patched.setattr(f"cupel.batch.{where}", full_disk)
        assert batch(path, "-o", out, "--workers", "1") == 4
    said = capsys.readouterr().err
    assert "No space left on device; finished shards are kept in" in said
    assert "continue with --resume" in said
    assert batch(path, "-o", out, "--workers", "1", "--resume") == 3
    assert rows_of(out) == expected_rows(requests)


@posix
def test_a_worker_that_cannot_write_fails_the_job_in_a_way_that_can_be_resumed(path, out, requests):
    command = [*COMMAND, str(path), "-o", str(out), "--policy", "chat", "--workers", "2", "--shard-rows", "4"]
    limited = ["bash", "-c", 'ulimit -f 2; exec "$@"', "limited", *command]
    done = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 4, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert batch(path, "-o", out, "--workers", "1", "--resume") == 3
    assert rows_of(out) == expected_rows(requests)


def test_the_library_has_an_error_of_its_own_for_that(path, out, monkeypatch):
    monkeypatch.setattr("cupel.batch._jsonl.LineFile.write", full_disk)
    with pytest.raises(BatchFailedError, match="No space left"):
        run_batch(path, out, POLICY, workers=1)


@posix
@pytest.mark.parametrize("pause", [0.0, 0.05, 0.3])
def test_any_number_of_interrupts_ends_cleanly(tmp_path, pause):
    path, out = write_jsonl(tmp_path / "requests.jsonl", some_requests(900)), tmp_path / "out.jsonl"
    command = [*COMMAND, str(path), "-o", str(out), "--policy", "chat", "--workers", "2", "--shard-rows", "3"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while process.poll() is None and not finished_shards(parts_of(out)):
        time.sleep(0.005)
    for _ in range(5):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        time.sleep(pause)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130, said
    assert said == f"cupel batch: interrupted; continue with --resume ({out}.parts)\n"
    assert ends(process.pid)


def ends(group):
    """Wait for the last process of a group; multiprocessing's own helper ends a moment after the others."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


# A finished job


def test_resuming_a_finished_job_does_nothing_and_says_so(path, out, capsys):
    arguments = ["batch", str(path), "-o", str(out), "--policy", "chat", "--workers", "1", "--resume"]
    assert main(arguments) == 3
    before = out.stat()
    capsys.readouterr()
    assert main(arguments) == 3  # some rows failed, whichever run found out
    assert capsys.readouterr().err.startswith("nothing to do: an earlier run wrote ")
    assert (out.stat().st_ino, out.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("change", [lambda out: out.write_text("other"), Path.unlink])
def test_an_output_that_is_no_longer_what_the_job_wrote_is_written_again(path, out, requests, change):
    run_batch(path, out, POLICY, workers=1)
    change(out)
    assert not run_batch(path, out, POLICY, workers=1, resume=True).was_finished
    assert rows_of(out) == expected_rows(requests)


def test_a_finished_job_is_done_again_for_another_question_or_a_restart(path, out):
    run_batch(path, out, POLICY, workers=1)
    assert not run_batch(path, out, POLICY, workers=1, resume=True, report=True).was_finished
    assert not run_batch(path, out, POLICY, workers=1, restart=True, report=True).was_finished
    assert not run_batch(path, out, POLICY, workers=1, report=True).was_finished
    assert run_batch(path, out, POLICY, workers=1, report=True, resume=True).was_finished


def test_the_output_keeps_its_mode(path, out):
    out.touch(0o600)
    run_batch(path, out, POLICY, workers=1)
    assert out.stat().st_mode & 0o777 == 0o600


def test_a_finished_job_with_too_many_errors_fails_again(path, out):
    done = run_batch(path, out, POLICY, workers=1)
    with pytest.raises(BatchFailedError, match=rf"{done.errors} rows failed, more than max_errors=0"):
        run_batch(path, out, POLICY, workers=1, resume=True, max_errors=0)


@posix
def test_the_errors_file_is_named_where_it_is(path, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "out.jsonl"
    link.symlink_to(tmp_path / "elsewhere" / "windows.jsonl")
    done = run_batch(path, link, POLICY, workers=1)
    assert done.errors_file == tmp_path / "elsewhere" / "windows.jsonl.errors.jsonl"
    assert done.errors_file.exists()


def test_an_edited_manifest_is_refused(path, out):
    stopped(path, out)
    manifest = parts_of(out) / "job.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"shards": []}))
    with pytest.raises(BatchError, match=r"job\.json was edited or is damaged; discard the run \(--restart\)"):
        run_batch(path, out, POLICY, resume=True)


def test_an_edited_record_does_not_stop_the_job_from_being_run(path, out):
    run_batch(path, out, POLICY, workers=1)
    record = out.with_name("out.jsonl.job.json")
    edited = json.loads(record.read_text()) | {"errors": 0}
    record.write_text(json.dumps(edited, separators=(",", ":")))
    assert not run_batch(path, out, POLICY, workers=1, resume=True).was_finished


# Rows that would take the process with them


@pytest.mark.filterwarnings("ignore:tiktoken cannot split")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_row_whose_tokeniser_panics_is_estimated(tmp_path, workers):
    lines = [
        {"messages": [{"role": "user", "content": text}], "budget": budget}
        for text, budget in (("a", 50), ("a" + " " * 10**6, 50_000), ("a" + " " * 10**6, 5_000), ("b", 50))
    ]
    path = write_jsonl(tmp_path / "requests.jsonl", lines)
    out = tmp_path / "out.jsonl"
    done = run_batch(path, out, POLICY, workers=workers, shard_rows=1)
    assert (done.written, done.errors) == (3, 1)
    error = json.loads(done.errors_file.read_text())
    assert error["row"] == 2
    assert "more than the 5000 available" in error["error"]


def test_a_line_over_the_limit_is_a_bad_row_that_names_the_limit(path, out, requests):
    longest = max(map(len, path.read_bytes().splitlines()))
    done = run_batch(path, out, POLICY, workers=1, max_row_bytes=longest - 1)
    bad = [json.loads(line) for line in done.errors_file.read_text().splitlines()]
    assert [error["row"] for error in bad if "allow more with --max-row-bytes" in error["error"]]
    assert done.written + done.errors == len(requests)


def test_an_unpacked_line_over_the_limit_is_never_held_in_memory(tmp_path):
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb") as stream:
        for _ in range(100):
            stream.write(b" " * 1_000_000)
    tracemalloc.start()
    done = run_batch(path, tmp_path / "out.jsonl", POLICY, workers=1, max_row_bytes=1_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done.errors == 1
    assert peak < 60_000_000


def test_another_limit_does_not_continue_the_job(path, out):
    stopped(path, out)
    with pytest.raises(BatchError, match="since this differs: max_row_bytes;"):
        run_batch(path, out, POLICY, resume=True, max_row_bytes=10)
